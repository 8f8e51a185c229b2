"""Runs functions in isolated subprocesses with a time limit, so that crashes and hangs cannot affect this process.

    this process --one subprocess--> host, which imports --one child per call--> the function

The host is a fresh interpreter that imports the shared dependencies once; forked children start immediately.
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
class ProcessResult:
    """The result of a process: its exit status, None after a timeout, and the last lines of stdout and stderr."""

    status: int | None
    stdout_line: str = ""
    stderr_line: str = ""

    @property
    def reason(self) -> str:
        if self.status is not None and self.status < 0:
            return f"it crashed with {_signal_name(-self.status)}"
        return self.stdout_line or self.stderr_line or f"it ended with status {self.status}"


def run_isolated(function: str, arguments: Sequence[Sequence[str]], limit_seconds: float) -> list[ProcessResult]:
    """Calls the function `module:name`, which returns an exit status, with each argument list concurrently."""
    if not arguments:
        return []
    command = [sys.executable, "-P", "-c", f"from {__name__} import run_host; run_host()"]
    request = json.dumps([function, list(arguments), limit_seconds])
    host = subprocess.run(
        command, input=request, stdout=subprocess.PIPE, check=True, text=True, env=child_environment()
    )
    return [ProcessResult(*outcome) for outcome in json.loads(host.stdout)]


def run_host() -> None:
    function, arguments, limit_seconds = json.load(sys.stdin)
    module, _, name = function.partition(":")
    run = getattr(import_module(module), name)
    multiprocessing.set_start_method("fork" if sys.platform == "linux" else "spawn")
    warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads: the threads of NumPy tolerate it
    with TemporaryDirectory() as folder:
        folders = [Path(folder, str(n)) for n in range(len(arguments))]
        for child_folder in folders:
            child_folder.mkdir()
        children = [
            multiprocessing.Process(target=_run_child, args=(run, argument_list, child_folder))
            for argument_list, child_folder in zip(arguments, folders, strict=True)
        ]
        try:
            for child in children:
                child.start()
            deadline = time.monotonic() + limit_seconds
            outcomes = [_collect_outcome(*pair, deadline) for pair in zip(children, folders, strict=True)]
        finally:
            for child in children:
                _terminate(child)
    json.dump([astuple(outcome) for outcome in outcomes], sys.stdout)


def _run_child(run: Callable[..., int | None], arguments: Sequence[str], folder: Path) -> None:
    if hasattr(os, "setsid"):
        os.setsid()  # so that its descendants can be killed with it
    for number, stream in enumerate(_STREAMS):
        os.dup2(os.open(folder / stream, os.O_RDWR | os.O_CREAT), number)
    sys.exit(run(*arguments))


def _collect_outcome(child: BaseProcess, folder: Path, deadline: float) -> ProcessResult:
    child.join(max(0.0, deadline - time.monotonic()))
    if child.exitcode is None:
        return ProcessResult(None)
    _, stdout_line, stderr_line = (_last_line(folder / stream) for stream in _STREAMS)
    return ProcessResult(child.exitcode, stdout_line, stderr_line)


def _terminate(child: BaseProcess) -> None:
    if child.pid is not None and child.exitcode is None:
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError):  # before `setsid`
                os.killpg(child.pid, signal.SIGKILL)
        child.kill()
        child.join()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_line(file: Path) -> str:
    lines = file.read_text(encoding="utf-8", errors="replace").strip().splitlines() if file.exists() else []
    return lines[-1] if lines else ""
