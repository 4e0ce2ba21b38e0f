"""Experiments: named components put together, run, compared, swept and tuned."""
