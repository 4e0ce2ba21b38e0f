"""The style of all pictures: readable in grey and by the colour-blind."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which differ for every kind of sight, in an order in which
# neighbours also differ in lightness. Lines differ in dashes and marks as well.
COLOURS = (
    "#0072B2",
    "#D55E00",
    "#000000",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#7F7F7F",
)
_DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))
_MARKS = "osD^vP*X"
_FORMATS = (".png", ".svg", ".pdf")
_MARKS_PER_LINE = 8
_ORDERS = 10  # between the least and the greatest, from which an axis is a logarithm
MAP = "cividis"  # of heat maps: even in grey


class Line(NamedTuple):
    """How one member is drawn, in every picture."""

    color: str
    linestyle: Any
    marker: str


def line(number: int) -> Line:
    """The style of member `number`: 40 combinations before one comes again."""
    return Line(
        COLOURS[number % len(COLOURS)],
        _DASHES[number % len(_DASHES)],
        _MARKS[number % len(_MARKS)],
    )


def every(points: int) -> int:
    """Points between two marks of a line."""
    return max(1, points // _MARKS_PER_LINE)


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure that can be saved anywhere."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def finish(axis: "Axes", *, percent: bool = False, log: bool = False) -> None:
    """Grid and scale of an axis whose y is a share, or spans orders of magnitude."""
    axis.grid(alpha=0.3, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    if percent:
        from matplotlib.ticker import FuncFormatter

        # The unit stands on the axis.
        axis.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:g}"))
    if log:
        axis.set_yscale("log")


def spans_orders(values: np.ndarray) -> bool:
    """Whether values are positive and span so much that only a logarithm shows them."""
    return bool(
        len(values) and values.min() > 0 and values.max() > _ORDERS * values.min()
    )


def whole_numbers(*axes: Any) -> None:
    """Ticks of matplotlib's x or y axes at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    for axis in axes:
        axis.set_major_locator(MaxNLocator(integer=True))


def caption(figure: "Figure", text: str) -> None:
    """What the reader must know, below the picture."""
    import textwrap

    width = int(15 * figure.get_size_inches()[0])
    wrapped = "\n".join(textwrap.wrap(text, width))
    figure.supxlabel(wrapped, fontsize=8, color="0.35")


def save(figure: "Figure", path: Path | str) -> None:
    """As PNG, SVG or PDF, by the file's ending."""
    ending = Path(path).suffix
    if ending not in _FORMATS:
        raise ValueError(
            f"a picture's file must end in {', '.join(_FORMATS)}: got {str(path)!r}"
        )
    figure.savefig(path, dpi=120)
