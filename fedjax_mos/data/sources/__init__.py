"""Where data sets come from: your own arrays or frames, generators, files."""

from fedjax_mos.data.sources.dataset import Dataset, Examples, arrays, normalise
from fedjax_mos.data.sources.frames import from_frame
from fedjax_mos.data.sources.named import load
from fedjax_mos.data.sources.table import SOURCES, Source

__all__ = [
    "SOURCES",
    "Dataset",
    "Examples",
    "Source",
    "arrays",
    "from_frame",
    "load",
    "normalise",
]
