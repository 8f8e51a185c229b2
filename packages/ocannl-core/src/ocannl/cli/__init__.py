"""The command line: `ocannl backends`, `ocannl doctor`, ..."""

from __future__ import annotations

import importlib.util
import sys

NEEDS = ("typer", "rich")
EXTRA = "ocannl-core[cli]"


def main() -> None:
    """The entry point. Exits with a hint when a library of the command line is not installed."""
    missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"ocannl: the command line needs {' and '.join(missing)}; run: pip install '{EXTRA}'")
    from ocannl.cli.app import run

    run()
