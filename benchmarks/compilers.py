"""The compilers of TPUs and GPUs without a device, and what their programs say.

`pip install libtpu==VERSION` (that of `jax[tpu]`) brings the one, `jax[cuda12]` the
other; neither needs a device. Import this before anything starts JAX.
"""

import importlib.util
import math
import os
import re
from typing import Any, NamedTuple

# The process itself computes on the CPU; libtpu is to ask nobody which TPU it has.
os.environ |= {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-256",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
}

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax.experimental import topologies  # noqa: E402
from jax.sharding import Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

# An A100 SXM with 80 GB.
_A100 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152
  shared_memory_per_core: 167936 threads_per_core_limit: 2048 core_count: 108
  fpus_per_core: 64 block_dim_limit_x: 2147483647 block_dim_limit_y: 65535
  block_dim_limit_z: 65535 memory_bandwidth: 2039040000000 l2_cache_size: 41943040
  clock_rate_ghz: 1.41 device_memory_size: 85100068864
  shared_memory_per_block_optin: 166912 cuda_compute_capability { major: 8 }
  registers_per_core_limit: 65536 registers_per_block_limit: 65536 dnn_version: "9.8.0"
  thread_dim_limit_x: 1024 thread_dim_limit_y: 1024 thread_dim_limit_z: 64
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 8 }
device_description_str: "NVIDIA A100-SXM4-80GB"
"""
PLATFORM = {"v5e-1": "tpu", "v5e-16": "tpu", "v5e-256": "tpu", "a100": "cuda"}
_PACKAGE = {"tpu": "libtpu", "cuda": "jax_cuda12_plugin"}
_SHAPE = {
    "v5e-1": {"topology_name": "v5e:1x1x1", "chips_per_host_bounds": (1, 1, 1)},
    "v5e-16": {"topology_name": "v5e:4x4"},
    "v5e-256": {"topology_name": "v5e:16x16"},
    "a100": {
        "topology_name": "a100",
        "topology": "1x1x1",
        "target_config": _A100,
    },
}


def is_there(machine: str) -> bool:
    """Whether the machine's compiler is installed."""
    return importlib.util.find_spec(_PACKAGE[PLATFORM[machine]]) is not None


def mesh_of(machine: str, axis: str = "clients") -> Mesh:
    """All devices of a machine that is not there, along one axis."""
    found = topologies.get_topology_desc(platform=PLATFORM[machine], **_SHAPE[machine])
    auto = (jax.sharding.AxisType.Auto,)
    return Mesh(np.array(found.devices), (axis,), axis_types=auto)


def compiled(function: Any, args: Any, mesh: Mesh, specs: Any) -> Any:
    """A jitted function, compiled for a mesh; `specs` is a prefix of its arguments."""
    platform = mesh.devices.flat[0].platform
    platform = {"gpu": "cuda"}.get(platform, platform)
    shardings = jax.tree.map(
        lambda spec, part: jax.tree.map(lambda _: NamedSharding(mesh, spec), part),
        specs,
        args,
        is_leaf=lambda node: isinstance(node, P),
    )
    shapes = jax.tree.map(
        lambda leaf, where: jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=where
        ),
        args,
        shardings,
    )
    traced = function.trace(*shapes)
    return traced.lower(lowering_platforms=(platform,)).compile()


# Instructions that start no work of their own on a device.
_FREE = {
    *(
        "parameter",
        "constant",
        "tuple",
        "get-tuple-element",
        "bitcast",
        "while",
        "call",
    ),
    *("conditional", "after-all", "partition-id", "replica-id", "copy-done", "iota"),
    *("opt-barrier", "slice-done", "async-done", "async-update"),
}
_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
_COLLECTIVES += ("collective-permute",)
_BYTES = {
    "pred": 1,
    "u8": 1,
    "s8": 1,
    "bf16": 2,
    "f16": 2,
    "f64": 8,
    "s64": 8,
    "u64": 8,
}


class Instruction(NamedTuple):
    """One line of a compiled program."""

    name: str
    type: str
    op: str
    rest: str


class Text:
    """A compiled program by its computations."""

    def __init__(self, text: str) -> None:
        self.text, self.entry = text, ""
        self.computations: dict[str, list[Instruction]] = {}
        inside = ""
        for line in text.splitlines():
            if head := re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\{$", line):
                inside = head[2]
                self.computations[inside] = []
                self.entry = inside if head[1] else self.entry
            elif found := re.match(
                r"\s+(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)(\(.*)", line
            ):
                self.computations[inside].append(Instruction(*found.groups()))

    def called(self, name: str, *ops: str) -> list[str]:
        """Computations that these instructions of a computation run."""
        words = (
            r"(?:body|to_apply|calls|true_computation|false_computation)=%?([\w.\-]+)"
        )
        found = [i for i in self.computations[name] if i.op in ops]
        branches = r"branch_computations=\{(.*?)\}"
        return [
            part.strip(" %")
            for i in found
            for group in re.findall(words, i.rest) + re.findall(branches, i.rest)
            for part in group.split(",")
        ]

    def kernels(self, name: str) -> int:
        """Pieces of work that a computation starts, loops inside it aside."""
        own = sum(i.op not in _FREE for i in self.computations[name])
        return own + sum(map(self.kernels, self.called(name, "call")))

    def loops(self, name: str) -> list[str]:
        """Bodies of the loops of a computation, not of loops or branches inside it."""
        inner = self.called(name, "call")
        return self.called(name, "while") + [b for c in inner for b in self.loops(c)]

    def deep(self, name: str) -> int:
        """Kernels of a computation with those of loops and branches, once each."""
        inside = self.loops(name) + self.called(name, "conditional")
        return self.kernels(name) + sum(map(self.deep, inside))

    def moved(self) -> dict[str, list[int]]:
        """Kind of collective -> bytes of the result of each."""
        found: dict[str, list[int]] = {}
        for i in (i for part in self.computations.values() for i in part):
            kind = i.op.removesuffix("-start")
            if kind in _COLLECTIVES:
                found.setdefault(kind, []).append(bytes_of(i.type))
        return found


def bytes_of(type: str) -> int:
    """Of all arrays of a type, without the padding of their layouts.

    >>> bytes_of("(f32[2,3]{1,0:T(8,128)}, pred[])")
    25
    """
    found = re.findall(r"\b([a-z]+[0-9]*)\[([\d,]*)\]", type)
    sizes = [math.prod(int(n) for n in dims.split(",") if n) for _, dims in found]
    each = [_BYTES.get(kind, 4) for kind, _ in found]
    return sum(a * b for a, b in zip(sizes, each, strict=True))


def facts(program: Any) -> dict[str, Any]:
    """What a compiled block of rounds says of itself."""
    text, memory = Text(program.as_text()), program.memory_analysis()
    (rounds,) = text.loops(text.entry)
    steps = max(text.loops(rounds), key=text.deep, default=None)
    return {
        "arguments": memory.argument_size_in_bytes,
        "temporary": memory.temp_size_in_bytes,
        "outputs": memory.output_size_in_bytes,
        "aliased": memory.alias_size_in_bytes,
        "round": text.kernels(rounds),
        "step": text.deep(steps) if steps else 0,
        "moved": {kind: [len(n), sum(n)] for kind, n in text.moved().items()},
        "largest_gathered": max(text.moved().get("all-gather", [0])),
        "host": sum(text.text.count(n) for n in HOST),
        "float64": len(re.findall(r"\bf64\[", text.text)),
    }


# What a program that visits the host in the middle would contain.
HOST = ("xla_python_cpu_callback", "xla_ffi_python", "send-done", "outfeed", "infeed(")
