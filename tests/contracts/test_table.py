"""The table of contracts and the catalog name the same algorithms."""

from fedjax_mos.lab import catalog
from tests.contracts import table


def test_every_algorithm_of_the_catalog_has_a_row():
    """A name that can be typed keeps every contract."""
    missing = [name for name in catalog.ALGORITHMS if name not in table.ROWS]
    assert not missing, (
        f"tests/contracts/table.py lacks a row in ROWS for {', '.join(missing)}"
    )


def test_every_row_is_an_algorithm_of_the_catalog():
    """A row without a name tests what nobody can run."""
    stale = [name for name in table.ROWS if name not in catalog.ALGORITHMS]
    stale += [n for n, row in table.VARIANTS.items() if row.of not in table.ROWS]
    assert not stale, f"tests/contracts/table.py has rows of no algorithm: {stale}"
    assert not set(table.ROWS) & set(table.VARIANTS)


def test_a_row_gives_every_number_a_value():
    """A number left at its default could make a contract hold by accident."""
    for name, row in table.ROWS.items():
        leaves = set(table.spec_of(name).hp)
        given = set(row.hp) | set(catalog.ALGORITHMS[name].options)
        assert leaves <= given, f"{name}: {leaves - given}"
