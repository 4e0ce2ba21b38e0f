"""Reports: one page with everything, which opens anywhere without a network."""

import base64
import dataclasses
import html.parser
import re
import shutil
import subprocess

import pandas as pd
import pytest

import fedjax_mos as fm
from fedjax_mos.lab.citation import citation
from fedjax_mos.lab.report import report
from tests.lab import shown
from tests.lab.test_pictures import made
from tests.lab.tiny import TINY

VOID = ("meta", "link", "img")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--dump-dom",
]


class Page(html.parser.HTMLParser):
    """A page as a browser reads it; every element must be closed."""

    def __init__(self, text):
        super().__init__()
        self.text, self.open = text, []
        self.cells, self.headings, self.addresses, self.said = [], [], [], ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.addresses += [v for name, v in attrs if name in ("src", "href", "srcset")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.said += data
        if self.open and self.open[-1] in ("td", "th", "b"):
            self.cells.append(data)
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)

    @property
    def images(self):
        """The pictures that the page holds."""
        start = "data:image/svg+xml;base64,"
        found = [a.removeprefix(start) for a in self.addresses if a.startswith(start)]
        return [base64.b64decode(text).decode() for text in found]


RESULTS = {
    "comparison": shown.comparison,
    "run": lambda: shown.comparison().members["fast"],
    "sweep": shown.grid,
    "tuning": shown.tuned,
}


@pytest.fixture(scope="module")
def pages():
    return {kind: Page(report(make())) for kind, make in RESULTS.items()}


def test_titles(pages):
    """What it is of."""
    for kind, title in {
        "comparison": "Comparison: fast, still",
        "run": "Run: fast",
        "sweep": "Sweep: fedavg/ucs",
        "tuning": "Tuning: fedavg/ucs",
    }.items():
        assert f"<title>{title}</title>" in pages[kind].text
        assert f"<h1>{title}</h1>" in pages[kind].text


def test_sections(pages):
    """Tables, pictures, settings, what metrics mean, citations: each where it is."""
    after = ["Environment", "What the metrics mean", "What to cite"]
    clients = ["Who took part", "Client by client"]
    assert pages["comparison"].headings == [
        "Results",
        "By round",
        "By bits",
        *clients,
        "Settings of fast",
        "Settings of still",
        *after,
    ]
    usual = "Settings of fedavg/ucs"
    best = ["Best configurations", "Curves", "Configurations"]
    assert pages["sweep"].headings == [*best, usual, *after]
    after.remove("What the metrics mean")
    assert pages["tuning"].headings == ["Numbers", "On the way", usual, *after]


def test_tables(pages):
    """The cells are those of the printed table."""
    for kind in ("comparison", "run", "sweep"):
        printed = RESULTS[kind]().printed()
        cells = [text for row in printed.rows for text in row.values() if text]
        assert cells and set(cells) <= set(pages[kind].cells)
        assert all(note in pages[kind].said for note in printed.notes)
    table = shown.tuned().table()
    assert {"start", "best", "lr"} <= set(pages["tuning"].cells)
    assert f"{table.loc['best', 'lr']:.4g}" in pages["tuning"].cells


def test_settings_and_citations(pages):
    """All options, versions and BibTeX entries stand on the page."""
    for page in pages.values():
        assert "@" in page.said and citation(TINY).split("\n")[0] in page.said
        assert '"batch_size": 4' in page.said
        assert f"fedjax_mos {fm.__version__}" in page.said
        assert "platform cpu" in page.said
    assert "algorithm.lr=0.5" in pages["run"].said
    meaning = "accuracy of the server's model, on the central test set"
    assert meaning in pages["comparison"].said


@pytest.mark.parametrize("kind", RESULTS)
def test_nothing_is_fetched(pages, kind):
    """All that a page points to is in it; so it is with its pictures."""
    page = pages[kind]
    assert page.addresses and all(a.startswith("data:") for a in page.addresses)
    assert not re.search(r"@import|url\(|<script|<iframe", page.text)
    assert page.images
    for image in page.images:
        assert image.startswith("<?xml") and "</svg>" in image
        inside = re.findall(r"(?:href|src)=\"([^\"]*)\"|url\(([^)]*)\)", image)
        assert all((a or b).startswith(("#", "data:")) for a, b in inside)


def test_names_are_texts():
    """A name that looks like a tag is shown, not obeyed."""
    frame = made([[0.1, 0.2]])
    name = "<script>alert('&')</script>"
    page = Page(report(fm.Result(TINY, frame, {}, title=name)))
    assert "<script" not in page.text and f"Run: {name}" in page.said


def test_members_with_other_metrics_have_a_report():
    """Each by its own metric, also against bits."""
    numbers = made([[3.0, 2.0]], "test_loss")
    both = {
        "labels": fm.Result(TINY, made([[0.1, 0.2]]), {}),
        "numbers": fm.Result(TINY, numbers, {}),
    }
    page = Page(report(fm.Comparison(both)))
    assert "20.0 % (test_accuracy)" in page.cells
    assert len(page.images) == 2


def test_clients_of_some_members_are_enough():
    """A member without clients does not take the others' pictures away."""
    found = shown.comparison().members
    bare = dataclasses.replace(found["still"], clients=None, cohorts=None)
    page = Page(report(fm.Comparison({"bare": bare, "fast": found["fast"]})))
    assert {"Who took part", "Client by client"} <= set(page.headings)


def test_results_of_own_objects_have_a_report(tmp_path):
    """What was read without its experiment is shown without settings."""
    gone = fm.Result(None, made([[0.1, 0.2]]), {}, title="mine")
    page = Page(report(gone))
    assert page.headings == ["Results", "By round", "By bits", "What the metrics mean"]
    cube = dataclasses.replace(shown.grid(), experiment=None)
    assert "<h1>Sweep: own components</h1>" in report(cube)


def test_a_sweep_that_diverged_has_a_report():
    """No pictures of nothing, but the table says what happened."""
    lost = dataclasses.replace(
        shown.grid(), frame=shown.grid().frame.assign(diverged=True)
    )
    page = Page(report(lost))
    assert not page.images and "diverged" in page.cells


def test_a_sweep_over_algorithms_shows_the_best_of_each():
    """Besides the best configurations of all."""
    frame = shown.grid().frame.rename(columns={"server_lr": "algorithm"})
    frame["algorithm"] = frame["algorithm"].map({0.5: "fedavg", 1.0: "fedmos"})
    cube = fm.Cube(pd.DataFrame(frame), ("lr", "algorithm"), True)
    page = Page(report(cube))
    assert "Best of every algorithm" in page.headings
    assert "the best for every algorithm" in page.said


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not found")
@pytest.mark.parametrize("kind", RESULTS)
def test_a_browser_opens_it(pages, kind, tmp_path):
    """No complaint on the console, and the table in the document."""
    path = tmp_path / "report.html"
    path.write_text(pages[kind].text, encoding="utf-8")
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    words = [shutil.which("chromium"), *FLAGS, profile, path.as_uri()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert "CONSOLE" not in done.stderr
    dom = Page(done.stdout)
    assert dom.cells == pages[kind].cells and dom.cells
    assert dom.headings == pages[kind].headings
