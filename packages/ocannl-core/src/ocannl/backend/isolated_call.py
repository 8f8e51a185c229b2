"""A call of a function in a forked process: its answer, its end, and the text that it prints.

Between the host and the process of the call stands a supervisor, which ends as the call does: code that signals its
parent process thereby harms itself only.
"""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from json import dumps, loads  # the functions of this process, whatever a plugin replaces
from typing import NoReturn

from ocannl.base.plugins import exception_summary, single_line

MAX_ANSWER_BYTES = 1 << 16
TAIL_BYTES = 4096  # of the printed text, of which the last line explains a failure
READS = 16
MIN_DESCRIPTORS = 1 << 12  # where the system names no limit
GRACE_SECONDS = 30.0  # after the limit, a process whose host was killed ends by itself


class IsolatedCall:
    """A running call. The answer is one line on a pipe that no other process has: the nonce and a JSON object with the
    key `value` or `failure`."""

    def __init__(self, run: Callable[..., object], arguments: Sequence[str], limit_seconds: float) -> None:
        self.deadline = time.monotonic() + limit_seconds
        self._nonce = secrets.token_hex(16)
        self._answer, self._output = bytearray(), bytearray()
        self._status: int | None = None
        self._answers, answers = os.pipe()
        self._outputs, outputs = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _supervise(lambda: _run(run, arguments, answers, outputs, self._nonce, limit_seconds))
        os.close(answers)
        os.close(outputs)
        os.set_blocking(self._answers, False)
        os.set_blocking(self._outputs, False)

    def has_ended(self) -> bool:
        """Whether the process has ended. It is not waited for yet, so that its number stays its own."""
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            pid, status = os.waitpid(self._pid, os.WNOHANG) if self._status is None else (self._pid, self._status)
            self._status = status if pid else None
            return self._status is not None
        return os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def answer(self) -> dict[str, object] | None:
        """The answer; None if there is none yet. Text without the nonce is not one."""
        _drain(self._outputs, self._output, TAIL_BYTES)
        _drain(self._answers, self._answer, MAX_ANSWER_BYTES)
        prefix = f"{self._nonce} ".encode()
        line, newline, _ = self._answer.rpartition(prefix)[2].partition(b"\n")
        if not newline or prefix not in self._answer:
            return None
        answer: dict[str, object] = loads(line)
        return answer

    def status(self) -> int:
        """The status of a process that has ended, or ends now."""
        if self._status is None:
            self._end_group()
            _, self._status = os.waitpid(self._pid, 0)
        return self._status

    def _end_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)

    def failure(self) -> str:
        """Why a process that has ended has not answered, or has harmed its parent process."""
        if os.WIFSIGNALED(self.status()):
            return f"it crashed with {_signal_name(os.WTERMSIG(self.status()))}"
        text = self._output.decode("utf-8", errors="replace").strip().splitlines()
        last = f": {single_line(text[-1])}" if text else ""
        return f"it ended with status {os.waitstatus_to_exitcode(self.status())} without an answer{last}"

    def end(self) -> None:
        """Ends the process and those that it has started."""
        if self._status is None:
            self._end_group()
            with suppress(ProcessLookupError, PermissionError):  # before `setsid`
                os.kill(self._pid, signal.SIGKILL)
            _, self._status = os.waitpid(self._pid, 0)
        os.close(self._answers)
        os.close(self._outputs)


def _supervise(run: Callable[[], NoReturn]) -> NoReturn:
    """The forked process, of which the call is a child."""
    try:
        os.setsid()  # so that all descendants can be ended together
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        pid = os.fork()
        if pid == 0:
            run()
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            os.kill(os.getpid(), os.WTERMSIG(status))
        os._exit(os.waitstatus_to_exitcode(status))
    finally:
        os._exit(1)


def _run(
    run: Callable[..., object],
    arguments: Sequence[str],
    answers: int,
    outputs: int,
    nonce: str,
    limit_seconds: float,
) -> NoReturn:
    """The process of the call. It leaves without the handlers and threads of plugins."""
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limit_seconds + GRACE_SECONDS)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(outputs, 1)
        os.dup2(outputs, 2)
        os.closerange(3, answers)
        os.closerange(answers + 1, max(MIN_DESCRIPTORS, os.sysconf("SC_OPEN_MAX")))
        answer = _line(run, arguments)
        os.write(answers, f"{nonce} {answer}\n".encode())
        os._exit(0)
    finally:
        os._exit(1)


def _line(run: Callable[..., object], arguments: Sequence[str]) -> str:
    try:
        line = dumps({"value": run(*arguments)})
    except BaseException as error:  # a plugin may even exit
        return dumps({"failure": exception_summary(error)})
    return line if len(line) < MAX_ANSWER_BYTES // 2 else dumps({"failure": "its answer is too long"})


def _drain(pipe: int, content: bytearray, limit_bytes: int) -> None:
    """Reads what there is, or a part of much, and keeps the last bytes."""
    with suppress(BlockingIOError):
        for _ in range(READS):
            content += os.read(pipe, 1 << 16)
            del content[: max(0, len(content) - limit_bytes)]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
