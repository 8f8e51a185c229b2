"""Worlds of several processes, started by `mpiexec`."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
MPIEXEC = Path(sys.executable).with_name("mpiexec")
OCANNL = Path(sys.executable).with_name("ocannl")
SHARED = Path("/dev/shm")
pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed"),
    pytest.mark.skipif(not MPIEXEC.exists(), reason="the wheel of mpich, with mpiexec, is not installed"),
    pytest.mark.slow,
]


def run(count: int, program: str, *arguments: object, **settings: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in so many processes; nothing remains in shared memory, however they end."""
    before = names_in_shared_memory()
    command = [MPIEXEC, "-n", str(count), sys.executable, PROGRAMS / f"{program}.py", *map(str, arguments)]
    variables = {**os.environ, **{f"OCANNL_{name.upper()}": value for name, value in settings.items()}}
    completed = subprocess.run(command, capture_output=True, text=True, timeout=240, env=variables)
    assert names_in_shared_memory() == before
    return completed


def names_in_shared_memory() -> set[str]:
    """The names of segments of MPI and of this project."""
    return {path.name for path in SHARED.glob("*mpi*")} if SHARED.exists() else set()


def results(count: int, *arguments: object, **settings: str) -> dict[str, str]:
    """The results of a training program, which are the same in all ranks."""
    completed = run(count, "training", "mpi", *arguments, **settings)
    assert completed.returncode == 0, completed.stderr
    answers = [json.loads(line) for line in completed.stdout.splitlines()]
    assert sorted(answer["rank"] for answer in answers) == list(range(count))
    assert all(answer["results"] == answers[0]["results"] for answer in answers)
    return answers[0]["results"]


def test_processes_and_devices_give_the_same_bits() -> None:
    expected = results(1, "uninterrupted")
    assert results(2, "uninterrupted") == expected
    assert results(4, "uninterrupted") == expected
    assert results(2, "uninterrupted", shared_memory="off") == expected
    assert results(4, "uninterrupted", shared_memory="off") == expected


def test_a_checkpoint_resumes_with_another_number_of_processes(tmp_path: Path) -> None:
    path = tmp_path / "training.safetensors"
    expected = results(2, "saved", path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert results(1, "resumed", path) == expected
    assert results(4, "resumed", path) == expected


def test_the_example_prints_the_same_losses_in_any_division() -> None:
    script = Path(__file__).parents[2] / "examples" / "data_parallel_processes.py"
    outputs = set()
    for count in (1, 2, 4):
        arguments = [OCANNL, "run", "-n", str(count), script, "--steps", "6", "--backend", "llvm"]
        completed = subprocess.run(arguments, capture_output=True, text=True, timeout=240)
        assert completed.returncode == 0, completed
        outputs.add(completed.stdout)
    assert len(outputs) == 1, outputs


@pytest.mark.parametrize("count", [2, 4])
def test_communication(count: int) -> None:
    completed = run(count, "communication")
    assert completed.returncode == 0, completed.stderr
    assert sorted(completed.stdout.splitlines()) == [f"rank {n} agrees" for n in range(count)]


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ("killed", ""),  # `mpiexec` ends all processes before they could name the rank
        ("stopped", "rank 1 of 3 has not responded for 2 seconds; all processes end"),
        ("interrupted", "rank 1 of 3 has failed with KeyboardInterrupt; all processes end"),
        ("raising", "ArithmeticError: a defect\nocannl: rank 1 of 3 has failed with ArithmeticError"),
    ],
)
def test_a_failed_process_ends_all(failure: str, message: str) -> None:
    started = time.monotonic()
    completed = run(3, "failure", failure, heartbeat_seconds="2")
    assert completed.returncode != 0
    assert message in completed.stderr
    assert time.monotonic() - started < 60


def test_the_command_names_the_rank_of_a_killed_process() -> None:
    arguments = ["-n", "3", PROGRAMS / "failure.py", "killed"]
    completed = subprocess.run([OCANNL, "run", *arguments], capture_output=True, text=True, timeout=240)
    assert completed.returncode != 0
    named = [line for line in completed.stderr.splitlines() if line.startswith("ocannl:")]
    assert named == ["ocannl: rank 1 of 3 was killed by SIGKILL; all processes end"], completed
    assert not remaining_processes(*arguments)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_command_ends_all_processes(number: signal.Signals) -> None:
    arguments = ["-n", "3", PROGRAMS / "failure.py", "waiting"]
    with subprocess.Popen(
        [OCANNL, "run", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as started:
        assert started.stdout is not None
        for _ in range(3):
            started.stdout.readline()
        os.killpg(started.pid, number)  # as a terminal does
        _, errors = started.communicate(timeout=60)
    assert started.returncode != 0
    assert "was killed" not in errors
    assert not remaining_processes(*arguments)


def remaining_processes(*arguments: object) -> list[int]:
    """Processes with these arguments that remain a while after the launcher has ended."""
    wanted = "\0".join(map(str, arguments[2:])).encode()
    for _ in range(50):
        remaining = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if wanted in content(path)]
        if not remaining:
            break
        time.sleep(0.1)
    return remaining


def content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process has ended
        return b""


def test_a_long_call_is_no_failure() -> None:
    completed = run(2, "failure", "busy", heartbeat_seconds="1")
    assert completed.returncode == 0, completed.stderr


def test_another_program_is_shown_beside_that_of_rank_0() -> None:
    completed = run(2, "failure", "of another program")
    assert completed.returncode != 0
    message = "ProgramMismatch: the compiled code differs between rank 0 and rank 1:\n--- rank 0\n+++ rank 1"
    assert message in completed.stderr
    assert "-line of rank 0\n+line of rank 1\n" in completed.stderr


def test_another_transfer_is_shown_beside_that_of_this_process() -> None:
    completed = run(2, "failure", "with another transfer")
    assert completed.returncode != 0
    assert re.search(
        r"ProgramMismatch: the halves of a transfer between two processes do not fit together:\n"
        r"  rank \d (sends `x`, float32 of sizes \[3\]|receives `y`, float32 of sizes \[4\]), into the merge buffer\n"
        r"  rank \d (sends `x`, float32 of sizes \[3\]|receives `y`, float32 of sizes \[4\]), into the merge buffer\n",
        completed.stderr,
    )
