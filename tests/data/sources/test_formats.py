"""Readers of IDX, CIFAR batches, npz files, image folders and archives."""

import gzip
import io
import os
import pickle
import tarfile
import zipfile

import numpy as np
import pytest
from PIL import Image

from fedjax_mos.data.sources.files import contents, open_files
from fedjax_mos.data.sources.formats import (
    parse_idx,
    read_cifar10,
    read_cifar100,
    read_npz,
    safe_unpickle,
)
from fedjax_mos.data.sources.named import load

RNG = np.random.default_rng(0)
X = RNG.integers(0, 256, (12, 32, 32, 3), dtype=np.uint8)
Y = np.arange(12) % 10


def planes(x):
    """NHWC images as CIFAR's rows of channel planes."""
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2).reshape(len(x), -1))


def cifar10_files(python):
    """Six batches of two images each, name -> bytes."""
    files = {}
    for i, stem in enumerate([f"data_batch_{k}" for k in range(1, 6)] + ["test_batch"]):
        x, y = X[2 * i : 2 * i + 2], Y[2 * i : 2 * i + 2]
        if python:
            batch = {b"data": planes(x), b"labels": y.tolist()}
            files[stem] = pickle.dumps(batch, protocol=2)
        else:
            rows = np.concatenate([y[:, None].astype(np.uint8), planes(x)], axis=1)
            files[f"{stem}.bin"] = rows.tobytes()
    return files


def write_tar(path, files):
    """An archive with exactly these member names."""
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def check_cifar10(data):
    np.testing.assert_array_equal(data.train.x, X[:10])
    np.testing.assert_array_equal(data.train.y, Y[:10])
    np.testing.assert_array_equal(data.test.x, X[10:])
    assert data.classes == 10 and data.mean.shape == (3,)


@pytest.mark.parametrize("python", [True, False])
@pytest.mark.parametrize("place", ["", "cifar10", "nested", "archive"])
def test_cifar10(tmp_path, python, place):
    """One of the forms in which people have CIFAR-10 would not be found or read."""
    folder = "cifar-10-batches-py" if python else "cifar-10-batches-bin"
    files = cifar10_files(python)
    if place == "archive":
        archive = "cifar-10-python.tar.gz" if python else "cifar-10-binary.tar.gz"
        write_tar(tmp_path / archive, {f"{folder}/{n}": b for n, b in files.items()})
    else:
        place = f"cifar10/{folder}" if place == "nested" else place
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (tmp_path / place / name).write_bytes(data)
    check_cifar10(load("cifar10", data_dir=tmp_path))


@pytest.mark.parametrize("python", [True, False])
def test_cifar100_has_fine_labels(tmp_path, python):
    """The 20 coarse labels would be taken for the 100 fine ones."""
    folder = tmp_path / ("cifar-100-python" if python else "cifar-100-binary")
    folder.mkdir()
    for stem in ("train", "test"):
        coarse, fine = np.full(12, 3), Y + 80
        if python:
            batch = {b"data": planes(X), b"coarse_labels": coarse.tolist()}
            batch |= {b"fine_labels": fine.tolist()}
            (folder / stem).write_bytes(pickle.dumps(batch, protocol=2))
        else:
            rows = np.column_stack([coarse, fine, planes(X)]).astype(np.uint8)
            (folder / f"{stem}.bin").write_bytes(rows.tobytes())
    data = load("cifar100", data_dir=tmp_path)
    np.testing.assert_array_equal(data.train.y, Y + 80)
    np.testing.assert_array_equal(data.train.x, X)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("as_text", [False, True])
def test_pickled_arrays_of_every_protocol(protocol, as_text):
    """A batch saved by another Python or NumPy would be refused."""
    batch = {"data" if as_text else b"data": X[0], b"labels": [1, 2]}
    found = safe_unpickle(pickle.dumps(batch, protocol), "here")
    np.testing.assert_array_equal(next(iter(found.values())), X[0])


def test_python2_pickle():
    """The original archives, written by Python 2 and an old NumPy, would not load."""
    pixels = X[:1].tobytes().decode("latin1").encode("unicode_escape")
    pixels = pixels.replace(b"'", b"\\x27")
    text = (
        b"(dp1\nS'data'\np2\ncnumpy.core.multiarray\n_reconstruct\np3\n(cnumpy\n"
        b"ndarray\np4\n(I0\ntp5\nS'b'\np6\ntp7\nRp8\n(I1\n(I1\nI3072\ntp9\n"
        b"cnumpy\ndtype\np10\n(S'u1'\np11\nI0\nI1\ntp12\nRp13\n(I3\nS'|'\np14\nNNN"
        b"I-1\nI-1\nI0\ntp15\nbI00\nS'" + pixels + b"'\np16\ntp17\nbsS'labels'\n"
        b"p18\n(lp19\nI7\nas."
    )
    batch = safe_unpickle(text, "here")
    assert batch[b"labels"] == [7]
    np.testing.assert_array_equal(batch[b"data"].ravel(), X[0].ravel())


