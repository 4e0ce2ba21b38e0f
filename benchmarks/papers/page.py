"""A page of which every data set has a part."""

from pathlib import Path


def write_part(page: Path, intro: str, name: str, text: str) -> None:
    """Replace the part `## name` of a page; the others stay, the intro is new."""
    before = page.read_text() if page.exists() else ""
    parts = {one.split("\n")[0]: f"## {one}" for one in before.split("\n## ")[1:]}
    parts[name] = text
    own = [f"{one.rstrip()}\n" for _, one in sorted(parts.items())]
    page.write_text("\n".join([f"{intro}\n", *own]))
