"""`ocannl explore MODULE:FUNCTION`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ocannl.base.errors import ArgumentError
from ocannl.base.user_functions import call_problem
from ocannl.cli.imported_function import imported_function


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
    from ocannl.runtime.routine import Routine
    from ocannl_explorer.api import explore

    make = imported_function(function)
    if problem := call_problem(make, ()):
        raise ArgumentError(f"{function} is called without arguments: {problem}")
    routine = make()
    if not isinstance(routine, Routine):
        raise ArgumentError(f"{function} must return a routine, the result of `ctx.compile(code)`")
    if calls and routine.program.syms:
        call = ", ".join([str(calls), *(f"{sym.name}={sym.lo}" for sym in routine.program.syms)])
        raise ArgumentError(f"`--profile` gives no values of symbols: write profile=routine.profile({call}) in Python")
    profile = routine.profile(calls) if calls else None
    path = explore(routine, out or Path(f"{routine.name}.html"), profile=profile)
    typer.echo(f"{path}  {path.stat().st_size} bytes")
