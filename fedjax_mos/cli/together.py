"""Commands that several processes run together: --distributed."""

import dataclasses
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import tyro

from fedjax_mos.cli.arguments import all_cores


@dataclasses.dataclass(frozen=True)
class Processes:
    """Which processes run a command together."""

    distributed: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Several processes, on one or several machines, run this command as one."""
    coordinator_address: str | None = None
    """HOST:PORT of the first process; found by JAX under SLURM, GKE and Open MPI."""
    num_processes: int | None = None
    """How many processes there are; found likewise."""
    process_id: int | None = None
    """Which of them this is, from 0 on; found likewise."""


ALONE = Processes()
NAMES = tuple(f"--{f.name.replace('_', '-')}" for f in dataclasses.fields(Processes))


@contextmanager
def joined(given: Processes) -> Iterator[None]:
    """Meet the other processes, if there are any; only the first one prints."""
    fields = dataclasses.asdict(given)
    if not fields.pop("distributed"):
        for name, value in fields.items():
            if value is not None:
                raise ValueError(f"{name} goes with --distributed: got {value}")
        yield
        return
    from fedjax_mos import processes

    processes.start(**fields)
    all_cores()
    if processes.is_first():
        yield
        return
    streams = sys.stdout, sys.stderr
    with open(os.devnull, "w") as nowhere:
        sys.stdout = sys.stderr = nowhere
        try:
            yield
        finally:
            sys.stdout, sys.stderr = streams
