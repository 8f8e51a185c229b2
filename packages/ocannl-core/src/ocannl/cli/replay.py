"""`ocannl replay`: reproduces a defect of the compiler from the file that a `DefectWarning` names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ocannl.backend.discovery import core_version
from ocannl.backend.registry import open_backend
from ocannl.ir.loops import Proc
from ocannl.ir.printer import print_proc
from ocannl.ir.verify import results_of, verify
from ocannl.opt.pass_bisection import PassFailure, Replay, replay
from ocannl.opt.pipeline import stage_after
from ocannl.runtime import reproducer
from ocannl.runtime.reproducer import Reproducer


def register(app: typer.Typer) -> None:
    app.command("replay")(command)


def command(
    file: Annotated[Path, typer.Argument(help="A file `ocannl-defect-*.json`.")],
    show: Annotated[bool, typer.Option("--show", help="Print the program before the failing pass.")] = False,
) -> None:
    """Reproduce a defect of the compiler from a file that a warning has named.

    The passes run again on the program of the file, with a check after each; the program itself is not executed.

    Status 0 when a pass or the backend fails, 1 when none does, and 2 when the file cannot be read.
    """
    try:
        case = reproducer.read(file)
    except (OSError, ValueError) as error:
        typer.echo(f"{file} cannot be read: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(f"ocannl {core_version()}; the file was written by ocannl {case.version} for backend `{case.backend}`")
    failures = failures_of(case)
    for failure in failures:
        part = "the backend" if failure.pass_name == "backend" else f"the compiler pass `{failure.pass_name}`"
        typer.echo(f"{part} fails on `{case.proc.name}`: {failure.error.__class__.__name__}: {failure.error}")
        if show:
            typer.echo(print_proc(failure.before))
    if not failures:
        typer.echo(f"no pass fails; the file reports `{case.failed}`: {case.error}")
        raise typer.Exit(1)


def failures_of(case: Reproducer) -> tuple[PassFailure, ...]:
    """Optimizes the program of a reproducer with a check after each pass; compiles it if the backend had failed."""

    results = results_of(case.proc)

    def check(pass_name: str, proc: Proc) -> None:
        verify(proc, stage_after(pass_name), alignment_bytes=case.capabilities.alignment_bytes, results=results)

    result = replay(case.proc, case.keep_reasons, case.capabilities, check, case.choices)
    return (*result.failures, *(_backend_failures(case, result) if case.failed == "backend" else ()))


def _backend_failures(case: Reproducer, result: Replay) -> tuple[PassFailure, ...]:
    try:
        open_backend(case.backend).compile([result.proc])
    except Exception as error:  # the failure that is replayed is of any class
        return (PassFailure("backend", error, result.proc),)
    return ()
