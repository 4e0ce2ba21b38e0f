"""Tables of texts in every form, with what each form must escape."""

import csv
import html.parser
import io

import pytest

from fedjax_mos.lab.printed import Printed

ROWS = [
    {"method": "a_b & c", "final": "97.0 ± 0.5 %", "p": "< 0.001"},
    {"method": "x|y", "final": "8.1 %", "rounds": "≥ 2.7 (1/3)"},
]
TABLE = Printed(ROWS, [(0, "final")], ["First note: 5 %.", "Second <note>."])


class Cells(html.parser.HTMLParser):
    """The texts of a page's elements, as a browser reads them."""

    def __init__(self, text):
        super().__init__()
        self.found, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.found.append((self.open[-1], data))


def test_text():
    """Columns under each other, the first one to the left; notes below."""
    assert TABLE.text().splitlines() == [
        "method          final        p       rounds",
        "-------  ------------  -------  -----------",
        "a_b & c  97.0 ± 0.5 %  < 0.001",
        "x|y             8.1 %           ≥ 2.7 (1/3)",
        "First note: 5 %.",
        "Second <note>.",
    ]


def test_markdown():
    """A bar in a cell does not end it; the best is bold, missing cells are empty."""
    assert TABLE.markdown().splitlines() == [
        "| method | final | p | rounds |",
        "|---|---:|---:|---:|",
        "| a_b & c | **97.0 ± 0.5 %** | < 0.001 |  |",
        r"| x\|y | 8.1 % |  | ≥ 2.7 (1/3) |",
        "",
        "First note: 5 %.",
        "Second <note>.",
    ]


def test_latex():
    """What LaTeX takes for commands is escaped; notes are comments."""
    lines = TABLE.latex().splitlines()
    assert lines[:4] == [
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        r"method & final & p & rounds \\",
        r"\midrule",
    ]
    assert lines[4] == r"a\_b \& c & \textbf{97.0 $\pm$ 0.5 \%} & $<$ 0.001 &  \\"
    assert lines[5] == r"x|y & 8.1 \% &  & $\geq$ 2.7 (1/3) \\"
    assert lines[6:8] == [r"\bottomrule", r"\end{tabular}"]
    assert lines[8:] == ["% First note: 5 %.", "% Second <note>."]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\\b", r"a\textbackslash{}b"),
        ("$x^2$", r"\$x\textasciicircum{}2\$"),
        ("#1 {~}", r"\#1 \{\textasciitilde{}\}"),
        ("a>b", r"a$>$b"),
    ],
)
def test_latex_escapes_letter_by_letter(text, expected):
    """Braces of one replacement are not replaced again."""
    assert Printed([{text: text}]).latex().count(expected) == 2


def test_csv():
    """Commas and quotes come back as they were; no notes, no marks."""
    rows = [*ROWS, {"method": 'lr=0.1,prox="x"'}]
    found = list(csv.DictReader(io.StringIO(Printed(rows, [(0, "final")]).csv())))
    columns = ["method", "final", "p", "rounds"]
    assert [list(row) for row in found] == [columns] * 3
    assert found == [{c: row.get(c, "") for c in columns} for row in rows]


def test_html():
    """A browser reads the same texts; the best is bold, nothing is taken for a tag."""
    cells = Cells(TABLE.html())
    assert not cells.open  # every element is closed
    texts = [text for tag, text in cells.found if tag in ("td", "b")]
    assert texts == [text for row in ROWS for text in row.values()]
    assert ("b", "97.0 ± 0.5 %") in cells.found
    assert [t for tag, t in cells.found if tag == "th"] == TABLE.columns
    assert [t for tag, t in cells.found if tag == "p"] == list(TABLE.notes)


@pytest.mark.parametrize(
    ("ending", "form"),
    [
        (".txt", "text"),
        (".md", "markdown"),
        (".csv", "csv"),
        (".tex", "latex"),
        (".html", "html"),
    ],
)
def test_a_file_has_the_form_of_its_ending(tmp_path, ending, form):
    """Each ending its form, in UTF-8 with a newline at the end."""
    path = tmp_path / f"table{ending}"
    TABLE.write(path)
    assert path.read_bytes().decode("utf-8") == getattr(TABLE, form)() + "\n"


@pytest.mark.parametrize("name", ["table.xlsx", "table"])
def test_another_ending_is_refused(tmp_path, name):
    """The message lists the endings and names the file; nothing is written."""
    message = r"must end in \.txt, \.md, \.csv, \.tex, \.html: got '.*" + name
    with pytest.raises(ValueError, match=message):
        TABLE.write(tmp_path / name)
    assert not list(tmp_path.iterdir())
