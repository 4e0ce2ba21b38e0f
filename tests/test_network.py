"""Nothing asks the network unless a data set is fetched."""

import os
import subprocess
import sys

import pytest

CODE = """
import importlib, pkgutil, socket, sys, urllib.request

asked = []

def trap(name):
    def refuse(*args, **options):
        asked.append((name, str(args)))
        raise OSError("the network is a trap")
    return refuse

for name in ("connect", "connect_ex", "sendto"):
    setattr(socket.socket, name, trap(name))
for name in ("getaddrinfo", "gethostbyname", "create_connection"):
    setattr(socket, name, trap(name))

import fedjax_mos
from fedjax_mos.cli import main

for module in pkgutil.walk_packages(fedjax_mos.__path__, "fedjax_mos."):
    if module.name != "fedjax_mos.__main__":
        importlib.import_module(module.name)
main(sys.argv[1:])
assert not asked, asked
try:
    urllib.request.urlopen("http://example.org")
except OSError:
    pass
assert asked, "the trap catches nothing"
"""
RUN = "run --clients 6 --cohort 2 --steps 1 --rounds 2 --model logistic --out"


@pytest.mark.thorough
def test_neither_imports_nor_runs_ask_the_network(tmp_path):
    """A cluster without a way out, where a run waits for an answer."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, *RUN.split(), str(tmp_path / "out")],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
