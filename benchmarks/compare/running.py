"""The processes of a comparison: every system in turn, one at a time, round after round."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from compare.machine import cores, crossing_ns
from compare.systems import System, python_path

Cell = dict[str, Any]
LINES_OF_ERROR = 3
UNCOMPILED = ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")  # users import modules that were imported before
MEDIANS = ("median_s", "peak_mb", "foreign_load", "synchronous_s", "crossing_ns")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run: each system on each workload with each number of threads, as many rounds as that."""

    systems: Sequence[System]
    workloads: Sequence[str]
    threads: Sequence[int]
    rounds: int
    seconds: float
    limit_s: float
    folder: Path
    scratch: Path


def absent(system: System, plan: Plan) -> str:
    """Why a system cannot take part; empty if it can."""
    _, wrong = _python(["-c", system.head["IMPORT"]], system, 1, plan, plan.scratch / "import")
    return wrong


def import_seconds(system: System, plan: Plan) -> float:
    """The median of fresh processes."""
    code = f"from time import perf_counter; t = perf_counter()\n{system.head['IMPORT']}\nprint(perf_counter() - t)"
    ran = [_python(["-c", code], system, 1, plan, plan.scratch / "import")[0] for _ in range(max(5, plan.rounds))]
    return median(float(out) for out in ran)


def cells(plan: Plan, tell: Callable[[str], None]) -> Iterator[Cell]:
    """A result for each system, workload and number of threads.

    The first round finds empty caches (`cold_s`), later ones those of the first (`warm_s`). What fails is not
    tried again.
    """
    for workload in plan.workloads:
        for threads in plan.threads:
            runs_by_system: dict[str, list[Cell]] = {system.name: [] for system in plan.systems}
            for number in range(plan.rounds):
                for system in plan.systems:
                    ran = runs_by_system[system.name]
                    if not ran or "error" not in ran[-1]:
                        ran.append(once(system, workload, threads, plan, fresh=number == 0))
                        tell(line(workload, threads, system.name, ran[-1]))
            for name, runs in runs_by_system.items():
                yield {"workload": workload, "threads": threads, "system": name, **together(runs)}


def once(system: System, workload: str, threads: int, plan: Plan, *, fresh: bool) -> Cell:
    cache = plan.scratch / f"{system.name}.{workload}.{threads}"
    if fresh:
        shutil.rmtree(cache, ignore_errors=True)
    command = ["-m", "compare.worker", system.name, workload, str(plan.seconds), str(plan.folder)]
    out, wrong = _python(command, system, threads, plan, cache)
    if wrong:
        return {"error": wrong}
    cell: Cell = json.loads(out.splitlines()[-1])
    apart = crossing_ns() if threads > 1 else None
    return cell if apart is None else {**cell, "crossing_ns": apart}


def together(runs: Sequence[Cell]) -> Cell:
    """One result of several runs: the last error, or medians."""
    if "error" in runs[-1]:
        return {key: runs[-1][key] for key in ("version", "error") if key in runs[-1]}
    first, *later = [run["first_s"] for run in runs]
    medians = {key: median(run[key] for run in runs) for key in MEDIANS if key in runs[0]}
    worst = {"least_s": min(run["least_s"] for run in runs), "worst_error": max(run["worst_error"] for run in runs)}
    warm = {"warm_s": median(later)} if later else {}
    return {"version": runs[0]["version"], **medians, **worst, "cold_s": first, **warm, "rounds": len(runs)}


def line(workload: str, threads: int, system: str, run: Cell) -> str:
    description = run["error"] if "error" in run else (
        f"{1e6 * run['median_s']:12.1f} us   first {run['first_s']:6.2f} s   {run['peak_mb']:5.0f} MB"
        f"   error {run['worst_error']:.0e}   others {run['foreign_load']:.2f}"
    )
    if "crossing_ns" in run:
        description += f"   core to core {run['crossing_ns']:.0f} ns"
    return f"{workload:16}{threads:2}  {system:16}{description}"


def _python(arguments: Sequence[str], system: System, threads: int, plan: Plan, cache: Path) -> tuple[str, str]:
    """What a fresh process prints, or what is wrong."""
    cache.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join(python_path(plan.folder))
    kept = {name: value for name, value in os.environ.items() if name not in UNCOMPILED}
    environment = {**kept, **system.environment(threads, cache), "PYTHONPATH": path}
    chosen = cores()[-threads:]

    def begin() -> None:
        os.setsid()  # so that what it starts can be stopped with it
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, chosen)

    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, *arguments], env=environment, cwd=cache, stdout=pipe, stderr=pipe, text=True, preexec_fn=begin
    ) as process:
        try:
            out, errors = process.communicate(timeout=plan.limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return "", f"stopped after {plan.limit_s:g} s"
    if process.returncode:
        return "", f"exit status {process.returncode}: {' '.join(errors.strip().splitlines()[-LINES_OF_ERROR:])}"[:500]
    return out, ""
