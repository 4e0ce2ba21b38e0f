"""Documents that are generated stay what the code says."""

import importlib.util

import pytest

pytestmark = pytest.mark.thorough


def test_the_table_of_methods_is_current(pytestconfig):
    """Else docs/methods.md would promise other costs than the code has."""
    path = pytestconfig.rootpath / "docs" / "make_methods.py"
    module_spec = importlib.util.spec_from_file_location("make_methods", path)
    make_methods = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(make_methods)
    assert make_methods.TARGET.read_text() == make_methods.table(), (
        "run python docs/make_methods.py"
    )