class Hostile:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_hostile_pickle_is_refused(tmp_path):
    """Opening a downloaded batch would run a stranger's code."""
    trace = tmp_path / "executed"
    files = cifar10_files(python=True)
    files["data_batch_3"] = pickle.dumps({b"data": Hostile(trace), b"labels": [1]})
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=r"data_batch_3 .*refused \w+\.system"):
        load("cifar10", data_dir=tmp_path)
    assert not trace.exists()
    pickle.loads(files["data_batch_3"])  # the attack works where nobody is careful
    assert trace.exists()


@pytest.mark.parametrize(
    "call",
    [
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"c__builtin__\neval\n(S'1'\ntR.",
        b"cnumpy\nload\n(S'x'\ntR.",
        b"\x80\x04\x8c\x05numpy\x8c\x10ndarray.__init__\x93.",
        b"c_codecs\nencode\n(Vx\nVrot13\ntR.",
    ],
)
def test_other_globals_are_refused(call):
    """The list of allowed names would have a hole."""
    with pytest.raises(ValueError, match="refused"):
        safe_unpickle(call, "here")


def test_damaged_cifar(tmp_path):
    """A truncated batch would give shifted images instead of an error."""
    for name, data in cifar10_files(python=False).items():
        (tmp_path / name).write_bytes(data[:-1])
    with pytest.raises(ValueError, match="rows of 3073 bytes: got 6145"):
        read_cifar10(open_files(tmp_path))
    (tmp_path / "train").write_bytes(pickle.dumps({b"data": X}))
    with pytest.raises(ValueError, match="dict with keys data, fine_labels"):
        read_cifar100(open_files(tmp_path))
    (tmp_path / "train").write_bytes(pickle.dumps({"data": X, "fine_labels": [1]}))
    with pytest.raises(ValueError, match=r"data must be uint8 of shape \[n, 3072\]"):
        read_cifar100(open_files(tmp_path))


@pytest.mark.parametrize("spelling", ["-idx", ".idx"])
@pytest.mark.parametrize("zipped", [True, False])
def test_idx(tmp_path, spelling, zipped):
    """A usual spelling or compression of MNIST's files would not be found."""
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    x, y = X[..., 0], Y
    for stem, a in (("images", x), ("labels", y)):
        head = bytes([0, 0, 8, a.ndim]) + np.array(a.shape, ">u4").tobytes()
        data = head + a.astype(np.uint8).tobytes()
        for part in ("train", "t10k"):
            name = f"{part}-{stem}{spelling}{a.ndim}-ubyte"
            name, data_ = (
                (f"{name}.gz", gzip.compress(data)) if zipped else (name, data)
            )
            (folder / name).write_bytes(data_)
    data = load("mnist", data_dir=tmp_path)
    np.testing.assert_array_equal(data.train.x, x[..., None])
    np.testing.assert_array_equal(data.test.y, y)


def test_idx_wide_values():
    """Big-endian values would be read in the machine's order."""
    head = bytes([0, 0, 0x0C, 1]) + np.array([2], ">u4").tobytes()
    values = parse_idx(head + np.array([1, -70000], ">i4").tobytes(), "here")
    assert values.tolist() == [1, -70000] and values.dtype.isnative


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is no IDX file"),
        (b"PK\x03\x04", "is no IDX file"),
        (b"\0\0\x08\x03\0\0", "must have a header"),
        (b"\0\0\x08\x01\0\0\0\x05abc", r"must have 13 bytes for shape \[5\]: got 11"),
        (b"\0\0\x08\x01\0\0\0\x02abc", r"must have 10 bytes for shape \[2\]: got 11"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "must have .* bytes for shape"),
    ],
)
def test_damaged_idx(data, message):
    """A truncated or foreign file would give garbage or an unnamed error."""
    with pytest.raises(ValueError, match=f"here {message}"):
        parse_idx(data, "here")


def test_damaged_gzip(tmp_path):
    """A half download would end in a bare EOFError."""
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(1000))[:-9])
    with pytest.raises(ValueError, match="a.gz is not a whole gzip file"):
        contents(open_files(tmp_path), "a")


def test_nearest_file_wins(tmp_path):
    """A backup in a subfolder would be read instead of the file itself."""
    write_all(tmp_path, {"a/old/x": b"old", "x": b"new", "b/x": b"other"})
    assert contents(open_files(tmp_path), "x") == b"new"


def test_npz_never_unpickles(tmp_path):
    """An npz could run code through an object array."""
    path, trace = tmp_path / "a.npz", tmp_path / "executed"
    np.savez(path, x_train=X, y_train=Y, x_test=X, y_test=np.array([Hostile(trace)]))
    with pytest.raises(ValueError, match="a.npz is not usable as an npz"):
        read_npz(path)
    assert not trace.exists()


