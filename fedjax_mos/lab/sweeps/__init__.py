"""Many configurations and seeds: what to try, runs that share a program, results."""
