"""Runs functions in isolated processes with a time limit, so that crashes and hangs cannot affect this process.

    this process --one subprocess--> host, which imports the shared dependencies --two forks per call--> the function

A call is answered through a pipe of its own, by one line that begins with a random word (nonce) which only this call
knows; exit statuses and printed text merely explain a missing answer. Should a call end the host all the same, it is
found by bisection.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module

from ocannl.backend.isolated_call import IsolatedCall
from ocannl.backend.python_interpreter import python_interpreter
from ocannl.base.config import ISOLATED, child_environment, is_isolated

CONCURRENT_CALLS = 16
STARTUP_SECONDS = 60.0  # limit for the start of the host, on a busy machine
SLACK_SECONDS = 5.0  # for what takes no time on an idle machine
POLL_SECONDS = 0.01
END = "end"


@dataclass(frozen=True, slots=True)
class Answer:
    """The value that a call returned, converted to JSON and back, or the reason why there is none."""

    value: object = None
    failure: str | None = None
    is_timeout: bool = False


def run_isolated(function: str, arguments: Sequence[Sequence[str]], limit_seconds: float) -> list[Answer]:
    """Calls the function `module:name` with each argument list, at most `CONCURRENT_CALLS` at a time.

    Raises: ChildProcessError if no isolated process can be started.
    """
    if not arguments:
        return []
    answers = _run_host(function, arguments, limit_seconds)
    missing = [number for number in range(len(arguments)) if number not in answers]
    if len(missing) == len(arguments) == 1:
        answers[0] = Answer(failure="it ended the process that started it")
    for part in (missing[: len(missing) // 2], missing[len(missing) // 2 :]):
        if part and len(arguments) > 1:
            repeated = run_isolated(function, [arguments[number] for number in part], limit_seconds)
            answers.update(zip(part, repeated, strict=True))
    return [answers[number] for number in range(len(arguments))]


def _run_host(function: str, arguments: Sequence[Sequence[str]], limit_seconds: float) -> dict[int, Answer]:
    """Returns the answers by number, without those that are missing because the host has ended early."""
    if is_isolated():
        raise ChildProcessError("this process is isolated itself")
    if not hasattr(os, "fork"):
        raise ChildProcessError("this system does not fork processes")
    program = f"from {__name__} import run_host; run_host()"
    reader, writer = os.pipe()
    nonce = secrets.token_hex(16)
    request = json.dumps([nonce, writer, function, list(arguments), limit_seconds])
    try:
        host = subprocess.Popen(
            [python_interpreter(), "-P", "-c", program, request],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**child_environment(), ISOLATED: "1", "OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES"},
            pass_fds=(writer,),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        os.close(reader)
        raise ChildProcessError(f"Python could not be started: {error}") from error
    finally:
        os.close(writer)
    lines: list[str] = []
    thread = threading.Thread(target=_read_lines, args=(reader, nonce, lines), daemon=True)
    try:
        thread.start()
        count = -1
        while thread.is_alive() and count < len(lines):  # a working host answers at least once in each limit
            count = len(lines)
            thread.join(limit_seconds + SLACK_SECONDS if lines else STARTUP_SECONDS)
        with suppress(subprocess.TimeoutExpired):
            host.wait(SLACK_SECONDS if lines[-1:] == [END] else 0)
    finally:
        _end_host(host)
    if not lines:
        raise ChildProcessError(f"Python did not start its work and ended with status {host.returncode}")
    return dict(map(_parsed, (line for line in tuple(lines) if line and line != END)))


def _read_lines(reader: int, nonce: str, lines: list[str]) -> None:
    """Collects the lines of the host, without the nonce, until the last one; closes the descriptor."""
    with suppress(OSError), open(reader, encoding="utf-8", errors="replace") as pipe:
        for line in pipe:
            word, _, text = line.rstrip("\n").partition(" ")
            if secrets.compare_digest(word.encode(), nonce.encode()):
                lines.append(text)
                if text == END:
                    return


def _parsed(line: str) -> tuple[int, Answer]:
    number, answer = json.loads(line)
    return number, Answer(**answer)


def _end_host(host: subprocess.Popen[bytes]) -> None:
    """Ends the host, unless it has ended; it ends its children when it is asked politely."""
    for ask in (host.terminate, host.kill):
        if host.poll() is None:
            ask()
            with suppress(subprocess.TimeoutExpired):
                host.wait(SLACK_SECONDS)


# -------------------------------------------------------------------------------------------------------------- host


def run_host() -> None:
    """The program of the host: reads the request from the command line, and writes a line for each answer."""
    nonce, writer, function, arguments, limit_seconds = json.loads(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads: the threads of NumPy tolerate it

    def write(text: str) -> None:
        os.write(writer, f"{nonce} {text}\n".encode())

    write("")
    module, _, name = function.partition(":")
    run = getattr(import_module(module), name)
    _run_calls(run, arguments, limit_seconds, lambda number, answer: write(json.dumps([number, asdict(answer)])))
    write(END)
    os._exit(0)  # whatever the shared dependencies do at exit


def _run_calls(
    run: Callable[..., object],
    arguments: Sequence[Sequence[str]],
    limit_seconds: float,
    report: Callable[[int, Answer], None],
) -> None:
    waiting = deque(enumerate(arguments))
    running: dict[int, IsolatedCall] = {}
    try:
        while waiting or running:
            while waiting and len(running) < CONCURRENT_CALLS:
                number, argument_list = waiting.popleft()
                running[number] = IsolatedCall(run, argument_list, limit_seconds)
            time.sleep(POLL_SECONDS)
            for number, call in tuple(running.items()):
                if (answer := _answer(call, limit_seconds)) is not None:
                    call.end()
                    del running[number]
                    report(number, answer)
    finally:
        for call in running.values():
            call.end()


def _answer(call: IsolatedCall, limit_seconds: float) -> Answer | None:
    """The answer of a call; None while there may be one later."""
    has_ended, answer = call.has_ended(), call.answer()
    if has_ended:
        answer = call.answer()  # it may have been written in between
        if answer is None or call.status() != 0:
            return Answer(failure=call.failure())
        failure = answer.get("failure")
        return Answer(answer.get("value"), None if failure is None else str(failure))
    if time.monotonic() > call.deadline:
        return Answer(failure=f"it did not respond within {limit_seconds:g} seconds", is_timeout=True)
    return None
