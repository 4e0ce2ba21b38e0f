"""What the contract tests know about samplers, channels and partitions.

A new name in the catalog costs one row here; its factory and options come from the
catalog. `VARIANTS` are options that are no name of their own but change what is drawn,
sent or dealt; `SKELETONS` are the files of docs/skeletons, which keep the contracts
before they are filled in.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import fedjax_mos as fm
from fedjax_mos.lab import catalog
from tests import problem

COHORT = 3
FILE = "tests/contracts/component_tables.py"


def check_rows(rows, variants, names, table):
    """Raise an AssertionError unless rows and catalog name the same components."""
    missing = [name for name in names if name not in rows]
    assert not missing, f"{FILE} lacks a row in {table} for {', '.join(missing)}"
    stale = [name for name in rows if name not in names]
    stale += [name for name, row in variants.items() if row.of not in names]
    assert not stale, f"{FILE} has rows in {table} of no component: {', '.join(stale)}"
    assert not set(rows) & set(variants)


def skeleton(kind):
    """The factory in docs/skeletons/KIND.py."""
    path = Path(__file__).parents[2] / "docs" / "skeletons" / f"{kind}.py"
    module_spec = importlib.util.spec_from_file_location(f"skeleton_{kind}", path)
    module = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(module)
    return module.name


def spec_of(table, name, row):
    """The catalog's component with the row's options; without a name, a skeleton."""
    if row.of == "skeleton":
        return fm.spec(skeleton(name), **row.options)
    return table[row.of or name].spec().replace(**row.options)


# ---- samplers ------------------------------------------------------------------------


def cohort_slots(clients: int, cohort: int) -> int:
    return cohort


def every_client(clients: int, cohort: int) -> int:
    return clients


def all_of_few(clients: int, cohort: int) -> int:
    """Bernoulli: the mean and six standard deviations, or every client of a few."""
    return min(clients, cohort + 17)


class SamplerRow(NamedTuple):
    unbiased: bool  # E[w_i] = p_i
    sums_to_one: bool = True  # the weights of the live slots, always
    slots: Callable[[int, int], int] = cohort_slots  # of N and M
    host: bool = False  # HostAssisted
    takes_all: bool = False
    draws: bool = True  # another key, another cohort
    reaches_all: bool = True  # every client has a chance
    algorithm: str = "fedavg"  # whose server it looks at
    options: dict[str, Any] = {}
    of: str = ""  # for a variant: the name in the catalog


SAMPLERS = {
    "ucs": SamplerRow(unbiased=True, sums_to_one=False),
    "ucs_release": SamplerRow(unbiased=False),
    "md": SamplerRow(unbiased=True),
    "acs": SamplerRow(unbiased=True),
    "cacs": SamplerRow(unbiased=True, host=True),
    "cacs_kept": SamplerRow(unbiased=True, host=True),
    "cacs_discarded": SamplerRow(unbiased=True, host=True),
    "clustered": SamplerRow(unbiased=True, host=True),
    "systematic": SamplerRow(unbiased=True),
    "bernoulli": SamplerRow(unbiased=False, slots=all_of_few),
    "power_of_choice": SamplerRow(
        unbiased=False, reaches_all=False, options={"candidates": 4}
    ),
    "everyone": SamplerRow(
        unbiased=True, slots=every_client, takes_all=True, draws=False
    ),
    "lag_contact": SamplerRow(
        unbiased=False,
        slots=every_client,
        takes_all=True,
        draws=False,
        algorithm="lag",
        options={"smoothness": 3.0},
    ),
}
SAMPLER_VARIANTS = {
    "ucs-mean": SamplerRow(False, options={"weights": "mean"}, of="ucs"),
    "ucs-share": SamplerRow(False, options={"weights": "share"}, of="ucs"),
    "acs-order": SamplerRow(True, options={"order": (5, 0, 4, 1, 3, 2)}, of="acs"),
    "bernoulli-share": SamplerRow(
        False, slots=all_of_few, options={"weights": "share"}, of="bernoulli"
    ),
    "cacs-angle": SamplerRow(
        True, host=True, options={"distance": "angle", "clusters": 2}, of="cacs"
    ),
}
SAMPLER_SKELETON = {"sampler": SamplerRow(unbiased=True, of="skeleton")}
ALL_SAMPLERS = SAMPLERS | SAMPLER_VARIANTS | SAMPLER_SKELETON


# ---- channels ------------------------------------------------------------------------

# The toy message has 12 numbers, and 1/4 of them are 3, each with an index.
DENSE, SPARSE, FLAG = 32 * 12, 3 * 64, 1
QUARTER = {"fraction": 0.25}
LAZY = {"kappa": 1e-6}  # only a repeated message is close enough


class ChannelRow(NamedTuple):
    """Bits of: the first message, the same once more, another one."""

    bits: tuple[int, int, int]
    trees: int = 0  # of the message's shape that one end keeps
    rule: bool = False  # says in `fired` whether it applied
    draws: bool = False  # another key, another message
    context: Any = None  # what the client received
    options: dict[str, Any] = {}
    of: str = ""  # for a variant: the name in the catalog


CHANNELS = {
    "identity": ChannelRow((DENSE, DENSE, DENSE)),
    "compressed": ChannelRow((SPARSE, SPARSE, SPARSE), options=QUARTER),
    "feedback": ChannelRow((SPARSE, SPARSE, SPARSE), trees=1, options=QUARTER),
    "nla": ChannelRow(
        (DENSE + FLAG, FLAG, DENSE + FLAG), trees=1, rule=True, options=LAZY
    ),
    "aa": ChannelRow(
        (DENSE + FLAG, DENSE + FLAG, DENSE + FLAG), trees=1, rule=True, options=LAZY
    ),
    # With everything sent nothing is left over: the same message is the same again.
    "nla_compressed": ChannelRow(
        (12 * 64 + FLAG, FLAG, 12 * 64 + FLAG),
        trees=2,
        rule=True,
        options=LAZY | {"fraction": 1.0},
    ),
    "aa_compressed": ChannelRow(
        (SPARSE + FLAG, SPARSE + FLAG, SPARSE + FLAG),
        trees=2,
        rule=True,
        options=LAZY | QUARTER,
    ),
    "nla_down": ChannelRow(
        (DENSE, FLAG, SPARSE + FLAG), trees=1, rule=True, options=LAZY | QUARTER
    ),
    "aa_down": ChannelRow((DENSE, SPARSE, SPARSE), trees=1, options=QUARTER),
    "lag_worker": ChannelRow((DENSE, 0, DENSE), trees=1, rule=True, context=1e-9),
    "lag_contacted": ChannelRow((DENSE, DENSE, DENSE), trees=1, rule=True),
}
CHANNEL_VARIANTS = {
    "compressed-random_k": ChannelRow(
        (3 * 32 + 32,) * 3,
        draws=True,
        options=QUARTER | {"codec": "random_k"},
        of="compressed",
    ),
    "compressed-sign": ChannelRow(
        (12 + 32,) * 3, options={"codec": "sign"}, of="compressed"
    ),
    "compressed-quantise": ChannelRow(
        (4 * 12 + 32,) * 3, draws=True, options={"codec": "quantise"}, of="compressed"
    ),
    "compressed-per_tensor": ChannelRow(
        (2 * 64 + 1 * 64,) * 3,  # a quarter of 9 and of 3 entries, at least one
        options=QUARTER | {"per_tensor": True},
        of="compressed",
    ),
    "nla-raw_prev": ChannelRow(
        (DENSE + FLAG, FLAG, DENSE + FLAG),
        trees=2,
        rule=True,
        options=LAZY | {"reference": "raw_prev"},
        of="nla",
    ),
    "nla-literal": ChannelRow(
        (DENSE + FLAG, FLAG, DENSE + FLAG),
        trees=1,
        rule=True,
        options=LAZY | {"reference": "literal"},
        of="nla",
    ),
    "aa_compressed-compressed": ChannelRow(
        (SPARSE + FLAG, SPARSE + FLAG, SPARSE + FLAG),
        trees=2,
        rule=True,
        options=LAZY | QUARTER | {"ef_reference": "compressed"},
        of="aa_compressed",
    ),
    "aa_down-extrapolate": ChannelRow(
        (DENSE, SPARSE, SPARSE),
        trees=2,
        options=QUARTER | {"extrapolate": True},
        of="aa_down",
    ),
    "aa_down-near": ChannelRow(
        (DENSE, SPARSE + FLAG, SPARSE + FLAG),
        trees=2,
        rule=True,
        options=LAZY | QUARTER | {"extrapolate": True, "only_near": True},
        of="aa_down",
    ),
}
CHANNEL_SKELETON = {
    "channel": ChannelRow((DENSE // 2, DENSE // 2, DENSE // 2), trees=1, of="skeleton")
}
ALL_CHANNELS = CHANNELS | CHANNEL_VARIANTS | CHANNEL_SKELETON


# ---- partitions ----------------------------------------------------------------------


class PartitionRow(NamedTuple):
    deals_all: bool = True  # every example has an owner
    disjoint: bool = True  # no example has two
    random: bool = True  # the seed decides; else nothing is drawn
    by_groups: bool = False  # takes an id per example in place of labels
    options: dict[str, Any] = {}  # for the 200 examples and 10 clients of the tests
    of: str = ""  # for a variant: the name in the catalog


FEW = {"smallest": 4, "largest": 16}

PARTITIONS = {
    "iid": PartitionRow(),
    "classes": PartitionRow(deals_all=False, options=FEW),
    "fedmos_mnist": PartitionRow(deals_all=False, options=FEW),
    "fedmos_cifar": PartitionRow(
        deals_all=False, options={"sizes": (20, 10), "fractions": (0.5, 0.5)}
    ),
    "fedmos_cifar_overlapping": PartitionRow(
        deals_all=False,
        disjoint=False,
        options={"classes_per_client": 3, "smallest": 4, "largest": 50},
    ),
    "dirichlet": PartitionRow(),
    "dirichlet_balanced": PartitionRow(),
    "dirichlet_visiting": PartitionRow(),
    "shards": PartitionRow(),
    "quantity": PartitionRow(),
    "natural": PartitionRow(random=False, by_groups=True),
}
PARTITION_VARIANTS = {
    "dirichlet-smallest": PartitionRow(options={"smallest": 12}, of="dirichlet"),
    "quantity-smallest": PartitionRow(
        options={"smallest": 12, "alpha": 0.1}, of="quantity"
    ),
    "shards-one": PartitionRow(options={"shards_per_client": 1}, of="shards"),
}
PARTITION_SKELETON = {"partition": PartitionRow(of="skeleton")}
ALL_PARTITIONS = PARTITIONS | PARTITION_VARIANTS | PARTITION_SKELETON


# ---- what is built with the rows -----------------------------------------------------


def sampler_of(name):
    """The row's sampler for the toy population, built; also a host-assisted one."""
    row = ALL_SAMPLERS[name]
    return spec_of(catalog.SAMPLERS, name, row).build(problem.tools(COHORT))


def channel_of(name):
    """The row's channel, built."""
    return spec_of(catalog.CHANNELS, name, ALL_CHANNELS[name]).build()


def partition_of(name):
    """The row's rule with its options: `(labels, clients, seed) -> Partition`."""
    return spec_of(catalog.PARTITIONS, name, ALL_PARTITIONS[name]).build
