"""A table of texts in the forms that papers and pages want."""

import csv
import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "±": r"$\pm$",
    "≥": r"$\geq$",
}


class Printed(NamedTuple):
    """Rows of texts by column, what is bold, and notes below."""

    rows: Sequence[dict[str, str]]
    bold: Sequence[tuple[int, str]] = ()  # (row, column)
    notes: Sequence[str] = ()

    @property
    def columns(self) -> list[str]:
        """All columns, in the order of their first appearance."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def text(self) -> str:
        """For a terminal; the first column to the left, the others to the right."""
        columns = self.columns
        lines = [[row.get(c, "") for c in columns] for row in self.rows]
        lines = [columns, *lines]
        widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
        lines.insert(1, ["-" * width for width in widths])
        table = [
            "  ".join(
                cell.rjust(width) if i else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([*table, *self.notes])

    def markdown(self) -> str:
        """A table of GitHub's flavour."""

        def line(cells: Sequence[str]) -> str:
            return "| " + " | ".join(c.replace("|", r"\|") for c in cells) + " |"

        columns = self.columns
        rule = "|---|" + "---:|" * (len(columns) - 1)
        rows = [
            line([self._cell(i, c, "**", "**") for c in columns]) for i in self._all
        ]
        notes = [""] * bool(self.notes) + list(self.notes)
        return "\n".join([line(columns), rule, *rows, *notes])

    def latex(self) -> str:
        """A tabular with the rules of booktabs."""
        columns = self.columns
        head = " & ".join(_escaped(c) for c in columns) + r" \\"
        rows = [
            " & ".join(self._latex_cell(i, c) for c in columns) + r" \\"
            for i in self._all
        ]
        align = "l" + "r" * (len(columns) - 1)
        notes = [f"% {note}" for note in self.notes]
        return "\n".join(
            [
                rf"\begin{{tabular}}{{{align}}}",
                r"\toprule",
                head,
                r"\midrule",
                *rows,
                r"\bottomrule",
                r"\end{tabular}",
                *notes,
            ]
        )

    def csv(self) -> str:
        """The texts, separated by commas."""
        out = io.StringIO()
        writer = csv.DictWriter(out, self.columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return out.getvalue().rstrip("\n")

    def html(self) -> str:
        """A table element and its notes."""
        columns = self.columns
        head = "".join(f"<th>{html.escape(c)}</th>" for c in columns)
        rows = [
            "".join(
                f"<td>{'<b>' * bold}{html.escape(row.get(c, ''))}{'</b>' * bold}</td>"
                for c in columns
                for bold in [(i, c) in self.bold]
            )
            for i, row in enumerate(self.rows)
        ]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        notes = "".join(f"<p class='note'>{html.escape(n)}</p>" for n in self.notes)
        return f"<table><tr>{head}</tr>{body}</table>{notes}"

    def write(self, path: Path | str) -> None:
        """The form that the file's ending names: .txt, .md, .csv, .tex or .html."""
        forms = {
            ".txt": self.text,
            ".md": self.markdown,
            ".csv": self.csv,
            ".tex": self.latex,
            ".html": self.html,
        }
        ending = Path(path).suffix
        if ending not in forms:
            raise ValueError(
                f"a table's file must end in {', '.join(forms)}: got {str(path)!r}"
            )
        Path(path).write_text(forms[ending]() + "\n", encoding="utf-8")

    @property
    def _all(self) -> range:
        return range(len(self.rows))

    def _cell(self, row: int, column: str, before: str, after: str) -> str:
        text = self.rows[row].get(column, "")
        return f"{before}{text}{after}" if (row, column) in self.bold else text

    def _latex_cell(self, row: int, column: str) -> str:
        text = _escaped(self.rows[row].get(column, ""))
        return rf"\textbf{{{text}}}" if (row, column) in self.bold else text


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)
