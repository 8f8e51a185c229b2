"""Worlds of several processes, started by `mpiexec`."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
MPIEXEC = Path(sys.executable).with_name("mpiexec")
OCANNL = Path(sys.executable).with_name("ocannl")
OPEN_MPI = shutil.which("mpirun.openmpi")
SHARED = Path("/dev/shm")
KILLS = int(os.environ.get("OCANNL_TEST_WORLD_KILLS", "2"))
pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed"),
    pytest.mark.skipif(not MPIEXEC.exists(), reason="the wheel of mpich, with mpiexec, is not installed"),
    pytest.mark.slow,
]


def run(count: int, program: str, *arguments: object, **settings: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in so many processes."""
    command = [MPIEXEC, "-n", str(count), sys.executable, PROGRAMS / f"{program}.py", *map(str, arguments)]
    variables = {**os.environ, **{f"OCANNL_{name.upper()}": value for name, value in settings.items()}}
    return subprocess.run(command, capture_output=True, text=True, timeout=240, env=variables)


@pytest.fixture(autouse=True)
def refuse_shared_memory() -> Iterator[None]:
    """Fails if segments of MPI remain that no process uses, however the processes of a test have ended. Other programs
    may have left behind some before, and those of tests that run beside remove theirs when all have opened them."""
    earlier = unused_in_shared_memory()
    yield
    remaining = unused_in_shared_memory() - earlier
    for _ in range(20):
        if not remaining:
            break
        time.sleep(0.1)  # a process may have created a segment that it is about to map
        remaining &= unused_in_shared_memory()
    assert not remaining


def unused_in_shared_memory() -> set[str]:
    names = {str(path) for path in SHARED.glob("*mpi*")} if SHARED.exists() else set()
    if not names:
        return names
    maps = b"".join(content(path) for path in Path("/proc").glob("[0-9]*/maps"))
    return {name for name in names if name.encode() not in maps}


def results(count: int, *calls: str) -> list[object]:
    """The results of calls of the training program, which are the same in all ranks."""
    completed = run(count, "training", *calls)
    assert completed.returncode == 0, completed.stderr
    answers = [json.loads(line) for line in completed.stdout.splitlines()]
    assert sorted(answer["rank"] for answer in answers) == list(range(count))
    assert all(answer["results"] == answers[0]["results"] for answer in answers)
    return list(answers[0]["results"])


def test_processes_and_devices_give_the_same_bits_and_resume_each_other(tmp_path: Path) -> None:
    path = tmp_path / "training.safetensors"
    trained, by_messages, saved = results(2, "uninterrupted,on", "uninterrupted,off", f"saved,{path}")
    assert trained == by_messages
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert results(1, "uninterrupted,on", f"resumed,{path}") == [trained, saved]
    assert results(4, "uninterrupted,on", "uninterrupted,off", f"resumed,{path}") == [trained, trained, saved]


def test_the_example_prints_the_same_losses_in_one_process_and_in_four() -> None:
    script = Path(__file__).parents[2] / "examples" / "data_parallel_processes.py"
    outputs = set()
    for launcher in ([sys.executable], [OCANNL, "run", "-n", "4"]):
        arguments = [*launcher, script, "--steps", "6", "--backend", "llvm"]
        completed = subprocess.run(arguments, capture_output=True, text=True, timeout=240)
        assert completed.returncode == 0, completed
        outputs.add(completed.stdout)
    assert len(outputs) == 1, outputs


@pytest.mark.parametrize(("count", "shared_memory"), [(2, "off"), (4, "on")])
def test_communication(count: int, shared_memory: str) -> None:
    completed = run(count, "communication", shared_memory=shared_memory, heartbeat_seconds="2")
    assert completed.returncode == 0, completed.stderr
    assert sorted(completed.stdout.splitlines()) == [f"rank {n} agrees" for n in range(count)]


@pytest.mark.skipif(OPEN_MPI is None, reason="Open MPI is not installed")
@pytest.mark.parametrize("shared_memory", ["off", "on"])
def test_communication_by_open_mpi(shared_memory: str) -> None:
    command = [OPEN_MPI, "--oversubscribe", "-n", "2", sys.executable, PROGRAMS / "communication.py"]
    variables = {"MPI4PY_MPIABI": "openmpi", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    settings = {"OCANNL_SHARED_MEMORY": shared_memory, "OCANNL_HEARTBEAT_SECONDS": "2"}
    completed = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, timeout=240, env=os.environ | variables | settings
    )
    assert completed.returncode == 0, completed.stderr
    assert sorted(completed.stdout.splitlines()) == ["rank 0 agrees", "rank 1 agrees"]


