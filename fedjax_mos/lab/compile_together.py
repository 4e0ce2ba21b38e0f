"""Programs of several experiments, compiled at the same time on several cores."""

import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from fedjax_mos.lab.experiment import Experiment
from fedjax_mos.lab.memory_checks import TREES
from fedjax_mos.lab.structure import structure
from fedjax_mos.machine import cores
from fedjax_mos.processes import several
from fedjax_mos.tree import bytes_of

_MOST = 2**30  # bytes of states beyond which experiments start one by one


def compile_together(
    experiments: Iterable[Experiment], seeds: int, *, progress: bool = True
) -> None:
    """Compile what each will run, one of a structure, as many at once as cores.

    Nothing is compiled where several states at once might not fit the memory, nor by
    several processes, which must all do the same things in the same order.
    """
    distinct = {structure(one): one for one in experiments}
    # What an experiment is refused for is found here, in the caller's own thread.
    sizes = [_bytes(one, seeds) for one in distinct.values()]
    if len(distinct) < 2 or max(sizes) > _MOST or several():
        return
    if progress:
        print(
            f"compiling {len(distinct)} programs, or loading them where they were kept",
            file=sys.stderr,
            flush=True,
        )
    with ThreadPoolExecutor(cores()) as pool:
        compiled = pool.map(lambda one: one.compile(seeds), distinct.values())
        # Last, for a core that would only wait; earlier it would hold up the tracing.
        pool.submit(_import_for_results)
        list(compiled)


def _import_for_results() -> None:
    """Import what results are written with."""
    import matplotlib.backends.backend_agg  # noqa: F401
    import pandas  # noqa: F401


def _bytes(experiment: Experiment, seeds: int) -> int:
    """Of the state of all seeds, roughly and without tracing anything."""
    made = experiment.build(lanes=seeds)
    return TREES * made.data.size.shape[0] * bytes_of(made.shapes) * seeds
