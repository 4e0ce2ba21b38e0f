"""Augmentations: true geometry, one draw per image, nothing else touched."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from fedjax_mos.data import augment
from fedjax_mos.types import Batch

PUBLISHED = augment.chain(augment.rotate(10), augment.pad_crop(4), augment.flip())
ALL = {
    "rotate": augment.rotate(30),
    "pad_crop": augment.pad_crop(2),
    "flip": augment.flip(),
    "chain": PUBLISHED,
}
TURN = jax.jit(augment._turn)


def batch_of(x):
    B = len(x)
    return Batch(
        jnp.asarray(x), jnp.arange(B), jnp.asarray(np.arange(B) % 2, "float32")
    )


def images(B=8, side=8, dtype="uint8"):
    """Random images without a zero pixel, so that zero means fill."""
    pixels = np.random.default_rng(0).integers(1, 256, (B, side, side, 3))
    return pixels.astype(dtype)


@pytest.fixture(params=ALL, name="augmentation", scope="module")
def _augmentation(request):
    return jax.jit(ALL[request.param])


# ---- the contract --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_only_pixels_change(augmentation, dtype):
    """Labels or the mask would be lost, or bytes would turn into floats."""
    before = batch_of(images(dtype=dtype))
    after = augmentation(before, jax.random.key(0))
    assert after.x.dtype == before.x.dtype == dtype
    assert after.x.shape == before.x.shape
    np.testing.assert_array_equal(after.y, before.y)
    np.testing.assert_array_equal(after.mask, before.mask)
    assert (after.x != before.x).any()
    # Nearest neighbour and zero fill: no pixel value is new.
    assert np.isin(np.unique(after.x), np.append(np.unique(before.x), 0)).all()


def test_key_decides_everything(augmentation):
    """Runs would not repeat, or every step would see the same images."""
    batch = batch_of(images())
    same = [np.asarray(augmentation(batch, jax.random.key(1)).x) for _ in range(2)]
    other = np.asarray(augmentation(batch, jax.random.key(2)).x)
    np.testing.assert_array_equal(*same)
    assert (same[0] != other).any()


def test_each_image_has_its_own_draw(augmentation):
    """A batch would be transformed as one image."""
    x = np.repeat(images(1), 16, axis=0)
    after = np.asarray(augmentation(batch_of(x), jax.random.key(0)).x)
    assert len(np.unique(after.reshape(16, -1), axis=0)) > 1


def test_vmap_changes_nothing(augmentation):
    """Clients as a batch axis would see other images than one client alone."""
    keys = jax.random.split(jax.random.key(0), 3)
    batches = [batch_of(images() // k) for k in (1, 2, 3)]
    alone = [augmentation(b, k).x for b, k in zip(batches, keys, strict=True)]
    stacked = jax.tree.map(lambda *rows: jnp.stack(rows), *batches)
    together = jax.jit(jax.vmap(augmentation))(stacked, keys)
    np.testing.assert_array_equal(together.x, jnp.stack(alone))
    np.testing.assert_array_equal(together.mask, stacked.mask)


def test_jit_changes_nothing():
    """Compiled rounds would see other images than eager ones."""
    batch, key = batch_of(images()), jax.random.key(0)
    eager, compiled = PUBLISHED(batch, key), jax.jit(PUBLISHED)(batch, key)
    np.testing.assert_array_equal(eager.x, compiled.x)


@pytest.mark.parametrize("shape", [(8, 64), (8, 8, 8)])
def test_flat_images_are_refused(augmentation, shape):
    """Rows of features would be rotated as if they were pixels."""
    with pytest.raises(ValueError, match=r"x must hold images \[B, H, W, C\]: got"):
        augmentation(batch_of(np.ones(shape, "float32")), jax.random.key(0))


# ---- rotation ------------------------------------------------------------------------


@pytest.mark.parametrize("side", [7, 8])
@pytest.mark.parametrize("quarters", [-1, 1, 2])
def test_quarter_turns_are_exact(side, quarters):
    """Images would turn about a wrong centre, in a wrong sense, or lose an edge."""
    x = images(1, side)[0]
    turned = TURN(jnp.asarray(x), np.deg2rad(90.0 * quarters))
    np.testing.assert_array_equal(turned, np.rot90(x, quarters))


def test_small_angles_agree_with_pillow():
    """The published transform (torchvision on Pillow images) would be another one."""
    x = images(1, 32)[0]
    wrong = 0
    for degrees in np.linspace(-10, 10, 9):
        ours = np.asarray(TURN(jnp.asarray(x), np.deg2rad(degrees)))
        theirs = np.asarray(Image.fromarray(x).rotate(degrees))
        wrong += (ours != theirs).any(axis=-1).sum()
    # Pillow computes in fixed point: pixels on the edge between two neighbours differ.
    assert wrong <= 0.002 * 9 * 32 * 32


def test_angles_fill_their_range():
    """Angles would be one-sided, in radians, or beyond what was asked for."""
    x = np.zeros((200, 65, 65, 1), "uint8")
    x[:, 32, 60:63] = 1
    after = np.asarray(jax.jit(augment.rotate(10))(batch_of(x), jax.random.key(0)).x)[
        ..., 0
    ]
    v, u = np.arange(65)[:, None] - 32, np.arange(65) - 32
    mass = after.sum(axis=(1, 2))
    height, width = (after * v).sum(axis=(1, 2)), (after * u).sum(axis=(1, 2))
    angle = np.rad2deg(np.arctan2(-height / mass, width / mass))
    assert 9 < angle.max() < 11
    assert -11 < angle.min() < -9
    assert abs(angle.mean()) < 4 * 10 / np.sqrt(3 * 200)


def test_rotation_by_nothing_and_zero_fill():
    """Zero degrees would move pixels, or corners be filled by repeated edges."""
    batch = batch_of(images())
    still = augment.rotate(0)(batch, jax.random.key(0)).x
    np.testing.assert_array_equal(still, batch.x)
    corner = TURN(batch.x[0], np.deg2rad(45.0))[[0, 0, -1, -1], [0, -1, 0, -1]]
    assert not corner.any()


# ---- crop and flip -------------------------------------------------------------------


def test_crops_are_windows_of_the_padded_image():
    """Crops would wrap around, or miss some of the offsets."""
    x = np.repeat(images(1), 400, axis=0)
    after = np.asarray(augment.pad_crop(3)(batch_of(x), jax.random.key(0)).x)
    padded = np.pad(x[0], ((3, 3), (3, 3), (0, 0)))
    windows = {
        padded[r : r + 8, c : c + 8].tobytes(): (r, c)
        for r in range(7)
        for c in range(7)
    }
    found = {windows[image.tobytes()] for image in after}
    assert len(found) == 49


def test_flip_mirrors_left_to_right():
    """Images would be turned upside down, or channels reversed."""
    batch = batch_of(images())
    key = jax.random.key(0)
    np.testing.assert_array_equal(augment.flip(1.0)(batch, key).x, batch.x[:, :, ::-1])
    np.testing.assert_array_equal(augment.flip(0.0)(batch, key).x, batch.x)


def test_flip_has_its_probability():
    """A probability would be inverted or ignored."""
    batch = batch_of(np.repeat(images(1, 2), 2000, axis=0))
    after = np.asarray(augment.flip(0.2)(batch, jax.random.key(0)).x)
    flipped = (after != np.asarray(batch.x)).any(axis=(1, 2, 3)).mean()
    assert abs(flipped - 0.2) < 4 * np.sqrt(0.2 * 0.8 / 2000)


# ---- chain and errors ----------------------------------------------------------------


def test_chain_keeps_the_order_and_shares_no_key():
    """Steps would run in another order, or be correlated through one key."""
    seen = []

    def record(name):
        def augmentation(batch, key):
            seen.append((name, tuple(jax.random.key_data(key).tolist())))
            return batch._replace(x=batch.x * 2 + len(seen))

        return augmentation

    key = jax.random.key(0)
    batch = batch_of(np.zeros((1, 1, 1, 1), "int32"))
    out = augment.chain(record("first"), record("second"), record("third"))(batch, key)
    assert [name for name, _ in seen] == ["first", "second", "third"]
    assert out.x.item() == (1 * 2 + 2) * 2 + 3
    assert (
        len({own for _, own in seen} | {tuple(jax.random.key_data(key).tolist())}) == 4
    )
    assert augment.chain()(batch, key) is batch


@pytest.mark.parametrize(
    ("factory", "value", "message"),
    [
        (augment.rotate, -1, "degrees must be between 0 and 180: got -1"),
        (augment.rotate, 181, "degrees must be between 0 and 180: got 181"),
        (augment.pad_crop, -1, "padding must be a non-negative integer: got -1"),
        (augment.pad_crop, 1.5, "padding must be a non-negative integer: got 1.5"),
        (augment.flip, 1.5, "probability must be between 0 and 1: got 1.5"),
    ],
)
def test_bad_options_are_named(factory, value, message):
    """A wrong option would fail inside a compiled round, or not at all."""
    with pytest.raises(ValueError, match=message):
        factory(value)