@pytest.mark.parametrize(
    ("count", "arguments"),
    [
        (3, ["--pyargs", "ocannl.testing", "--ocannl-transport=mpi"]),
        (2, [PROGRAMS / "lying_transports.py", f"--ocannl-known-failures={PROGRAMS / 'lying_transports.txt'}"]),
    ],
    ids=["mpi", "lying"],
)
def test_the_kit_accepts_the_transport_and_no_other(count: int, arguments: list[object], tmp_path: Path) -> None:
    command = [MPIEXEC, "-n", str(count), sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    completed = subprocess.run(
        [*map(str, command), f"--rootdir={tmp_path}"], capture_output=True, text=True, timeout=240, cwd=tmp_path
    )
    assert completed.returncode == 0, completed.stdout
    assert completed.stdout.count("18 passed" if count == 3 else "passed") == count, completed.stdout


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ("killed", "ocannl: rank 1 of 3 was killed by SIGKILL; all processes end"),
        ("exiting", "ocannl: rank 1 of 3 has ended with status 3; all processes end"),
        ("stopped", "ocannl: rank 1 of 3 has not responded for 2 seconds; all processes end"),
        (
            "raising",
            "ArithmeticError: a defect\nocannl: rank 1 of 3 has failed with ArithmeticError; all processes end",
        ),
        ("interrupted", "KeyboardInterrupt\nocannl: rank 1 of 3 has failed with KeyboardInterrupt; all processes end"),
        ("ending", "ProcessEnded: rank 1 of 3 has ended, but rank "),
        ("differing", "ProgramMismatch: the compiled code differs between rank 0 and rank 1, first in line "),
    ],
)
def test_a_failed_process_ends_all(failure: str, message: str, tmp_path: Path) -> None:
    arguments = [OCANNL, "run", "-n", "3", PROGRAMS / "failure.py", failure, tmp_path]
    variables = {**os.environ, "OCANNL_HEARTBEAT_SECONDS": "2"}
    completed = subprocess.run(arguments, capture_output=True, text=True, timeout=240, env=variables)
    assert completed.returncode != 0
    assert message in completed.stderr
    if failure == "differing":
        _, _, shown = completed.stderr.partition(":\n--- rank 0\n+++ rank 1\n")
        assert {"-;", "+;"} <= {line[:2] for line in shown.splitlines()}, completed  # lines of both programs
    if failure in ("killed", "exiting"):
        named = [line for line in completed.stderr.splitlines() if line.startswith("ocannl:")]
        assert named == [message], completed
    assert not remaining_processes(failure, tmp_path)
    times = {path.name: path.stat().st_mtime for path in tmp_path.iterdir()}
    ends = [times[str(rank)] for rank in range(3)]
    assert max(ends) - times.get("noticed", times["failed"]) < 5, times


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_command_ends_all_processes(number: signal.Signals, tmp_path: Path) -> None:
    arguments = [OCANNL, "run", "-n", "3", PROGRAMS / "failure.py", "waiting", tmp_path]
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as started:
        assert started.stdout is not None
        for _ in range(3):
            started.stdout.readline()
        os.killpg(started.pid, number)  # as a terminal does
        _, errors = started.communicate(timeout=60)
    assert started.returncode != 0
    assert "was killed" not in errors
    if number == signal.SIGINT:
        assert "has failed with KeyboardInterrupt; all processes end" in errors
    assert not remaining_processes("waiting", tmp_path)


def test_killed_runs_continue_to_the_same_numbers(tmp_path: Path) -> None:
    (expected,) = results(2, f"killed,{tmp_path / 'expected.safetensors'},2,0")
    path, delays, kills = tmp_path / "training.safetensors", random.Random(0), 0
    while kills < KILLS:
        call = f"killed,{path},{kills % 2},{delays.uniform(0, 0.5)}"
        completed = run(2, "training", call)
        if completed.returncode:
            assert completed.returncode == signal.SIGKILL, completed
            kills += 1
            continue
        for line in completed.stdout.splitlines():
            assert json.loads(line)["results"] == [expected], (kills, completed)
        path.unlink()  # the next run begins again
    if path.exists():
        assert results(2, f"killed,{path},2,0") == [expected]


def remaining_processes(*arguments: object) -> list[int]:
    """Processes with these arguments that remain a while after the launcher has ended."""
    wanted = "\0".join(map(str, arguments)).encode()
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
