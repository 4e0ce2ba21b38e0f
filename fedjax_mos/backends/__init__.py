"""How clients are laid out: the only folder that knows they are a batch axis."""

from fedjax_mos.backends.devices import meshed, sharded, spread
from fedjax_mos.backends.mapping import chunked, debug, vmapped

__all__ = ["chunked", "debug", "meshed", "sharded", "spread", "vmapped"]
