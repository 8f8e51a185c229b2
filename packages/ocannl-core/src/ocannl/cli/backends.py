"""`ocannl backends`: the installed backends, and whether they are usable."""

from __future__ import annotations

import typer

from ocannl.backend.discovery import DISTRIBUTIONS
from ocannl.backend.registry import backends
from ocannl.cli.table import show


def register(app: typer.Typer) -> None:
    app.command("backends")(command)


def command() -> None:
    """List the installed backends and whether they are usable on this machine."""
    installed = backends()
    rows = [
        [row.name, row.distribution, row.version, "yes" if row.usable else "no", row.reason or row.description]
        for row in installed
    ]
    names = {row.name for row in installed}
    absent = {name: dist for name, dist in DISTRIBUTIONS.items() if name not in names}
    rows += [[name, dist, "-", "no", f"not installed; run: pip install {dist}"] for name, dist in absent.items()]
    show(["backend", "distribution", "version", "usable", "about"], rows)
