"""`ocannl backends`: what is installed, and whether it works here."""

from __future__ import annotations

import typer

from ocannl.backend.registry import KNOWN, backends
from ocannl.cli.table import show


def register(app: typer.Typer) -> None:
    app.command("backends")(command)


def command() -> None:
    """List the installed backends, and say of each whether it works here."""
    found = backends()
    rows = [
        [row.name, row.distribution, row.version, "yes" if row.usable else "no", row.reason or row.description]
        for row in found
    ]
    names = {row.name for row in found}
    absent = {name: dist for name, dist in KNOWN.items() if name not in names}
    rows += [[name, dist, "-", "no", f"not installed; run: pip install {dist}"] for name, dist in absent.items()]
    show(["backend", "distribution", "version", "usable", "about"], rows)
