"""`ocannl explore SCRIPT.py` or `MODULE:FUNCTION`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ocannl.cli.script import RoutineName, Source, named_routine, profile_of


def register(app: typer.Typer) -> None:
    app.command("explore")(command)


def command(
    function: Source,
    routine_name: RoutineName = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The page; by default ROUTINE.html.")] = None,
    calls: Annotated[int, typer.Option("--profile", min=0, help="Profile this number of calls.")] = 0,
) -> None:
    """Write a page that shows a routine from its Python source to the generated code.

    Runs a script, and shows the routine with the most work of those that it compiles, or the one called `--routine`. Of
    MODULE:FUNCTION, imports the module, from the current folder too, or a file named as FILE.py:FUNCTION, and calls the
    function. With `--profile`, the page shows the time of each loop nest; the inputs of the routine must be
    initialized, and its symbols have the values of its last call in the script.
    """
    from ocannl_explorer.api import explore

    routine = named_routine(function, routine_name)
    profile = profile_of(routine, calls) if calls else None
    path = explore(routine, out or Path(f"{routine.name}.html"), profile=profile)
    typer.echo(f"{path}  {path.stat().st_size} bytes")
