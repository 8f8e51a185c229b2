"""`ocannl doctor`: tries every installed backend in a process of its own, within a time limit."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, Annotated

import typer

from ocannl.backend.registry import discover
from ocannl.base.config import child_environment
from ocannl.base.errors import UnknownBackend
from ocannl.cli.probe import UNAVAILABLE
from ocannl.cli.table import show

LIMIT_SECONDS = 10.0
PROBE = (sys.executable, "-m", "ocannl.cli.probe")


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
    """Try backends: load each, compile a small program, run it, look at the result.

    Status 1 when one fails, unless nobody named it and it says itself that it cannot work here.
    """
    found = list(discover())
    for name in names or ():
        if name not in found:
            raise UnknownBackend(f"no backend `{name}` is installed; there are {', '.join(found)}")
    findings = examine(names or found, limit)
    show(["backend", "", "what was found"], [[f.name, "PASS" if f.works else "FAIL", f.words] for f in findings])
    if not all(f.works or (f.excused and not names) for f in findings):
        raise typer.Exit(1)


def examine(names: Sequence[str], limit_seconds: float, probe: Sequence[str] = PROBE) -> list[Finding]:
    """All at the same time, so that the whole takes as long as the slowest."""
    with ThreadPoolExecutor(max(1, len(names))) as pool:
        return list(pool.map(lambda name: _examine(name, limit_seconds, probe), names))


def _examine(name: str, limit_seconds: float, probe: Sequence[str]) -> Finding:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        # files, not pipes: a grandchild that keeps them open cannot make us wait
        child = subprocess.Popen(
            [*probe, name], stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=child_environment()
        )
        try:
            status = child.wait(limit_seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            return Finding(name, False, f"it did not answer within {limit_seconds:g} seconds")
        said, complaint = (_last_line(file) for file in (out, err))
    if status == 0:
        return Finding(name, True, said)
    if status < 0:
        return Finding(name, False, f"it crashed with {signal.Signals(-status).name}")
    return Finding(name, False, said or complaint or f"it ended with status {status}", status == UNAVAILABLE)


def _last_line(file: IO[bytes]) -> str:
    file.seek(0)
    lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
