"""Results as Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from compare import families
from compare.running import Cell
from compare.texts import rounded, row, threaded

Results = dict[str, Any]
"""`machine`, `limits` and `bounds` (in seconds) by number of threads, `settings`, `work` and `unit` of each workload,
`cells`, `imports` in seconds, `absent` with the reasons; since families are measured, the cells of `families`."""

OURS = "ocannl_"
LATENCY = ("W2", "W4", "W5")
CALL = "W8_noop"
FAR = 2.5  # times as long: another cache


def figure(results: Results, workload: str, took: float) -> float:
    """Work in a second, in the unit of the workload; of a call itself, microseconds."""
    work = results["work"][workload]
    return 1e6 * took if work is None else work / took


def by_name(results: Results, workload: str, threads: int) -> dict[str, Cell]:
    return {
        cell["system"]: cell for cell in results["cells"] if (cell["workload"], cell["threads"]) == (workload, threads)
    }


def seconds(cell: Cell) -> float | None:
    """Of a call; where calls themselves are measured, one that is waited for."""
    duration: float | None = cell.get("synchronous_s", cell.get("median_s"))
    return duration


def best_peer(cells: dict[str, Cell]) -> float | None:
    """The fewest seconds of a system that is not ours."""
    took = [time for name, cell in cells.items() if not name.startswith(OURS) and (time := seconds(cell))]
    return min(took, default=None)


def report(results: Results) -> str:
    parts = [head(results)]
    for threads in results["settings"]["threads"]:
        of_families = [cell for cell in results.get("families", ()) if cell["threads"] == threads]
        parts += [f"## {threaded(threads)}", "", speed(results, threads), "", *apart(results, threads)]
        parts += [families.table(of_families)] if of_families else []
    parts += ["## Import, first step, memory", "", latency(results), "", *failures(results)]
    return "\n".join(parts).rstrip() + "\n"


def head(results: Results) -> str:
    machine, settings = results["machine"], results["settings"]
    hardware = f"{machine['processor']}; {machine['cores']} cores, {machine['caches']}, {machine['memory_gb']} GB"
    rounds = f"{settings['rounds']} rounds of {settings['seconds']:g} s"
    rows = [
        f"# Results of {settings['date']}", "",
        f"{hardware}; {machine['system']}, Python {machine['python']}.",
        f"{rounds}, systems in turn, medians of fresh processes.", "",
        "Versions: " + ", ".join(f"{name}: {version}" for name, version in sorted(versions(results).items())) + ".", "",
    ]  # fmt: skip
    rows += ["| threads | FMA, GF/s | a = b + 3c, GB/s | sum, GB/s |", "|---|---|---|---|"]
    for threads, limit in results["limits"].items():
        figures = [f"{limit[name]:.0f}" if limit else "-" for name in ("fma_gflops", "triad_gbs", "sum_gbs")]
        rows.append(row([threads, *figures]))
    loads = [c["foreign_load"] for c in results["cells"] if "error" not in c]
    if loads:
        rows += ["", f"Meanwhile other processes kept {sum(loads) / len(loads):.2f} cores busy on average."]
    return "\n".join([*rows, ""])


def versions(results: Results) -> dict[str, str]:
    return {cell["system"]: cell["version"] for cell in results["cells"] if "version" in cell}


def speed(results: Results, threads: int) -> str:
    """Figures, in brackets the part of the machine's bound; and how many times as fast as the best peer ours are."""
    names = results["settings"]["systems"]
    ours = [name for name in names if name.startswith(OURS)]
    rows = [row(["workload", "unit", *names, *(f"{name} / best peer" for name in ours)])]
    rows.append("|---" * (2 + len(names) + len(ours)) + "|")
    for workload, unit in results["unit"].items():
        cells = by_name(results, workload, threads)
        peer = best_peer(cells)
        took = [seconds(cells.get(name, {})) for name in ours]
        ratios = [f"{peer / time:.2f}" if peer and time else "-" for time in took]
        shown = [_shown(results, workload, threads, cells.get(name)) for name in names]
        rows.append(row([workload, unit, *shown, *ratios]))
    return "\n".join(rows)


def apart(results: Results, threads: int) -> Iterable[str]:
    """What was measured while the cores shared no cache, as those of a virtual machine may do at times."""
    took = {(c["workload"], c["system"]): c["crossing_ns"] for c in results["cells"]
            if c["threads"] == threads and "crossing_ns" in c}  # fmt: skip
    if not took:
        return
    fastest = min(took.values())
    far = [f"{system} on {workload}" for (workload, system), nanoseconds in took.items() if nanoseconds > FAR * fastest]
    yield f"A cache line went from one core to another and back in {fastest:.0f} ns."
    if far:
        yield f"It took {min(t for t in took.values() if t > FAR * fastest):.0f} ns or more after {', '.join(far)}."
    yield ""


def _shown(results: Results, workload: str, threads: int, cell: Cell | None) -> str:
    took = seconds(cell or {})
    if took is None:
        return "-" if cell is None or "NotImplemented" in cell["error"] else "failed"
    text = rounded(figure(results, workload, took))
    bound = results["bounds"][str(threads)].get(workload)
    return f"{text} ({100 * bound / took:.0f} %)" if bound else text


def latency(results: Results) -> str:
    columns = [f"{workload} {kind}" for workload in LATENCY for kind in ("cold, s", "warm, s", "peak, MB")]
    rows = [row(["system", "import, s", *columns]), "|---" * (2 + len(columns)) + "|"]
    threads = results["settings"]["threads"][-1]
    for name in results["settings"]["systems"]:
        shown = [f"{results['imports'][name]:.2f}"]
        for workload in LATENCY:
            cell = by_name(results, workload, threads).get(name, {})
            shown += [rounded(cell[key]) if key in cell else "-" for key in ("cold_s", "warm_s", "peak_mb")]
        rows.append(row([name, *shown]))
    return "\n".join(rows)


def failures(results: Results) -> Iterable[str]:
    failed = [c for c in results["cells"] if "error" in c and "NotImplemented" not in c["error"]]
    if failed:
        yield "## What failed"
        yield ""
        yield from (f"- {c['system']}, {c['workload']}, {threaded(c['threads'])}: {c['error']}" for c in failed)
        yield ""
    if results["absent"]:
        yield "## What is absent"
        yield ""
        yield from (f"- {name}: {reason}" for name, reason in results["absent"].items())
