"""`ocannl config`: the settings, their values and where these come from; `ocannl config trust`: trusted folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ocannl.base import config, settings_files
from ocannl.cli.table import show


def register(app: typer.Typer) -> None:
    group = typer.Typer(invoke_without_command=True)
    group.callback()(command)
    group.command("trust")(trust)
    app.add_typer(group, name="config")


def command(
    context: typer.Context,
    explain: Annotated[bool, typer.Option("--explain", help="Show also the source and purpose of each value.")] = False,
) -> None:
    """Print the settings. Precedence: argument, context manager, environment, project file, user's file, default."""
    if context.invoked_subcommand is not None:
        return
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


def trust(
    folders: Annotated[list[Path] | None, typer.Argument(help="Folders; none: list the trusted folders.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Do not trust these folders any longer.")] = False,
) -> None:
    """Let all settings in the project files of folders count, also those that run commands or choose where files are
    written, such as `c_compiler` and `cache_dir`."""
    for folder in folders or ():
        (settings_files.distrust if remove else settings_files.trust)(folder)
    if not folders:
        for path in settings_files.trusted_folders():
            typer.echo(path)


def _value_text(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "on" if value else "off"
        case _:
            return str(value)
