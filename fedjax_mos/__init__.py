"""fedjax_mos: federated learning as one pure, jitted function.

Clients are a leading batch axis, a round is `step(data, state, key)`, a training run is
a scan of it, and every float hyperparameter is a leaf of the state.

An `Experiment` puts named or own components together; `run`, `compare`, `sweep`, `tune`
and `hypergrad` take it from there. Below it, `simulation` takes the components
themselves.
"""

import lazy_loader

from fedjax_mos._version import __version__ as __version__

# Names are imported when they are used, as __init__.pyi lists them: a command that
# prints a help text should not wait for JAX.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
