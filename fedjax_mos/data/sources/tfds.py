"""Data sets that TensorFlow Datasets has prepared, read without TensorFlow."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_mos.data.sources.dataset import Dataset, arrays

_CHUNK = 4096


def load_tfds(name: str, data_dir: str | Path | None = None) -> Dataset:
    """Data set `name[/config][:version]`, prepared in the array_record format.

    Only what is on disk counts, in `data_dir`, else TFDS_DATA_DIR, else
    ~/tensorflow_datasets: nothing is downloaded or prepared.
    """
    import tensorflow_datasets as tfds

    folder = data_dir or os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets"
    folder = Path(folder).expanduser()
    _check_features(folder)
    try:
        builder = tfds.core.read_only_builder.builder_from_files(
            name, data_dir=str(folder)
        )
    except tfds.core.registered.DatasetNotFoundError as e:
        raise FileNotFoundError(
            f"tfds:{name} is not prepared in {folder}. Where TensorFlow and the "
            f"network are available, prepare it with\n"
            f"  tfds build {name} --file_format=array_record --data_dir={folder}"
        ) from e
    stored = builder.info.file_format.value
    if stored != "array_record":
        raise ValueError(
            f"tfds:{name} must be in the array_record format to be read without "
            f"TensorFlow: {builder.data_path} is in {stored}"
        )
    image, label = _keys(name, builder.info)
    missing = [split for split in ("train", "test") if split not in builder.info.splits]
    if missing:
        raise ValueError(
            f"tfds:{name} must have splits train and test: it has "
            f"{', '.join(builder.info.splits)}"
        )
    found: dict[str, Any] = {}
    for split, part in (("train", "train"), ("test", "test"), ("validation", "valid")):
        if split in builder.info.splits:
            x, y = _read(builder.as_data_source(split=split), image, label)
            found |= {f"x_{part}": x, f"y_{part}": y}
    classes = getattr(builder.info.features[label], "num_classes", None)
    return arrays(**found, classes=classes)


def _check_features(folder: Path) -> None:
    """Refuse a folder with data sets, this or another, of features not TFDS's own.

    TFDS imports the module of every class that features.json names, so that a folder
    from a stranger could run any code.
    """
    for path in folder.rglob("features.json"):
        for word in _classes(json.loads(path.read_text(encoding="utf-8"))):
            if not word.startswith("tensorflow_datasets."):
                raise ValueError(
                    f"{path} must name classes of tensorflow_datasets only, because "
                    f"reading it imports them: got {word!r}"
                )


def _classes(features: Any) -> Iterator[str]:
    """Every class that is named anywhere inside."""
    if isinstance(features, dict):
        for name, value in features.items():
            if name in ("pythonClassName", "type") and isinstance(value, str):
                yield value
            yield from _classes(value)
    elif isinstance(features, list):
        for value in features:
            yield from _classes(value)


def _keys(name: str, info: Any) -> tuple[str, str]:
    """The features that are input and label."""
    if info.supervised_keys is not None:
        return info.supervised_keys[0], info.supervised_keys[1]
    if {"image", "label"} <= set(info.features):
        return "image", "label"
    raise ValueError(
        f"tfds:{name} must have supervised keys or features image and label: it has "
        f"{', '.join(info.features)}"
    )


def _read(source: Any, image: str, label: str) -> tuple[np.ndarray, np.ndarray]:
    """All examples of one split, in stored order."""
    x, y = [], []
    for start in range(0, len(source), _CHUNK):
        rows = range(start, min(start + _CHUNK, len(source)))
        for example in source.__getitems__(list(rows)):
            x.append(example[image])
            y.append(example[label])
    shapes = sorted({np.shape(one) for one in x})
    if len(shapes) > 1:
        raise ValueError(f"{image} must have one shape: got {shapes[0]}, {shapes[1]}")
    return np.stack(x), np.array(y)
