"""`ocannl doctor`: tries every installed backend in a process of its own, within a time limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from ocannl.backend.installed import discover
from ocannl.backend.registry import only
from ocannl.backend.sandbox import Outcome, trials
from ocannl.base.errors import DuplicateBackend, UnknownBackend
from ocannl.cli.probe import UNAVAILABLE
from ocannl.cli.table import show

LIMIT_SECONDS = 3.0
PROBE = "ocannl.cli.probe:main"


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    works: bool
    words: str
    excused: bool = False  # the backend itself says that it cannot work here


def register(app: typer.Typer) -> None:
    app.command("doctor")(command)


def command(
    names: Annotated[list[str] | None, typer.Argument(help="The backends to try; all when none is named.")] = None,
    limit: Annotated[float, typer.Option(help="Seconds that a backend may take.")] = LIMIT_SECONDS,
) -> None:
    """Try backends: load each, run small programs of every operation and precision, look at the results.

    Status 1 when one fails, unless nobody named it and it says itself that it cannot work here.
    """
    found = discover()
    for name in names or ():
        if name not in found:
            raise UnknownBackend(f"no backend `{name}` is installed; there are {', '.join(found)}")
    findings, sound = [], []
    for name in dict.fromkeys(names or found):
        for candidate in found[name]:
            try:
                sound.append(only(found[name], candidate).name)
            except DuplicateBackend as wrong:
                findings.append(Finding(name, False, str(wrong)))
    findings = sorted([*findings, *examine(sound, limit)], key=lambda f: f.name)
    show(["backend", "", "what was found"], [[f.name, "PASS" if f.works else "FAIL", f.words] for f in findings])
    if not all(f.works or (f.excused and not names) for f in findings):
        raise typer.Exit(1)


def examine(names: Sequence[str], limit_seconds: float, probe: str = PROBE) -> list[Finding]:
    outcomes = trials(probe, [(name,) for name in names], limit_seconds)
    return [_finding(name, outcome, limit_seconds) for name, outcome in zip(names, outcomes, strict=True)]


def _finding(name: str, outcome: Outcome, limit_seconds: float) -> Finding:
    if outcome.status is None:
        return Finding(name, False, f"it did not answer within {limit_seconds:g} seconds; --limit gives it more")
    return Finding(name, outcome.status == 0 and bool(outcome.said), outcome.words, outcome.status == UNAVAILABLE)
