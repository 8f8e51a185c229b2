"""Results as a picture: how near each system comes to the machine's bound, or to the fastest where there is none."""

from __future__ import annotations

from pathlib import Path

from compare.report import OURS, Results, by_name, seconds
from compare.texts import threaded

MARKS = "osD^vPX*<>"


def plot(results: Results, path: Path) -> None:
    """Raises: ImportError without matplotlib."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    threads, workloads = results["settings"]["threads"], list(results["unit"])
    figure = Figure(figsize=(4 + 5 * len(threads), 1.5 + 0.3 * len(workloads)), layout="constrained")
    FigureCanvasSVG(figure)
    every = figure.subplots(1, len(threads), sharey=True, squeeze=False)[0]
    for axes, count in zip(every, threads, strict=True):
        for index, name in enumerate(results["settings"]["systems"]):
            points = [(part(results, w, count, name), y) for y, w in enumerate(workloads)]
            shown = [(x, y) for x, y in points if x is not None]
            ours = name.startswith(OURS)
            axes.plot(
                [x for x, _ in shown], [y for _, y in shown], MARKS[index % len(MARKS)], label=name,
                markersize=8 if ours else 5, alpha=1 if ours else 0.6,
            )  # fmt: skip
        axes.set_xscale("log")
        axes.axvline(1, color="gray", linewidth=0.8)
        axes.grid(axis="y", alpha=0.3)
        axes.set_title(threaded(count))
        axes.set_xlabel("of the machine's bound; of the fastest system where there is none")
    every[0].set_yticks(range(len(workloads)), workloads)
    every[0].invert_yaxis()
    figure.legend(*every[0].get_legend_handles_labels(), loc="outside right upper", frameon=False, fontsize="small")
    figure.savefig(path, metadata={"Date": None})


def part(results: Results, workload: str, threads: int, name: str) -> float | None:
    cells = by_name(results, workload, threads)
    took = {system: duration for system, cell in cells.items() if (duration := seconds(cell))}
    if name not in took:
        return None
    best: float = results["bounds"][str(threads)].get(workload) or min(took.values())
    return best / took[name]
