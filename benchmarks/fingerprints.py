"""Hashes of every method's first rounds, to show that new code changed none of them.

    python benchmarks/fingerprints.py before.json                 # on the old commit
    python benchmarks/fingerprints.py after.json --like before.json

Every catalog algorithm runs three rounds on `digits` with its own sampler and channels,
and every sampler, uplink and downlink once. Hashed are the bytes of the parameters, of
the client rows and of the cumulative bits. Hashes hold for one machine and one version
of jax.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

import jax
import numpy as np

import fedjax_mos as fm

ROUNDS = 3
COMMON = {"rounds": ROUNDS, "clients": 20, "cohort": 5, "backend": "vmapped"}


def names(kind: str) -> list[str]:
    """The catalog's names of one kind, wherever this commit keeps them."""
    try:
        from fedjax_mos.lab import catalog
    except ImportError:
        from fedjax_mos import catalog
    return list(getattr(catalog, kind))


def cases() -> dict[str, dict[str, object]]:
    """Label -> fields of the experiment."""
    found: dict[str, dict[str, object]] = {}
    for name in names("ALGORITHMS"):
        found[f"algorithm {name}"] = {"algorithm": name, "sampler": "ucs"}
    for name in names("SAMPLERS"):
        owner = "lag_ps" if name == "lag_contact" else "scaffold"
        options = {"warm_up": 2} if name == "cacs" else {}
        found[f"sampler {name}"] = {
            "algorithm": owner,
            "sampler": name,
            "options": options,
        }
    for name in names("CHANNELS"):
        if not name.startswith("lag_"):
            for side in ("uplink", "downlink"):
                found[f"{side} {name}"] = {"algorithm": "fedams", side: name}
    found["pool"] = {"algorithm": "fedmos", "pool": 10, "pool_every": 2}
    found["epochs"] = {"algorithm": "fedmos", "epochs": 1}
    found["local options"] = {
        "algorithm": "fedmos",
        "epochs": 2,
        "options": {
            "clip": 1.0,
            "weight_decay": 0.01,
            "epoch_decay": 0.9,
            "round_decay": 0.9,
        },
    }
    found["two seeds"] = {"algorithm": "fedmos", "seeds": 2}
    return found


def digest(tree: object) -> str:
    """The bytes of all leaves, in order."""
    total = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        total.update(np.asarray(leaf).tobytes())
    return total.hexdigest()[:16]


def fingerprint(fields: dict[str, object]) -> dict[str, str]:
    """What one case leaves, hashed."""
    fields = dict(fields)
    seeds = fields.pop("seeds", None)
    result = fm.Experiment(**COMMON | fields).run(seeds, progress=False)
    frame = getattr(result, "frame", None)
    frame = result.history if frame is None else frame
    return {
        "params": digest(result.params),
        "clients": digest(result.state.clients),
        "bits": digest(frame[["bits_up", "bits_down"]].to_numpy()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--like", type=Path, help="hashes that these must equal")
    parser.add_argument("--only", default="", help="cases whose label contains this")
    args = parser.parse_args()
    found = {}
    for label, fields in cases().items():
        if args.only in label:
            found[label] = fingerprint(fields)
            jax.clear_caches()
            args.out.write_text(json.dumps(found, indent=1) + "\n")
    if args.like is None:
        return
    expected = json.loads(args.like.read_text())
    other = {
        label: [part for part in hashes if hashes[part] != expected[label][part]]
        for label, hashes in found.items()
        if label in expected
    }
    wrong = {label: parts for label, parts in other.items() if parts}
    print(f"{len(other) - len(wrong)} of {len(other)} cases are the same")
    for label, parts in wrong.items():
        print(f"  {label}: other {', '.join(parts)}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
