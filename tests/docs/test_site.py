"""The documentation site: what its API reference insists on, and that it builds."""

import importlib.util
import re
import runpy
import subprocess
import sys
import types

import pytest

from tests.docs.printed import ROOT
from tests.docs.test_blocks import PAGES

pytest.importorskip("sphinx", reason="pip install '.[docs]'")
pytestmark = pytest.mark.thorough  # CI installs Sphinx for these only


@pytest.fixture(scope="module")
def public_api():
    """The extension that writes the API reference."""
    path = ROOT / "docs" / "_ext" / "public_api.py"
    found = importlib.util.spec_from_file_location("public_api", path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


EXAMPLE = '''
from typing import NamedTuple, Protocol
__all__ = ["Alias", "Call", "Mute", "Pair", "Said", "Told", "said", "silent"]
Alias = int
#: Words.
Told = float
def said(): "Words."
def silent(): pass
class Pair(NamedTuple):
    a: int
    b: int  #: words
    c: int  # no words for readers
class Base:
    "Words."
    d: int
    e: int
    """Words."""
class Said(Base):
    "Words."
    def method(self): pass
class Call(Protocol):
    def __call__(self): "Words."
class Mute(Protocol):
    def __call__(self): pass
'''


def test_silence_is_found(public_api, tmp_path, monkeypatch):
    """A public name, method or field without words that nobody notices."""
    path = tmp_path / "example.py"
    path.write_text(EXAMPLE)
    found = importlib.util.spec_from_file_location("fedjax_mos.example", path)
    module = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    found.loader.exec_module(module)
    silent = ["Alias", "Mute", "Pair", "Pair.a", "Pair.c", "Said.d", "Said.method"]
    assert public_api.undocumented(module) == [*silent, "silent"]


def test_code_ends_where_its_backtick_is(public_api):
    """`fm.federate`d in a docstring would keep the code open to the next backtick."""
    lines = ["or `fm.federate`d data, |v|"]
    public_api.as_written(None, "class", "name", None, None, lines)
    assert lines == [r"or `fm.federate`\d data, \|v\|"]


def test_links_to_the_repository(monkeypatch):
    """They leave docs/: names of files on the site, unless it knows the repository."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    conf = runpy.run_path(str(ROOT / "docs" / "conf.py"))
    text = "[notes](../benchmarks/NOTES.md), [here](here.md)"
    shown = conf["links_that_leave"](text, "")
    assert shown == "`benchmarks/NOTES.md`, [here](here.md)"
    shown = conf["links_that_leave"](text, "https://x")
    assert shown == "[notes](https://x/benchmarks/NOTES.md), [here](here.md)"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_names_on_the_pages_are_public(page):
    """A page that sends readers to what is inside, or is gone."""
    import fedjax_mos as fm

    text = page.read_text()
    for found in re.findall(r"\bfm((?:\.\w+)+)", text):
        value = fm
        for name in found.removeprefix(".").split("."):
            public = getattr(value, "__all__", None)
            assert public is None or name in public, f"fm{found}"
            value = getattr(value, name)
    inside = re.findall(r"`fedjax_mos\.\w[\w.]*", text)
    assert not inside


def test_everything_public_has_words(public_api):
    """What `sphinx-build -W` would refuse, without building."""
    page = (ROOT / "docs" / "api.rst").read_text()
    for name in re.findall(r"public-api:: (\S+)", page):
        assert not public_api.undocumented(importlib.import_module(name)), name


def test_every_public_module_has_its_reference():
    """A module that is public and that the API page leaves out."""
    import fedjax_mos as fm

    page = (ROOT / "docs" / "api.rst").read_text()
    modules = [fm]
    for module in modules:
        assert f".. public-api:: {module.__name__}\n" in page
        inside = [getattr(module, name) for name in getattr(module, "__all__", ())]
        modules += [value for value in inside if isinstance(value, types.ModuleType)]
    assert len(modules) > 15


def test_the_site_builds(tmp_path):
    """A warning: a page in no table of contents, a public name without words."""
    pytest.importorskip("myst_nb", reason="pip install '.[docs]'")
    words = ["-m", "sphinx", "-W", "-q", "-d", tmp_path / "trees", ROOT / "docs"]
    done = subprocess.run(
        [sys.executable, *map(str, words), str(tmp_path / "site")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "api.html").read_text()
    names = ("Experiment.run", "Experiment.rounds", "algorithms.fedmos")
    for name in (*names, "types.LocalWork.plan", "types.Positive"):
        assert f'id="fedjax_mos.{name}"' in page
    assert "Alias for field number" not in page
