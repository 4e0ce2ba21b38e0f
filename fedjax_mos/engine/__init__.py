"""A round as one pure function, many rounds as a scan, and what is kept of them."""
