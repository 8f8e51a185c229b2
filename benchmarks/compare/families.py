"""Results of families of programs: their processes, tables and means."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from compare.texts import row

Cell = dict[str, Any]
"""The shortest times of a program at a size, in milliseconds: `family`, `size`, `threads`, `times` by system,
`difference` from the results of PyTorch, and `failed`, errors by system."""

SCRIPT = Path(__file__).parents[1] / "families.py"
OURS = "ocannl"


def family_cells(
    names: Sequence[str], threads: int, options: Sequence[str], scratch: Path, tell: Callable[[str], None]
) -> list[Cell]:
    """The cells of families, measured in one process; none if it fails."""
    written = scratch / "families.json"
    command = [sys.executable, str(SCRIPT), *names, "--threads", str(threads), "--write", str(written), *options]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        tell(f"{', '.join(names)}: {' '.join(ran.stderr.strip().splitlines()[-1:])}")
        return []
    cells: list[Cell] = json.loads(written.read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        tell(line(cell))
    return cells


def ratio(cell: Cell) -> float:
    """The time of the fastest peer, relative to that of ocannl: above 1, ocannl is faster."""
    times = cell["times"]
    fastest: float = min((time for system, time in times.items() if system != OURS), default=math.nan)
    return fastest / float(times[OURS])


def size_text(cell: Cell) -> str:
    return "x".join(map(str, cell["size"]))


def line(cell: Cell) -> str:
    times = "".join(f"{system:>14} {time:.3f}" for system, time in cell["times"].items())
    failed = "".join(f"{system:>14} failed" for system in cell["failed"])
    return f"{cell['family']:<26}{size_text(cell):<20}{ratio(cell):>6.2f}{cell['difference']:>9.0e}{times}{failed}"


def geometric_mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def means(cells: Sequence[Cell]) -> dict[str, float]:
    """The geometric mean of the ratios of each family."""
    families = dict.fromkeys(cell["family"] for cell in cells)
    return {name: geometric_mean([ratio(cell) for cell in cells if cell["family"] == name]) for name in families}


def table(cells: Sequence[Cell]) -> str:
    """A table in Markdown, and the mean."""
    if not cells:
        return ""
    systems = list(dict.fromkeys(system for cell in cells for system in cell["times"]))
    head = ["family", "size", *(f"{system}, ms" for system in systems), f"{OURS} / best peer"]
    rows = [row(head), "|---" * len(head) + "|"]
    for cell in cells:
        times = [f"{cell['times'][system]:.3g}" if system in cell["times"] else "-" for system in systems]
        rows.append(row([cell["family"], size_text(cell), *times, f"{ratio(cell):.2f}"]))
    ratios = [ratio(cell) for cell in cells]
    behind = sum(value < 1 for value in ratios)
    return "\n".join([*rows, "", f"Geometric mean {geometric_mean(ratios):.2f}, {behind} of {len(cells)} below 1.", ""])