def test_bad_npz(tmp_path):
    """Missing keys or a damaged file would not be named."""
    np.savez(tmp_path / "a.npz", x_train=X, labels=Y)
    with pytest.raises(ValueError, match=r"\['y_train', 'x_test', 'y_test'\] are miss"):
        read_npz(tmp_path / "a.npz")
    for data in (b"", b"PK\x03\x04 broken", b"text"):
        (tmp_path / "a.npz").write_bytes(data)
        with pytest.raises(ValueError, match="a.npz is not usable as an npz"):
            read_npz(tmp_path / "a.npz")
    np.save(tmp_path / "a.npy", X)
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    with pytest.raises(ValueError, match="a.npz is not usable as an npz"):
        read_npz(tmp_path / "a.npz")


def png(pixels):
    """An image as the bytes of a lossless file."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def write_all(root, files):
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


def tiny_imagenet():
    """Two classes, two training images each, two validation images."""
    files = {"wnids.txt": b"n02\nn01\n", "test/images/test_0.JPEG": png(X[9])}
    for i, name in enumerate(["n01", "n01", "n02", "n02"]):
        files[f"train/{name}/images/{name}_{i}.JPEG"] = png(X[i])
        files[f"train/{name}/{name}_boxes.txt"] = b"a 0 0 1 1\n"
    files["val/images/val_0.JPEG"] = png(X[4])
    files["val/images/val_1.JPEG"] = png(X[5])
    lines = b"val_1.JPEG\tn01\t0\t0\t1\t1\nval_0.JPEG\tn02\t0\t0\t1\t1\n"
    return files | {"val/val_annotations.txt": lines}


@pytest.mark.parametrize("zipped", [True, False])
def test_tiny_imagenet(tmp_path, zipped):
    """Labels would not follow the annotations, or the zip would not be read."""
    files = {f"tiny-imagenet-200/{n}": b for n, b in tiny_imagenet().items()}
    if zipped:
        with zipfile.ZipFile(tmp_path / "tiny-imagenet-200.zip", "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
    else:
        write_all(tmp_path, files)
    data = load("tiny_imagenet", data_dir=tmp_path)
    np.testing.assert_array_equal(data.train.x, X[:4])
    assert data.train.y.tolist() == [0, 0, 1, 1] and data.classes == 200
    np.testing.assert_array_equal(data.test.x, X[[5, 4]])
    assert data.test.y.tolist() == [0, 1]


def test_image_folder(tmp_path):
    """Own images in train/<class>/ and test/<class>/ would not load."""
    files = {"train/cat/0.png": png(X[0, ..., 0]), "train/dog/1.PNG": png(X[1, ..., 0])}
    files |= {"test/dog/0.png": png(X[2, ..., 0]), "test/readme.txt": b"no image"}
    write_all(tmp_path, files)
    data = load(f"folder:{tmp_path}")
    assert data.train.x.shape == (2, 32, 32, 1)
    np.testing.assert_array_equal(data.test.x[0, ..., 0], X[2, ..., 0])
    assert (data.train.y.tolist(), data.test.y.tolist()) == ([0, 1], [1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"test/dog/9.png": png(X[0, :8])}, "32 x 32.*test/dog/9.png has 8 x 32"),
        ({"test/dog/9.png": b"no image"}, "test/dog/9.png is no readable image"),
        ({"train/cat/0.png": b"no image"}, "train/cat/0.png is no readable image"),
        (
            {"test/cow/9.png": png(X[0])},
            r"must be among those of train/: got \['cow'\]",
        ),
        ({"test/dog/0.png": None}, "holds no images test/<class>/"),
    ],
)
def test_bad_image_folder(tmp_path, change, message):
    """A stray image would be resized, skipped or reported without its name."""
    files = {"train/cat/0.png": png(X[0]), "train/dog/1.png": png(X[1])}
    files = files | {"test/dog/0.png": png(X[2])} | change
    write_all(tmp_path, {n: b for n, b in files.items() if b is not None})
    with pytest.raises(ValueError, match=message):
        load(f"folder:{tmp_path}")


def test_archives_write_nothing(tmp_path):
    """A member called ../name would be written outside the folder."""
    inner = tmp_path / "inner"
    inner.mkdir()
    files = {f"../{n}": b for n, b in cifar10_files(python=False).items()}
    write_tar(inner / "cifar-10-binary.tar.gz", files | {"/outside": b"x"})
    check_cifar10(load("cifar10", data_dir=inner))
    assert sorted(p.name for p in tmp_path.rglob("*")) == [
        "cifar-10-binary.tar.gz",
        "inner",
    ]


@pytest.mark.parametrize("name", ["cifar-10-binary.tar.gz", "tiny-imagenet-200.zip"])
def test_damaged_archive(tmp_path, name):
    """A half download would end in an error that does not name the file."""
    (tmp_path / name).write_bytes(b"\x1f\x8b broken")
    source = "cifar10" if name.startswith("cifar") else "tiny_imagenet"
    with pytest.raises(ValueError, match=f"{name} is not a readable archive"):
        load(source, data_dir=tmp_path)
