"""Derivatives of whole runs with respect to their numbers, and tuning by them."""
