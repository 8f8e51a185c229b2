"""Trying a backend in a process of its own, whatever that process does."""

from __future__ import annotations

import time

import pytest

from ocannl.cli.doctor import examine


def one(code, limit_seconds=30.0):
    (finding,) = examine([code], limit_seconds, "builtins:exec")
    return finding.works, finding.words


@pytest.mark.parametrize(
    ("code", "works", "words"),
    [
        ("print('noise'); print('fine')", True, "fine"),
        ("print('bad luck'); exit(1)", False, "bad luck"),
        ("exit()", False, "it ended with status 0"),
        ("raise KeyboardInterrupt", False, "KeyboardInterrupt"),
        ("import os; os.kill(os.getpid(), 40)", False, "it crashed with signal 40"),
        ("exit(7)", False, "it ended with status 7"),
        ("1 / 0", False, "ZeroDivisionError: division by zero"),
        ("import os; os.abort()", False, "it crashed with SIGABRT"),
        ("import os; os.kill(os.getpid(), 9)", False, "it crashed with SIGKILL"),
        ("import sys; sys.stdout.buffer.write(bytes([255, 10])); exit(1)", False, "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_what_a_probe_may_do(code, works, words):
    assert one(code) == (works, words)


def test_a_probe_that_hangs_is_ended():
    start = time.monotonic()
    assert one("import time; time.sleep(60)", 0.5) == (
        False,
        "it did not answer within 0.5 seconds; --limit gives it more",
    )
    assert time.monotonic() - start < 20


def test_a_grandchild_that_lives_on_does_not_hold_us_up():
    start = time.monotonic()
    child = "[sys.executable, '-c', 'import time; time.sleep(9)']"
    assert one(f"import subprocess, sys; subprocess.Popen({child}); print('done')") == (True, "done")
    assert time.monotonic() - start < 8


def test_all_are_tried_at_the_same_time():
    codes = [f"import time; time.sleep(1); print({n})" for n in range(9)]
    start = time.monotonic()
    assert [f.words for f in examine(codes, 30.0, "builtins:exec")] == [str(n) for n in range(9)]
    assert time.monotonic() - start < 9
