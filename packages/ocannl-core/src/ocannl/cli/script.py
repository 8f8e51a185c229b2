"""Routines of scripts, named as `FILE.py`, or as `FILE.py:FUNCTION` by a function that returns one."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ocannl.base.errors import ArgumentError
from ocannl.cli.imported_function import imported_routine

if TYPE_CHECKING:
    from ocannl.runtime.profile import Profile
    from ocannl.runtime.routine import Routine

Source = Annotated[
    str,
    typer.Argument(
        metavar="SCRIPT.py or MODULE:FUNCTION", help="A script, or a function without arguments that returns a routine."
    ),
]
RoutineName = Annotated[
    str | None, typer.Option("--routine", help="The routine of a script; by default the one with the most work.")
]


def named_routine(path: str, name: str | None) -> Routine:
    """Runs a script and returns the routine called `name`, by default that with the most work of those it has compiled
    (the first of equal ones), or calls a function of a module or file, which returns the routine.

    Raises: ArgumentError for a script that compiles no such routine, or a function that returns anything else.
    """
    if not path.endswith(".py"):
        return imported_routine(path)
    routines = compiled_routines(path)
    if not routines:
        raise ArgumentError(f"{path} compiles no routine; a function that returns one is named as {path}:FUNCTION")
    named = [routine for routine in routines if name in (None, routine.name)]
    if not named:
        names = ", ".join(f"`{name}`" for name in dict.fromkeys(routine.name for routine in routines))
        raise ArgumentError(f"{path} compiles no routine `{name}`, but {names}")
    return max(named, key=routine_work)


def compiled_routines(path: str) -> list[Routine]:
    """Runs a script as `python SCRIPT.py` does; returns the routines that it compiles, in order."""
    from ocannl.runtime.routine_recording import recorded_routines

    if not os.path.isfile(path):
        raise ArgumentError(f"there is no file {path}")
    sys.path.insert(0, str(Path(path).absolute().parent))
    arguments, sys.argv = sys.argv, [path]
    try:
        with recorded_routines() as routines:
            runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.argv = arguments
    return routines


def routine_work(routine: Routine) -> int:
    """An upper bound of the operations of a call, before optimization."""
    from ocannl.ir.work import work
    from ocannl.lower.lower import lower
    from ocannl.runtime.program import Program
    from ocannl.runtime.routine_parts import parts_of

    programs = [part for part in parts_of(routine.program) if isinstance(part, Program)]
    return sum(work(lower(program.comp, program.name).body) for program in programs)


def profile_of(routine: Routine, calls: int) -> Profile:
    """Profiles a routine with the values of symbols that its script has last called it with.

    Raises: ArgumentError for a routine with symbols that its script has not called.
    """
    symbols: dict[str, Any] = getattr(routine, "last_symbols", {})
    if routine.program.syms and not symbols:
        call = ", ".join([str(calls), *(f"{sym.name}={sym.lo}" for sym in routine.program.syms)])
        fix = f"call it in the script, or write routine.profile({call}) in Python"
        raise ArgumentError(f"`{routine.name}` has symbols, whose values no call of a script gives: {fix}")
    return routine.profile(calls, **symbols)
