"""Names people type: their options, their data sets' defaults, their papers."""

import inspect
import re

import pytest

import fedjax_mos as fm
from fedjax_mos.components import cited
from fedjax_mos.data.sources import SOURCES
from fedjax_mos.engine.hyperparameters import decaying
from fedjax_mos.lab import catalog
from fedjax_mos.lab.citation import references, short
from fedjax_mos.signatures import options_of

TABLES = {
    "algorithm": catalog.ALGORITHMS,
    "sampler": catalog.SAMPLERS,
    "channel": catalog.CHANNELS,
    "partition": catalog.PARTITIONS,
    "model": catalog.MODELS,
}
# What the engine or an experiment hands in; what remains are options.
TOOLS = {"algorithm": 1, "sampler": 1, "channel": 0, "partition": 3, "model": 1}
WITHOUT_A_PAPER = {"identity"}


@pytest.mark.parametrize("kind", TABLES)
def test_options_are_the_keyword_arguments(kind):
    """An argument that --set cannot reach, or an option that the factory rejects."""
    for name, entry in TABLES[kind].items():
        known = options_of(entry.factory)
        made = entry.spec()
        assert set(made.options) == set(known), f"{kind} {name}"
        assert set(entry.options) <= set(known), f"{kind} {name}"
        for dataset, tuned in entry.tuned.items():
            assert set(tuned) <= set(known), f"{kind} {name} on {dataset}"
            assert dataset in SOURCES
            there = entry.spec(dataset).options
            assert all(there[n] == v for n, v in tuned.items()), f"{kind} {name}"


@pytest.mark.parametrize("kind", TABLES)
def test_what_is_handed_in_is_positional(kind):
    """A factory that the engine cannot call, or an option that is handed in."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    for name, entry in TABLES[kind].items():
        if name == "natural":  # is handed the ids of the data set
            continue
        parameters = inspect.signature(entry.factory).parameters.values()
        given = [p for p in parameters if p.kind in named]
        assert len(given) == TOOLS[kind], f"{kind} {name}: {given}"


def test_float_hyperparameters_have_a_range():
    """A number whose range nobody checks."""
    made = [fm.spec(fm.local_work), fm.spec(decaying)]
    made += [entry.spec() for entry in catalog.ALGORITHMS.values()]
    for one in made:
        known = options_of(one.factory)
        numbers = [n for n, o in known.items() if o.numeric]
        assert set(one.hp) <= set(numbers), one.name
        for name in numbers:
            assert known[name].interval is not None, f"{one.name}.{name}"


@pytest.mark.parametrize("kind", TABLES)
def test_factories_cite_their_paper(kind):
    """A method whose origin a reader cannot find, or a key without an entry."""
    for name, entry in TABLES[kind].items():
        keys = cited(entry.factory)
        assert keys or name in WITHOUT_A_PAPER, f"{kind} {name} cites nothing"
        assert set(keys) <= set(references()), f"{kind} {name}"


def test_data_sets_cite_their_source():
    """Data without a word on who made them."""
    for name, source in SOURCES.items():
        assert source.cites and set(source.cites) <= set(references()), name
        assert source.description.strip(), name


def test_references_are_read_whole():
    """Every entry of the file is found, once, and makes a line for `list`."""
    text = (fm.lab.citation.files("fedjax_mos") / "references.bib").read_text()
    keys = re.findall(r"^@\w+\{([^,]+),", text, re.MULTILINE)
    assert keys == list(references()) and len(keys) == len(set(keys)) > 30
    for key in keys:
        assert re.search(r", .*\b(19|20)\d\d$", short(key)), short(key)


def test_listing_describes_everything():
    """A name in `fedjax-mos list` without a word on what it is."""
    for kind, entries in catalog.listing().items():
        for entry in entries:
            assert entry["description"].strip(), f"{kind} {entry['name']}"


def test_dataset_defaults_name_what_exists():
    """A data set whose default partition or model is gone."""
    defaults = catalog.DATASET_DEFAULTS
    others = {"other": catalog.OTHER, "grouped": catalog.OTHER_GROUPED}
    for dataset, one in (defaults | others).items():
        assert one.partition in catalog.PARTITIONS, dataset
        assert one.model in catalog.MODELS, dataset
        assert 0 < one.target < 1, dataset
    assert set(defaults) == set(SOURCES)


def test_recipes_name_what_exists():
    """A recipe whose channels or sampler are gone."""
    for name, entry in catalog.ALGORITHMS.items():
        assert {entry.uplink, entry.downlink} <= set(catalog.CHANNELS), name
        assert entry.sampler in (None, *catalog.SAMPLERS), name
