"""Generated inputs, good and bad, and what must become of each."""
