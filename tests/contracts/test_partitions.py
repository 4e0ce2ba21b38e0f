"""What every partition promises, over the table."""

import inspect

import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.lab import catalog
from tests.contracts import component_tables as tables
from tests.contracts.component_tables import ALL_PARTITIONS

CLIENTS = 10
LABELS = np.random.default_rng(0).permutation(
    np.repeat(np.arange(5), range(60, 10, -10))
)
GROUPS = np.random.default_rng(1).permutation(np.arange(200) % CLIENTS)
partitions = pytest.mark.parametrize("name", ALL_PARTITIONS)


def test_every_partition_of_the_catalog_has_a_row():
    """A name that can be typed keeps every contract."""
    tables.check_rows(
        tables.PARTITIONS,
        tables.PARTITION_VARIANTS,
        catalog.PARTITIONS,
        "PARTITIONS",
    )


def divided(name, seed=0, labels=LABELS, clients=CLIENTS):
    """The row's rule on 200 examples of five classes."""
    rule = tables.partition_of(name)
    if ALL_PARTITIONS[name].by_groups:
        return rule(GROUPS)
    return rule(labels, clients, seed)


def owned(part):
    """A set of positions per client."""
    return [set(rows) for rows in np.split(part.order, np.cumsum(part.size)[:-1])]


@partitions
def test_no_client_is_empty_and_positions_are_in_range(name):
    """What `federate` would refuse, or clients would lack."""
    part, row = divided(name), ALL_PARTITIONS[name]
    assert isinstance(part, fm.partitions.Partition)
    assert part.size.shape == (CLIENTS,) and part.size.min() >= 1
    assert part.size.sum() == len(part.order)
    assert np.issubdtype(part.order.dtype, np.integer)
    assert part.order.min() >= 0 and part.order.max() < len(LABELS)
    assert all(map(len, owned(part)))
    disjoint = len(np.unique(part.order)) == len(part.order)
    assert disjoint or not row.disjoint
    assert (set(part.order) == set(range(len(LABELS)))) == row.deals_all
    data = fm.federate(np.zeros((len(LABELS), 1), np.float32), LABELS, part)
    assert data.size.tolist() == part.size.tolist()


@partitions
def test_the_seed_decides_and_nothing_else(name):
    """A run could not be repeated, all seeds were alike, or labels were spoilt."""
    labels, row = LABELS.copy(), ALL_PARTITIONS[name]
    np.random.seed(5)  # the global generator must play no part
    first = divided(name, 3, labels)
    np.random.seed(6)
    again = divided(name, 3, labels)
    np.testing.assert_array_equal(first.order, again.order)
    np.testing.assert_array_equal(first.size, again.size)
    np.testing.assert_array_equal(labels, LABELS)
    assert (owned(first) != owned(divided(name, 4))) == row.random


@partitions
def test_impossible_numbers_of_clients_are_refused(name):
    """A client without examples must be an error that names argument and value."""
    if ALL_PARTITIONS[name].by_groups:
        pytest.skip("its clients are those of the ids")
    for clients in (0, len(LABELS) + 1):
        with pytest.raises(ValueError, match=f"clients must .*: got {clients}"):
            divided(name, clients=clients)


@pytest.mark.parametrize("name", catalog.PARTITIONS)
def test_the_options_of_the_catalog_are_those_of_the_rule(name):
    """A default, or a tuned number of a data set, that the rule does not take."""
    entry = catalog.PARTITIONS[name]
    for dataset in ("", *entry.tuned):
        made = entry.spec(dataset)
        given = entry.options | entry.tuned.get(dataset, {})
        assert given.items() <= made.options.items()
    if ALL_PARTITIONS[name].by_groups:
        return
    taken = list(inspect.signature(entry.factory).parameters.values())
    assert [p.name for p in taken[:3]] == ["labels", "clients", "seed"]
    assert {p.kind for p in taken[3:]} <= {inspect.Parameter.KEYWORD_ONLY}
    assert set(made.options) == {p.name for p in taken[3:]}
    assert all(p.default is not p.empty for p in taken[3:])
