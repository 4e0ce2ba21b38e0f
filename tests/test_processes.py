"""What processes send each other, played by one after the other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_mos import folder_lock, processes


@pytest.fixture
def sent(monkeypatch):
    """What the first process has sent, and in a list whether it is at work."""
    messages, first = [], [True]

    def broadcast(value):
        assert jnp.asarray(value).dtype == value.dtype  # as JAX sends it
        if first[0]:
            messages.append(np.array(value))
            return value
        return messages.pop(0)

    monkeypatch.setattr(processes, "several", lambda: True)
    monkeypatch.setattr(processes, "is_first", lambda: first[0])
    monkeypatch.setattr(processes.multihost_utils, "broadcast_one_to_all", broadcast)
    yield messages, first
    assert not messages


def test_a_folder_is_sent_in_pieces(sent, tmp_path, monkeypatch):
    """A length that 32 bits do not hold, or a host that has no room for all of it."""
    assert not jax.config.values["jax_enable_x64"]
    messages, first = sent
    monkeypatch.setattr(folder_lock, "_PIECE", 2**15)
    content = np.random.default_rng(0).bytes(100_000)
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "a").write_bytes(content)
    with folder_lock.alone(tmp_path) as found:
        assert found == tmp_path
    assert len(messages) > 8 and max(m.nbytes for m in messages) <= 2**15
    first[0] = False
    with folder_lock.alone(tmp_path) as copy:
        assert copy != tmp_path
        assert (copy / "inside" / "a").read_bytes() == content
        assert not (copy / folder_lock.LOCK).exists()
    assert not copy.exists()


def test_an_empty_folder_is_sent(sent, tmp_path):
    """A second process that waits for what never comes."""
    with folder_lock.alone(tmp_path):
        pass
    sent[1][0] = False
    with folder_lock.alone(tmp_path) as copy:
        assert not list(copy.iterdir())
