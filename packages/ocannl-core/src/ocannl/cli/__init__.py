"""The command line: `ocannl backends`, `ocannl doctor`, ..."""

from __future__ import annotations

import importlib.util
import sys

NEEDS = ("typer", "rich")
EXTRA = "ocannl-core[cli]"


def main() -> None:
    """The entry point. Says what to install when the libraries of the command line are not there."""
    missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"ocannl: the command line needs {' and '.join(missing)}; run: pip install '{EXTRA}'")
    from ocannl.cli.app import run

    run()
