"""Trying a backend in a process of its own, whatever that process does."""

from __future__ import annotations

import time

import pytest

from ocannl.backend import sandbox
from ocannl.cli.doctor import examine


def examine_single(code, limit_seconds=30.0):
    (finding,) = examine([code], limit_seconds, "builtins:eval")
    return finding.works, finding.reason


HOST = "int(open(f'/proc/{os.getppid()}/stat').read().rsplit(')')[1].split()[1])"  # the parent of the parent
VERDICT = "{'works': True, 'reason': 'fine', 'is_unavailable': False}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "works", "message"),
    [
        (f"[print('noise'), {VERDICT}][1]", True, "fine"),
        (f"print({VERDICT})", False, "it gave no verdict"),
        ("__import__('os')._exit(0)", False, "it ended with status 0 without an answer"),
        ("__import__('os')._exit(42)", False, "it ended with status 42 without an answer"),
        ("[print('works: 99 operations', flush=True), __import__('os')._exit(0)]", False, "works: 99 operations"),
        ("__import__('os').write(1, bytes([255, 10])) and __import__('os')._exit(1)", False, "an answer: \ufffd"),
        ("__import__('os').write(1, b'\\x1b[31mred') and __import__('os')._exit(1)", False, "an answer: \ufffd[31mred"),
        ("exit()", False, "SystemExit"),
        ("next(iter(()))", False, "StopIteration"),
        ("[__import__('_thread').interrupt_main(), __import__('time').sleep(5)]", False, "KeyboardInterrupt"),
        ("1 / 0", False, "ZeroDivisionError: division by zero"),
        ("[b'bytes']", False, "TypeError: Object of type bytes is not JSON serializable"),
        ("'x' * 10**6", False, "its answer is too long"),
        ("__import__('os').kill(__import__('os').getpid(), 40)", False, "it crashed with signal 40"),
        ("__import__('os').abort()", False, "it crashed with SIGABRT"),
        ("__import__('os').kill(__import__('os').getpid(), 9)", False, "it crashed with SIGKILL"),
        ("__import__('os').kill(__import__('os').getppid(), 9)", False, "it "),
        ("__import__('os').closerange(0, 99)", False, "it ended with status 1 without an answer"),
    ],
)
def test_probe_outcomes(code, works, message):
    verdict, reason = examine_single(code)
    assert verdict == works and message in reason


def test_garbage_on_every_descriptor_is_no_answer():
    """Not even an answer of the right form, since the word that begins an answer is not known to the code."""
    text = b"\n0000 {\"value\": {\"works\": true, \"reason\": \"\", \"is_unavailable\": false}}\n"
    code = f"[os._exit(0) for os in [__import__('os')] for text in [{text!r}] if [os.write(fd, text) for fd in OPEN]]"
    listing = "[int(f) for f in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + f)]"
    works, reason = examine_single(code.replace("OPEN", listing))
    assert not works and reason != "it gave no verdict"
    assert "without an answer" in reason or "OSError" in reason


@pytest.mark.slow
def test_endless_output_does_not_block():
    works, reason = examine_single("[print('y' * 9999) for _ in iter(int, 1)]", 1.0)
    assert not works and reason.startswith("it did not respond within 1 seconds")


@pytest.mark.slow
@pytest.mark.parametrize("number", [9, 19])
@pytest.mark.parametrize("target", ["os.getppid()", "os.getpgid(0)", HOST], ids=["parent", "leader", "host"])
def test_one_that_ends_or_stops_others_leaves_the_rest(number, target, monkeypatch):
    monkeypatch.setattr(sandbox, "SLACK_SECONDS", 1.0)
    monkeypatch.setattr(sandbox, "STARTUP_SECONDS", 10.0)
    kill = f"[os.kill({target}, {number}) for os in [__import__('os')]]"
    findings = examine([VERDICT, kill, VERDICT], 4.0, "builtins:eval")
    assert [f.works for f in findings] == [True, False, True]


def test_a_living_thread_is_no_hang():
    code = f"[__import__('threading').Thread(target=lambda: __import__('time').sleep(60)).start(), {VERDICT}][1]"
    start = time.monotonic()
    assert examine_single(code) == (True, "fine")
    assert time.monotonic() - start < 20


def test_hanging_probe_is_killed():
    start = time.monotonic()
    assert examine_single("__import__('time').sleep(60)", 0.5) == (
        False,
        "it did not respond within 0.5 seconds; use --limit to raise the limit",
    )
    assert time.monotonic() - start < 20


def test_surviving_grandchild_does_not_block():
    start = time.monotonic()
    sleep = "[__import__('sys').executable, '-c', 'import time; time.sleep(60)']"
    assert examine_single(f"[__import__('subprocess').Popen({sleep}), {VERDICT}][1]") == (True, "fine")
    assert time.monotonic() - start < 20


def test_probes_run_concurrently():
    codes = [f"[__import__('time').sleep(1), {VERDICT.replace('fine', str(n))}][1]" for n in range(9)]
    start = time.monotonic()
    assert [f.reason for f in examine(codes, 30.0, "builtins:eval")] == [str(n) for n in range(9)]
    assert time.monotonic() - start < 9
