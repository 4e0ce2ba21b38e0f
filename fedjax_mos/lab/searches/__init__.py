"""The best of many configurations: halving between rungs, and studies in batches."""
