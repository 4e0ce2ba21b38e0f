"""What to cite: the papers behind an experiment's components."""

import re

import fedjax_mos as fm
from fedjax_mos.components import cited
from fedjax_mos.data.sources import SOURCES
from fedjax_mos.lab import catalog
from fedjax_mos.lab.citation import references


def keys(text):
    return set(re.findall(r"^@\w+\{([^,]+),$", text, re.MULTILINE))


def test_every_component_is_cited():
    """The algorithm's, sampler's, channels' and data set's papers are all there."""
    one = fm.Experiment(
        algorithm="fedprox",
        sampler="clustered",
        uplink="feedback",
        dataset="cifar10",
        model="resnet18",
        partition="dirichlet",
    )
    wanted = set(SOURCES["cifar10"].cites)
    for table, name in (
        (catalog.ALGORITHMS, "fedprox"),
        (catalog.SAMPLERS, "clustered"),
        (catalog.CHANNELS, "feedback"),
        (catalog.MODELS, "resnet18"),
        (catalog.PARTITIONS, "dirichlet"),
    ):
        assert cited(table[name].factory)
        wanted |= set(cited(table[name].factory))
    text = fm.citation(one)
    assert keys(text) == wanted
    assert all(references()[key] in text for key in wanted)


def test_a_paper_is_cited_once_and_for_what():
    """One entry per paper, with the kinds of component that need it above it."""
    text = fm.citation(fm.Experiment())
    assert text.count("{wang2023fedmos,") == 1
    (line,) = re.findall(r"^% (.*)\n@\w+\{wang2023fedmos", text, re.MULTILINE)
    wanted = {"algorithm fedmos (the default)", "sampler acs (the default)"}
    assert wanted <= set(line.split(", "))


def test_what_was_chosen_comes_first():
    """`cite --algorithm scaffold` would seem to cite FedMoS for it."""
    text = fm.citation(fm.Experiment(algorithm="scaffold", partition="dirichlet"))
    lines = re.findall(r"^% (.*)$", text, re.MULTILINE)
    assert lines[0] == "algorithm scaffold"
    marked = ["(the default)" in line for line in lines]
    assert marked == sorted(marked) and any(marked) and not marked[1]


def test_recipes_cite_their_channels():
    """An algorithm that is a recipe brings the papers of its channels."""
    recipe = catalog.ALGORITHMS["fedcams"]
    wanted = set(cited(catalog.CHANNELS[recipe.uplink].factory))
    assert wanted <= keys(fm.citation(fm.Experiment(algorithm="fedcams")))


def test_own_components_cite_what_they_say():
    """`fm.cite` on an own factory reaches the citation; own data have none."""

    @fm.cite("li2020fedprox")
    def mine(local, *, lr: float = 0.1):
        return fm.algorithms.fedavg(local, lr=lr)

    data = fm.arrays([[0.0], [1.0]], [0, 1], [[0.0]], [1])
    given = {"sampler": "md", "partition": "iid", "model": "logistic"}
    one = fm.Experiment(algorithm=mine, dataset=data, **given)
    found = keys(fm.citation(one))
    assert "li2020fedprox" in found
    assert found >= set(cited(catalog.SAMPLERS["md"].factory))
    assert not found & set(SOURCES["digits"].cites)
