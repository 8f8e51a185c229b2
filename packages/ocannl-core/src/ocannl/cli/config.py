"""`ocannl config`: every setting, its value, and who said so."""

from __future__ import annotations

from typing import Annotated

import typer

from ocannl.base import config
from ocannl.cli.table import show


def register(app: typer.Typer) -> None:
    app.command("config")(command)


def command(
    explain: Annotated[bool, typer.Option("--explain", help="Say also who set each value, and what for.")] = False,
) -> None:
    """Print the settings. What is asked first wins: argument, context manager, environment, project file, default."""
    strangers = config.check()
    if not explain:
        for setting, found in config.explain():
            typer.echo(f"{setting.name} = {_written(found.value)}")
        return
    show(
        ["setting", "value", "from", "variable", "what for"],
        [[s.name, _written(f.value), f.source, s.variable, s.doc] for s, f in config.explain()],
    )
    for name in strangers:
        typer.echo(f"{name} is set in the environment and is no setting", err=True)


def _written(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "on" if value else "off"
        case _:
            return str(value)
