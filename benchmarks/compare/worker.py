"""One system and one workload in a process of its own: builds, checks, measures, and prints a line of JSON.

    python -m compare.worker SYSTEM WORKLOAD SECONDS FOLDER

`first_s` is building and the first call, which compiles. A call is timed in stretches, each of which ends by waiting;
`foreign_load` is how many cores were busy with something else meanwhile.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from compare.references import STEPS, check
from compare.systems import systems
from compare.workloads import TRAINING, WORKLOADS

STRETCH_S = 0.05
SYNCHRONOUS = 2000  # calls, each waited for


def measured(system: str, workload: str, seconds: float, folder: Path) -> dict[str, Any]:
    """What was found, and the `error` if there is one."""
    inputs = WORKLOADS[workload]()
    cell: dict[str, Any] = {}
    try:
        adapter = systems(folder)[system].load()
        cell["version"] = adapter.version()
        start = perf_counter()
        run = adapter.build(inputs)
        run.call()
        run.sync()
        cell["first_s"] = perf_counter() - start
        values = results(run, inputs["kind"] in TRAINING)
        cell["peak_mb"] = peak_mb()  # before the reference is computed
        cell["worst_error"] = check(workload, inputs, values)
        cell |= times(run, seconds)
        if inputs["kind"] == "noop":
            cell["synchronous_s"] = median(stretch(run, 1) for _ in range(SYNCHRONOUS))
    except Exception as wrong:
        cell["error"] = f"{type(wrong).__name__}: {wrong}"[:500]
    return cell


def results(run: Any, trains: bool) -> list[Any]:
    """The losses of the first steps, the first of which is done; or the arrays of the first call."""
    if not trains:
        value = run.value()
        return list(value) if isinstance(value, tuple | list) else [value]
    losses = [float(run.value())]
    while len(losses) < STEPS:
        run.call()
        run.sync()
        losses.append(float(run.value()))
    return losses


def stretch(run: Any, calls: int) -> float:
    """Seconds of one of them."""
    start = perf_counter()
    for _ in range(calls):
        run.call()
    run.sync()
    return (perf_counter() - start) / calls


def times(run: Any, seconds: float) -> dict[str, Any]:
    calls = 1
    while (seconds_per_call := stretch(run, calls)) * calls < STRETCH_S:
        calls *= 2
    repeats = max(3, round(seconds / (calls * seconds_per_call)))
    before = perf_counter(), busy_s(), process_cpu_s()
    samples = sorted(stretch(run, calls) for _ in range(repeats))
    after = perf_counter(), busy_s(), process_cpu_s()
    wall, busy, process = (end - start for end, start in zip(after, before, strict=True))
    return {
        "median_s": median(samples), "least_s": samples[0], "stretches": repeats, "calls": calls,
        "foreign_load": max(0.0, busy - process) / wall,
    }  # fmt: skip


def process_cpu_s() -> float:
    user, system, *_ = os.times()
    return user + system


def busy_s() -> float:
    """Of all cores together; nothing where the system does not tell."""
    try:
        numbers = [int(number) for number in Path("/proc/stat").read_text().partition("\n")[0].split()[1:]]
    except OSError:
        return 0.0
    idle, waiting = numbers[3:5]
    return (sum(numbers) - idle - waiting) / os.sysconf("SC_CLK_TCK")


def peak_mb() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    system, workload, seconds, folder = sys.argv[1:]
    print("\n" + json.dumps(measured(system, workload, float(seconds), Path(folder))))


if __name__ == "__main__":
    main()
