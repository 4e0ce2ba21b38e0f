"""The names that an experiment and a comparison use where nothing is said."""

DEFAULT_ALGORITHM = "fedmos"
DEFAULT_SAMPLER = "acs"
DEFAULT_COMPARISON = ("fedmos/acs", "fedmos/ucs", "fedavg/ucs")
