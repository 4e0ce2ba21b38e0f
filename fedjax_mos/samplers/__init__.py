"""Who takes part in a round, and with which weight."""

from fedjax_mos.samplers.adaptive import adaptive
from fedjax_mos.samplers.multinomial import multinomial
from fedjax_mos.samplers.uniform import uniform

__all__ = ["adaptive", "multinomial", "uniform"]
