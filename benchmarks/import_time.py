"""Time of `import ocannl` without NumPy. Target: less than 0.25 s."""

from __future__ import annotations

import os
import re
import subprocess
import sys

AIM_S = 0.25
REPEATS = 7
LINE = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \|(\s+)(\S+)")
NUMPY = ("numpy", "ml_dtypes")


def profile() -> list[tuple[int, int, int, str]]:
    """Own and cumulative microseconds, depth and name of every module, in order of completion."""
    command = [sys.executable, "-X", "importtime", "-c", "import ocannl"]
    cached = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=cached)
    return [
        (int(self_us), int(total), len(indent), name)
        for self_us, total, indent, name in (m.groups() for m in map(LINE.match, ran.stderr.splitlines()) if m)
    ]


def split(modules: list[tuple[int, int, int, str]]) -> tuple[float, float, list[tuple[float, str]]]:
    """Seconds for ocannl without NumPy, for NumPy, and the modules that took longest by themselves."""
    total_us = next(total for _, total, _, name in reversed(modules) if name == "ocannl")
    numpy = sum(outermost(modules, NUMPY))
    ours = ((self_us / 1e6, name) for self_us, _, _, name in modules if not name.startswith(NUMPY))
    return (total_us - numpy) / 1e6, numpy / 1e6, sorted(ours, reverse=True)


def outermost(modules: list[tuple[int, int, int, str]], names: tuple[str, ...]) -> list[int]:
    """Cumulative times of the imports of these packages that are not inside one another."""
    totals = []
    inside: int | None = None
    for _, total, depth, name in reversed(modules):  # a module is listed after what it imports
        if inside is not None and depth > inside:
            continue
        inside = depth if name.partition(".")[0] in names else None
        if inside is not None:
            totals.append(total)
    return totals


def main() -> None:
    runs = sorted((split(profile()) for _ in range(REPEATS)), key=lambda run: run[0])
    ours, numpy, by_time = runs[0]
    median = runs[len(runs) // 2][0]
    print(f"import ocannl: {ours:.3f} s without NumPy (median {median:.3f} s), NumPy and ml_dtypes {numpy:.3f} s")
    print("slowest modules, without their imports:")
    for seconds, name in by_time[:8]:
        print(f"  {1e3 * seconds:6.1f} ms  {name}")
    print(f"target {AIM_S:g} s: {'met' if median < AIM_S else 'MISSED'}")


if __name__ == "__main__":
    main()
