"""Trying a backend in a process of its own, whatever that process does."""

from __future__ import annotations

import time

import pytest

from ocannl.cli.doctor import examine


def examine_single(code, limit_seconds=30.0):
    (finding,) = examine([code], limit_seconds, "builtins:exec")
    return finding.works, finding.reason


@pytest.mark.parametrize(
    ("code", "works", "message"),
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
def test_probe_outcomes(code, works, message):
    assert examine_single(code) == (works, message)


def test_hanging_probe_is_killed():
    start = time.monotonic()
    assert examine_single("import time; time.sleep(60)", 0.5) == (
        False,
        "it did not respond within 0.5 seconds; use --limit to raise the limit",
    )
    assert time.monotonic() - start < 20


def test_surviving_grandchild_does_not_block():
    start = time.monotonic()
    child = "[sys.executable, '-c', 'import time; time.sleep(9)']"
    assert examine_single(f"import subprocess, sys; subprocess.Popen({child}); print('done')") == (True, "done")
    assert time.monotonic() - start < 8


def test_probes_run_concurrently():
    codes = [f"import time; time.sleep(1); print({n})" for n in range(9)]
    start = time.monotonic()
    assert [f.reason for f in examine(codes, 30.0, "builtins:exec")] == [str(n) for n in range(9)]
    assert time.monotonic() - start < 9
