"""TensorFlow Datasets: prepared data is read without TensorFlow, missing data named."""

import json
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

from fedjax_mos.data.sources.named import load

# In its own process: defining a builder registers it for the rest of the process.
PREPARE = """
import sys
import numpy as np
import tensorflow_datasets as tfds

FEATURES = {
    "picture": tfds.features.Tensor(shape=(4, 4, 1), dtype=np.uint8),
    "kind": tfds.features.ClassLabel(num_classes=5),
    "size": tfds.features.Tensor(shape=(None,), dtype=np.int64),
}

class TinyPictures(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")
    KEYS = ("picture", "kind")
    SPLITS = {"train": 12, "test": 6, "validation": 3}

    def _info(self):
        features = tfds.features.FeaturesDict(FEATURES)
        return tfds.core.DatasetInfo(
            builder=self, features=features, supervised_keys=self.KEYS
        )

    def _split_generators(self, dl_manager):
        return {split: self._generate_examples(n) for split, n in self.SPLITS.items()}

    def _generate_examples(self, n):
        for i in range(n):
            picture = np.full((4, 4, 1), 10 * i, np.uint8)
            yield i, {"picture": picture, "kind": i % 3, "size": np.arange(i % 2 + 1)}

class NoKeys(TinyPictures):
    KEYS = None

class Ragged(TinyPictures):
    KEYS = ("size", "kind")

class OnlyTrain(TinyPictures):
    SPLITS = {"train": 4}

for builder in (TinyPictures, NoKeys, Ragged, OnlyTrain):
    builder(data_dir=sys.argv[1], file_format="array_record").download_and_prepare()
"""

READ = """
import sys
from fedjax_mos.data.sources.named import load
print(len(load("tfds:tiny_pictures", sys.argv[1]).train.y))
assert "tensorflow" not in sys.modules
"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder of small data sets written by TFDS itself."""
    folder = tmp_path_factory.mktemp("tfds")
    run(PREPARE, folder)
    return folder


def run(script, folder):
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["tiny_pictures", "tiny_pictures:1.0.0"])
def test_prepared_data(prepared, name):
    """Examples would be lost, split or labelled wrongly."""
    data = load(f"tfds:{name}", data_dir=prepared)
    assert [len(p.y) for p in (data.train, data.test, data.valid)] == [12, 6, 3]
    assert data.train.x.shape == (12, 4, 4, 1) and data.train.x.dtype == np.uint8
    assert data.classes == 5 and data.train.y.dtype == np.int32
    pixel = data.train.x[:, 0, 0, 0]
    assert sorted(pixel) == [10 * i for i in range(12)]
    np.testing.assert_array_equal(data.train.y, pixel // 10 % 3)


def test_no_tensorflow(prepared):
    """Reading would import, and so need, TensorFlow."""
    assert run(READ, prepared).split() == ["12"]


def test_default_folder(prepared, monkeypatch):
    """TFDS's own environment variable would be ignored."""
    monkeypatch.setenv("TFDS_DATA_DIR", str(prepared))
    assert len(load("tfds:tiny_pictures").train.y) == 12


@pytest.mark.parametrize("name", ["mnist", "mnist:3.0.1", "glue/cola", "no_such_set"])
def test_missing_data_is_named_at_once(tmp_path, name):
    """Without a network the user would wait for minutes of retries."""
    import tensorflow_datasets  # noqa: F401  (its import is not what is timed)

    start = time.perf_counter()
    with pytest.raises(FileNotFoundError, match=f"tfds build {name} .*array_record"):
        load(f"tfds:{name}", data_dir=tmp_path)
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_keys", "must have supervised keys .*it has .*picture"),
        ("ragged", r"size must have one shape: got \(1,\), \(2,\)"),
        ("only_train", "must have splits train and test: it has train"),
    ],
)
def test_unsuitable_data_is_refused(prepared, name, message):
    """Data that is no classification set would fail deep inside training."""
    with pytest.raises(ValueError, match=message):
        load(f"tfds:{name}", data_dir=prepared)


def test_other_format_is_refused(prepared, tmp_path):
    """The default format of TFDS, which needs TensorFlow, would raise ImportError."""
    source = prepared / "tiny_pictures" / "1.0.0"
    target = tmp_path / "tiny_pictures" / "1.0.0"
    target.mkdir(parents=True)
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    info = json.loads((target / "dataset_info.json").read_text())
    assert info["fileFormat"] == "array_record"
    info["fileFormat"] = "tfrecord"
    (target / "dataset_info.json").write_text(json.dumps(info))
    with pytest.raises(
        ValueError, match="must be in the array_record format.*tfrecord"
    ):
        load("tfds:tiny_pictures", data_dir=tmp_path)


def test_a_prepared_folder_runs_no_code(prepared, tmp_path):
    """TFDS imports the classes that features.json names: only its own may be there."""
    shutil.copytree(prepared / "tiny_pictures", tmp_path / "tiny_pictures")
    path = tmp_path / "tiny_pictures" / "1.0.0" / "features.json"
    (tmp_path / "evil.py").write_text("raise SystemExit('code was run')")
    text = path.read_text().replace("tensorflow_datasets.core.features", "evil", 1)
    assert "evil" in text
    path.write_text(text)
    for name in ("tiny_pictures", "TinyPictures", "tiny_pictures:1.0.0"):
        with pytest.raises(ValueError, match="of tensorflow_datasets only.*evil"):
            load(f"tfds:{name}", data_dir=tmp_path)
