"""Selection theory by name: its frame, table and picture."""

import numpy as np
import pytest

import fedjax_mos as fm

MASS = np.array([1, 2, 3, 14, 4, 6])


def test_a_selection_holds_every_sampler_and_client():
    """The frame is tidy, the table has the sums, the picture shows both."""
    theory = fm.selection(MASS, 3, ("ucs", "acs", "ucs_release"))
    frame, table = theory.frame, theory.table()
    assert len(frame) == 18 and list(table.index) == ["ucs", "acs", "ucs_release"]
    rows = frame[frame["sampler"] == "ucs"]
    p = MASS / MASS.sum()
    np.testing.assert_allclose(rows["variance"], (6 / 3 - 1) * p**2)
    np.testing.assert_array_equal(rows["mass"], MASS)
    assert table["largest_relative_bias"]["acs"] < 1e-12
    assert table["largest_relative_bias"]["ucs_release"] > 0.1
    figure = theory.picture()
    figure.canvas.draw()
    left, right, _ = figure.axes
    (image,) = left.images
    heaviest = np.argsort(-MASS, kind="stable")
    np.testing.assert_array_equal(image.get_array(), theory.matrix[:, heaviest])
    named = [text.get_text() for text in right.get_legend().get_texts()]
    assert named[0].startswith("ucs, sum 0.29")


def test_an_unknown_sampler_is_named():
    """With the names that there are."""
    with pytest.raises(ValueError, match="samplers must be one of ucs, .*got 'acx'"):
        fm.selection(MASS, 3, ("acx",))


def test_clusters_have_an_order():
    """CACS is ACS on clients that come cluster after cluster."""
    order = [5, 0, 3, 1, 4, 2]
    theory = fm.selection(MASS, 3, ("cacs", "acs"), order=order)
    expected = fm.samplers.draw_matrix(MASS, 3, order)
    np.testing.assert_array_equal(theory.matrix, expected)
    found = theory.moments["cacs"].variance
    np.testing.assert_allclose(found, (expected * (1 - expected)).sum(axis=0) / 9)
    assert not np.allclose(found, theory.moments["acs"].variance)
    with pytest.raises(ValueError, match="order must be given for clustered_adaptive"):
        fm.selection(MASS, 3, ("cacs",))
