"""Commands tried in processes of their own, within a time limit: one that hangs or crashes takes nothing with it."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import IO

from ocannl.base.config import child_environment


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a process ended: its status, None when it was ended for taking too long, and the last lines it wrote."""

    status: int | None
    said: str
    complaint: str

    @property
    def words(self) -> str:
        if self.status is not None and self.status < 0:
            return f"it crashed with {_signal(-self.status)}"
        return self.said or self.complaint or f"it ended with status {self.status}"


def trials(commands: Sequence[Sequence[str]], limit_seconds: float) -> list[Outcome]:
    """All at the same time, so that the whole takes as long as the slowest, and no longer than the limit."""
    deadline = time.monotonic() + limit_seconds
    with ExitStack() as stack:
        children = []
        for command in commands:
            # files, not pipes: a grandchild that keeps them open cannot make us wait
            out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=child_environment(),
                start_new_session=True,
            )
            stack.callback(_end, child)
            children.append((child, out, err))
        return [_outcome(child, out, err, deadline) for child, out, err in children]


def _outcome(child: subprocess.Popen[bytes], out: IO[bytes], err: IO[bytes], deadline: float) -> Outcome:
    try:
        status = child.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return Outcome(None, "", "")
    return Outcome(status, _last_line(out), _last_line(err))


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends the process, and those that it started, if it still runs."""
    if child.poll() is None:
        with suppress(ProcessLookupError):
            if hasattr(os, "killpg"):
                os.killpg(child.pid, signal.SIGKILL)
            else:
                child.kill()
        child.wait()


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_line(file: IO[bytes]) -> str:
    file.seek(0)
    lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
