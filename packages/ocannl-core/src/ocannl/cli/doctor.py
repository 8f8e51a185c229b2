"""`ocannl doctor`: describes the processor, and tests each backend in a separate process, with a time limit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from ocannl.backend.cpu.cpu_description import described_cpu, reported_cpu
from ocannl.backend.discovery import discover
from ocannl.backend.registry import unique_candidate
from ocannl.backend.sandbox import Answer, run_isolated
from ocannl.base.errors import DuplicateBackend, UnknownBackend
from ocannl.base.output_files import Writing
from ocannl.cli.cpu_table import cpu_rows
from ocannl.cli.table import show

LIMIT_SECONDS = 60.0  # enough for slow compilers
PROBE = "ocannl.cli.probe:report"


@dataclass(frozen=True, slots=True)
class BackendReport:
    name: str
    works: bool
    reason: str
    is_unavailable: bool = False  # the backend reports that it cannot work on this machine


def register(app: typer.Typer) -> None:
    app.command("doctor")(command)


def command(
    names: Annotated[list[str] | None, typer.Argument(help="The backends to test; all by default.")] = None,
    limit: Annotated[float, typer.Option(help="Time limit for each backend, in seconds.")] = LIMIT_SECONDS,
    save_cpu: Annotated[
        Path | None, typer.Option(help="Write the description of the processor to this file, for the setting `cpu`.")
    ] = None,
) -> None:
    """Test backends: load each, run small programs for all operations and precisions, and check the results. Describe
    the processor.

    Status 1 when a backend fails, unless it was not named and reports that it cannot work on this machine.
    """
    installed = discover()
    for name in names or ():
        if name not in installed:
            raise UnknownBackend(f"no backend `{name}` is installed; there are {', '.join(installed)}")
    reports, testable = [], []
    for name in dict.fromkeys(names or installed):
        for candidate in installed[name]:
            try:
                testable.append(unique_candidate(installed[name], candidate).name)
            except DuplicateBackend as error:
                reports.append(BackendReport(name, False, str(error)))
    reports = sorted([*reports, *examine(testable, limit)], key=lambda r: r.name)
    print(f"time limit: {limit:g} seconds for each backend")
    show(["backend", "", "result"], [[r.name, "PASS" if r.works else "FAIL", r.reason] for r in reports])
    _describe_cpu(save_cpu)
    if not all(r.works or (r.is_unavailable and not names) for r in reports):
        raise typer.Exit(1)


def _describe_cpu(file: Path | None) -> None:
    """Prints the description of the processor that backends have measured, and writes it to the file."""
    cpu, reported = described_cpu(), reported_cpu()
    source = "not measured: no backend for CPUs, or no cache folder" if cpu is None else "description"
    show(["processor", source], cpu_rows(cpu or reported, reported))
    if file is not None:
        with Writing(file, "description of the processor"):
            file.write_text(json.dumps(asdict(cpu or reported), indent=1) + "\n", encoding="ascii")


def examine(names: Sequence[str], limit_seconds: float, probe: str = PROBE) -> list[BackendReport]:
    try:
        answers = run_isolated(probe, [(name,) for name in names], limit_seconds)
    except ChildProcessError as error:
        return [BackendReport(name, False, f"it cannot be tested: {error}") for name in names]
    return [_report(name, answer) for name, answer in zip(names, answers, strict=True)]


def _report(name: str, answer: Answer) -> BackendReport:
    match answer.value:
        case {"works": bool(works), "reason": str(reason), "is_unavailable": bool(is_unavailable)}:
            return BackendReport(name, works, reason, is_unavailable)
    advice = "; use --limit to raise the limit" if answer.is_timeout else ""
    return BackendReport(name, False, f"{answer.failure or 'it gave no verdict'}{advice}")
