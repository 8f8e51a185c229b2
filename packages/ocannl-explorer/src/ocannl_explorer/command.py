"""`ocannl explore MODULE:FUNCTION`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ocannl.base.errors import ArgumentError
from ocannl.cli.imported_function import imported_routine


def register(app: typer.Typer) -> None:
    app.command("explore")(command)


def command(
    function: Annotated[
        str, typer.Argument(metavar="MODULE:FUNCTION", help="A function without arguments that returns a routine.")
    ],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The page; by default ROUTINE.html.")] = None,
    calls: Annotated[int, typer.Option("--profile", min=0, help="Profile this number of calls.")] = 0,
) -> None:
    """Write a page that shows a routine from its Python source to the generated code.

    Imports the module, from the current folder too, or a file named as FILE.py:FUNCTION, and calls the function. With
    `--profile`, the page shows the time of each loop nest; the inputs of the routine must be initialized, and the
    routine must have no static symbols.
    """
    from ocannl_explorer.api import explore

    routine = imported_routine(function)
    if calls and routine.program.syms:
        call = ", ".join([str(calls), *(f"{sym.name}={sym.lo}" for sym in routine.program.syms)])
        raise ArgumentError(f"`--profile` gives no values of symbols: write profile=routine.profile({call}) in Python")
    profile = routine.profile(calls) if calls else None
    path = explore(routine, out or Path(f"{routine.name}.html"), profile=profile)
    typer.echo(f"{path}  {path.stat().st_size} bytes")
