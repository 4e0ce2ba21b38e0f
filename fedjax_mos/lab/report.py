"""One page of HTML that needs nothing else: settings, pictures, tables, citations."""

import base64
import html
import io
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fedjax_mos._version import __version__
from fedjax_mos.lab import folders
from fedjax_mos.lab.citation import citation
from fedjax_mos.lab.columns import meaning
from fedjax_mos.lab.hypergradients.tuned import Tuned
from fedjax_mos.lab.searches.found import Search
from fedjax_mos.lab.showing import Shown
from fedjax_mos.lab.summaries import main_metric, metrics_of
from fedjax_mos.lab.sweeps.cube import Cube

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedjax_mos.lab.experiment import Experiment

_STYLE = """
body { font-family: system-ui, sans-serif; max-width: 62rem; margin: 2rem auto;
  padding: 0 1rem; color: #222; line-height: 1.5; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
table { border-collapse: collapse; font-size: 0.9rem; display: block;
  overflow-x: auto; }
th, td { padding: 0.3rem 0.8rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; } pre { background: #f6f6f6; padding: 0.8rem; overflow: auto;
  font-size: 0.8rem; }
.note { color: #555; font-size: 0.85rem; margin: 0.2rem 0; }
"""


def report(result: Any) -> str:
    """A Result, Comparison, Cube, Search or Tuned as one page that opens offline."""
    title, experiments = _about(result)
    sections = [
        *_figures(result),
        *_settings(experiments),
        *_words(result),
        *_cited(experiments),
    ]
    body = "\n".join(f"<h2>{html.escape(h)}</h2>\n{text}" for h, text in sections)
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{html.escape(title)}</title><link rel='icon' href='data:,'>"
        f"<style>{_STYLE}</style></head><body>\n<h1>{html.escape(title)}</h1>\n"
        f"<p class='note'>Made by fedjax_mos {__version__}.</p>\n{body}\n"
        "</body></html>\n"
    )


def _about(result: Any) -> tuple[str, "dict[str, Experiment | None]"]:
    """The page's title, and the experiments behind it by name."""
    if isinstance(result, Shown):
        members = {name: one.experiment for name, one in result.members.items()}
        names = ", ".join(members)
        verb = "Comparison" if len(members) > 1 else "Run"
        return f"{verb}: {names}", members
    one = result.experiment
    name = one.title if one else "own components"
    kind = result.KIND.capitalize() if isinstance(result, Cube) else "Tuning"
    return f"{kind}: {name}", {name: one}


def _figures(result: Any) -> Iterator[tuple[str, str]]:
    """Tables and pictures, by heading."""
    if isinstance(result, Cube):
        yield "Best configurations", result.printed(top=20).html()
        if "algorithm" in result.axes:
            yield "Best of every algorithm", result.printed(per="algorithm").html()
        if isinstance(result, Search) and result.rungs["value"].notna().any():
            yield "Rungs", _image(result.halving(), "configurations at their rungs")
        if not result.cells()["mean"].isna().all():
            yield "Curves", _image(result.curves(), "curves of the best configurations")
            if len(result.axes) > 1:
                yield "Configurations", _image(result.heat_map(), "configurations")
        return
    if isinstance(result, Tuned):
        rows = result.table().rename_axis("point").reset_index()
        yield (
            "Numbers",
            rows.to_html(index=False, border=0, float_format="{:.4g}".format),
        )
        yield "On the way", _image(result.trajectory(), "objective and numbers")
        return
    yield "Results", result.printed().html()
    yield "By round", _image(result.curves(), "loss and accuracy by round")
    frames = [one.frame for one in result.members.values()]
    metrics = list(dict.fromkeys(map(main_metric, frames)))
    about = f"{', '.join(metrics)} against bits"
    yield "By bits", _image(result.curves(metrics, x="bits"), about)
    if any(one.cohorts is not None for one in result.members.values()):
        yield "Who took part", _image(result.selection(), "selection of clients")
    if any("_client_" in str(c) for one in result.members.values() for c in one.frame):
        figure = result.client_distributions()
        yield "Client by client", _image(figure, "distribution over clients")


def _settings(experiments: "dict[str, Experiment | None]") -> Iterator[tuple[str, str]]:
    known = {name: one for name, one in experiments.items() if one is not None}
    for name, one in known.items():
        stored = folders.config(one, "report")
        text = html.escape(json.dumps(stored, indent=2, default=str))
        shown = f"<details><summary>all settings</summary><pre>{text}</pre></details>"
        options = {
            f"{kind}.{n}": v
            for kind, values in stored["options"].items()
            for n, v in values.items()
            if v is not None
        }
        brief = ", ".join(f"{n}={v}" for n, v in options.items())
        yield f"Settings of {name}", f"<p>{html.escape(brief)}</p>{shown}"
    if known:
        stored = folders.config(next(iter(known.values())), "report")
        versions = ", ".join(f"{n} {v}" for n, v in stored["versions"].items())
        where = f"platform {stored['platform']}, precision {stored['precision']}"
        yield "Environment", html.escape(f"{versions}; {where}")


def _words(result: Any) -> Iterator[tuple[str, str]]:
    """What the columns mean."""
    if isinstance(result, Tuned):
        return
    names = [
        n for n in metrics_of(result.frame) if n not in getattr(result, "axes", ())
    ]
    items = "".join(
        f"<li><code>{html.escape(n)}</code>: {html.escape(str(meaning(n)))}</li>"
        for n in names
    )
    yield "What the metrics mean", f"<ul class='note'>{items}</ul>"


def _cited(experiments: "dict[str, Experiment | None]") -> Iterator[tuple[str, str]]:
    known = [one for one in experiments.values() if one is not None]
    entries = dict.fromkeys(e for one in known for e in citation(one).split("\n\n"))
    if entries:
        yield "What to cite", f"<pre>{html.escape(chr(10).join(entries))}</pre>"


def _image(figure: "Figure", about: str) -> str:
    """An image element that holds the picture itself, the same for the same results."""
    import matplotlib

    file = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "fedjax_mos"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    text = base64.b64encode(file.getvalue()).decode()
    return f"<img alt='{html.escape(about)}' src='data:image/svg+xml;base64,{text}'>"
