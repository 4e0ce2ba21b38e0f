"""Every block of code in README and docs is tried, or says what it needs."""

import re
from typing import NamedTuple

import pytest

from fedjax_mos.cli import app
from fedjax_mos.cli.help import said_of
from tests.cli.test_help import function
from tests.docs import commands
from tests.docs.printed import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
# What a block may need that tests do not have; .ci/run does the test command.
NEEDS = (
    *("needs: accelerator", "needs: data", "needs: network", "needs: processes"),
    "test command",
)
# Pages whose commands and programs `test_own` runs, with the files that they name.
OWN = ("own_data.md", "own_model.md", "tracking.md")
# Pages whose programs tests of their own shorten, run and look at.
RUN_BY = {
    "README.md": "test_readme",
    "accuracy.md": "test_accuracy",
    "search.md": "test_search",
    "scale.md": "test_scale",
    **dict.fromkeys(OWN, "test_own"),
    **{path.name: "test_guides" for path in ROOT.glob("docs/adding_*.md")},
}
SHORTER = (
    (r"rounds=\d+", "rounds=2"),
    (r"seeds=\d+", "seeds=1"),
    (r"clients=2000", "clients=50"),
    (r"\.run\((?!sim)(.*?)\)", r".run(\1, progress=False)"),
    (r"\((experiment|members), ((?!wrt).*)\)", r"(\1, \2, progress=False)"),
    (r"\(, ", "("),
)


class Block(NamedTuple):
    """One fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    marks: str  # the HTML comment above it

    def __str__(self):
        return f"{self.page}:{self.line}"


def blocks_of(text, page):
    """All fenced blocks of a page that are programs or commands."""
    pattern = r"(?:<!-- ([^<>]*) -->\n)?```(python|bash)\n(.*?)```"
    for found in re.finditer(pattern, text, re.DOTALL):
        line = text[: found.start()].count("\n") + 1
        yield Block(page, line, found[2], found[3], found[1] or "")


BLOCKS = [one for path in PAGES for one in blocks_of(path.read_text(), path.name)]
TRIED = [one for one in BLOCKS if one.marks not in NEEDS]
LINES = [
    pytest.param(line, id=f"{block}-{line}")
    for block in TRIED
    if block.language == "bash" and block.page not in OWN
    for line in commands.lines_of(block.text)
]
LINES += [
    pytest.param(line, id=f"help-{line}")
    for name in app.COMMANDS
    for line in said_of(function(name))[1]
    if not line.startswith(("fedjax-mos data get", "fedjax-mos reproduce "))  # data
]
PROGRAMS = sorted({one.page for one in TRIED if one.language == "python"} - {*RUN_BY})


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Results that commands show."""
    return commands.prepare(tmp_path_factory.mktemp("shown"))


@pytest.mark.parametrize("line", LINES)
def test_the_command_is_accepted(line, prepared, tmp_path, monkeypatch):
    """A command that a reader copies and that is refused."""
    assert line.startswith("fedjax-mos"), "mark its block with what it needs"
    monkeypatch.chdir(tmp_path)
    commands.attempt(line, prepared, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("page", PROGRAMS)
def test_the_programs_run(page, tmp_path, monkeypatch, capsys):
    """A page's programs, one after another as a reader would run them."""
    monkeypatch.chdir(tmp_path)
    texts = [b.text for b in TRIED if b.page == page and b.language == "python"]
    names = {"__name__": "printed"}
    for text in texts:
        for pattern, shorter in SHORTER:
            text = re.sub(pattern, shorter, text)
        exec(compile(text, page, "exec"), names)


def test_marks_are_known():
    """A mark that is misspelt would hide a block from the tests."""
    for block in BLOCKS:
        assert block.marks in ("", *NEEDS), block


def test_blocks_are_found():
    """A block that is not marked is tried, whatever stands around it."""
    text = "a\n```bash\nx\n```\n<!-- needs: data -->\n```python\ny\n```\n"
    first, second = blocks_of(text, "page")
    assert (first.text, first.marks, second.marks) == ("x\n", "", "needs: data")
    fences = re.findall(r"^ *```(\S+)$", "".join(p.read_text() for p in PAGES), re.M)
    for language, least in (("python", 15), ("bash", 15)):
        found = sum(one.language == language for one in BLOCKS)
        assert found == fences.count(language) > least
    # Whatever else is fenced is no program and no command.
    assert {*fences} == {"python", "bash", "toml", "{toctree}"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    """A link to a file of this repository, or a heading in it, that has moved."""
    for target, anchor in links(page):
        there = page.parent / target if target else page
        assert there.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(there), f"{page.name}: #{anchor}"


def links(page):
    """(file, anchor) of all links of a page that stay in the repository."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    found = re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", text)
    return [one for one in found if not re.match("https?:|mailto:", one[0])]


def anchors(page):
    """What the headings of a page are called in links."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_links_and_anchors_are_found(tmp_path):
    """A pattern that finds none would let all pass."""
    page = tmp_path / "page.md"
    page.write_text(
        "# One `x`: two\n[a](b.md#c-d) [e](#f) [g](h.py) [i](https://j#k)\n"
    )
    assert links(page) == [("b.md", "c-d"), ("", "f"), ("h.py", "")]
    assert [*anchors(page)] == ["one-x-two"]
