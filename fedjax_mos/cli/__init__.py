"""The command line."""

from fedjax_mos.cli.app import main

__all__ = ["main"]
