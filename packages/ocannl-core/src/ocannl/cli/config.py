"""`ocannl config`: the settings, their values and where these come from."""

from __future__ import annotations

from typing import Annotated

import typer

from ocannl.base import config
from ocannl.cli.table import show


def register(app: typer.Typer) -> None:
    app.command("config")(command)


def command(
    explain: Annotated[bool, typer.Option("--explain", help="Show also the source and purpose of each value.")] = False,
) -> None:
    """Print the settings. Precedence: argument, context manager, environment, project file, default."""
    unknown = config.check()
    if not explain:
        for setting, origin in config.explain():
            typer.echo(f"{setting.name} = {_value_text(origin.value)}")
        return
    show(
        ["setting", "value", "from", "variable", "what for"],
        [[s.name, _value_text(f.value), f.source, s.variable, s.doc] for s, f in config.explain()],
    )
    for name in unknown:
        typer.echo(f"{name} is set in the environment and is no setting", err=True)


def _value_text(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "on" if value else "off"
        case _:
            return str(value)
