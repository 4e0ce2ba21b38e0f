"""The documentation site: what its API reference insists on, and that it builds."""

import importlib.util
import subprocess
import sys
import types

import pytest

from tests.docs.printed import ROOT

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


def test_silence_is_found(public_api):
    """A public function, class or method without words that nobody notices."""
    module = types.ModuleType("fedjax_mos.example")
    source = (
        "from typing import NamedTuple\n"
        "__all__ = ['Pair', 'Said', 'said', 'silent']\n"
        "def said(): 'Words.'\n"
        "def silent(): pass\n"
        "class Pair(NamedTuple):\n    a: int\n"
        "class Said:\n    'Words.'\n    def method(self): pass\n"
    )
    exec(source, module.__dict__)
    assert public_api.undocumented(module) == ["Pair", "Said.method", "silent"]


def test_every_public_module_has_its_reference():
    """A module that is public and that the API page leaves out."""
    import fedjax_mos as fm

    page = (ROOT / "docs" / "api.rst").read_text()
    for name in fm.__all__:
        if isinstance(module := getattr(fm, name), types.ModuleType):
            assert f".. public-api:: {module.__name__}\n" in page


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
    for name in ("Experiment.run", "algorithms.fedmos", "types.LocalWork"):
        assert f'id="fedjax_mos.{name}"' in page
