"""Functions tried in processes of their own, within a time limit: one that hangs or crashes takes nothing with it.

    this process --one subprocess--> host, which imports --a child for each try--> the function

The host is a fresh interpreter that imports once what all tries need; children that can be forked start at once.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from importlib import import_module
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory

from ocannl.base.config import child_environment

_STREAMS = ("in", "out", "err")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a process ended: its status, None when it was ended for taking too long, and the last lines it wrote."""

    status: int | None
    said: str = ""
    complaint: str = ""

    @property
    def words(self) -> str:
        if self.status is not None and self.status < 0:
            return f"it crashed with {_signal(-self.status)}"
        return self.said or self.complaint or f"it ended with status {self.status}"


def trials(function: str, arguments: Sequence[Sequence[str]], limit_seconds: float) -> list[Outcome]:
    """Calls the function `module:name` with each of the arguments, all at the same time; it returns its status."""
    if not arguments:
        return []
    command = [sys.executable, "-P", "-c", f"from {__name__} import host; host()"]
    question = json.dumps([function, list(arguments), limit_seconds])
    host = subprocess.run(
        command, input=question, stdout=subprocess.PIPE, check=True, text=True, env=child_environment()
    )
    return [Outcome(*outcome) for outcome in json.loads(host.stdout)]


def host() -> None:
    function, arguments, limit_seconds = json.load(sys.stdin)
    module, _, name = function.partition(":")
    run = getattr(import_module(module), name)
    multiprocessing.set_start_method("fork" if sys.platform == "linux" else "spawn")
    warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads: those of NumPy stand it
    with TemporaryDirectory() as folder:
        places = [Path(folder, str(n)) for n in range(len(arguments))]
        for place in places:
            place.mkdir()
        children = [
            multiprocessing.Process(target=_call, args=(run, each, place))
            for each, place in zip(arguments, places, strict=True)
        ]
        try:
            for child in children:
                child.start()
            deadline = time.monotonic() + limit_seconds
            outcomes = [_outcome(*each, deadline) for each in zip(children, places, strict=True)]
        finally:
            for child in children:
                _end(child)
    json.dump([astuple(outcome) for outcome in outcomes], sys.stdout)


def _call(run: Callable[..., int | None], arguments: Sequence[str], place: Path) -> None:
    if hasattr(os, "setsid"):
        os.setsid()  # so that it can be ended with whatever it starts
    for number, stream in enumerate(_STREAMS):
        os.dup2(os.open(place / stream, os.O_RDWR | os.O_CREAT), number)
    sys.exit(run(*arguments))


def _outcome(child: BaseProcess, place: Path, deadline: float) -> Outcome:
    child.join(max(0.0, deadline - time.monotonic()))
    if child.exitcode is None:
        return Outcome(None)
    _, said, complaint = (_last_line(place / stream) for stream in _STREAMS)
    return Outcome(child.exitcode, said, complaint)


def _end(child: BaseProcess) -> None:
    if child.pid is not None and child.exitcode is None:
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError):  # it has no group of its own yet
                os.killpg(child.pid, signal.SIGKILL)
        child.kill()
        child.join()


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_line(file: Path) -> str:
    lines = file.read_text(encoding="utf-8", errors="replace").strip().splitlines() if file.exists() else []
    return lines[-1] if lines else ""
