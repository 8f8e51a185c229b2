"""Draws the speed of ocannl relative to the best peer, from stored results: the picture in the README.

    python benchmarks/summary.py                                        the newest results
    python benchmarks/summary.py benchmarks/results/DATE.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from compare import families
from compare.report import OURS, Results, best_peer, by_name, seconds, versions
from compare.texts import threaded

RESULTS = Path(__file__).parent / "results"
WORKLOADS = {
    "W3_b50": "tiny perceptron, training step",
    "W2": "perceptron for MNIST, training step",
    "W4": "LeNet, training step",
    "W5": "small transformer, training step",
    "W1_64x784x128": "matrix product 64 x 784 x 128",
    "W1_512": "matrix product 512 x 512",
    "W1_2048": "matrix product 2048 x 2048",
    "W7_odd": "contraction of five axes",
    "W6_layernorm": "layer normalization and gradient",
    "W6_softmax": "softmax and gradient",
    "W6_sum": "sum of 64M elements",
}
COLORS = ("#a9c4dd", "#1f4e79")
SYSTEM = "ocannl_llvm"


def ratio(results: Results, workload: str, threads: int) -> float | None:
    """Returns how many times as fast as the fastest peer ocannl is."""
    cells = by_name(results, workload, threads)
    peer, ours = best_peer(cells), seconds(cells.get(SYSTEM, {}))
    return peer / ours if peer and ours else None


def ratios(results: Results) -> dict[str, dict[str, list[float | None]]]:
    """By panel and name, the ratios for each number of threads: of workloads, and geometric means of families."""
    counts = results["settings"]["threads"]
    panels = {"Workloads": {text: [ratio(results, name, n) for n in counts] for name, text in WORKLOADS.items()}}
    cells = results.get("families", [])
    means = [families.means([cell for cell in cells if cell["threads"] == threads]) for threads in counts]
    names = dict.fromkeys(name for mean in means for name in mean)
    if names:
        panels["Families of programs, means over sizes"] = {name: [mean.get(name) for mean in means] for name in names}
    return panels


def caption(results: Results) -> str:
    """Returns the peers with their versions, the machine and the date."""
    machine = results["machine"]
    peers = [
        f"{version} ({name.partition('_')[2] or 'jit'})"
        for name, version in sorted(versions(results).items())
        if not name.startswith(OURS)
    ]
    hardware = f"{machine['cores']} cores of {machine['processor']}, Python {machine['python']}"
    return f"Best peer: the faster of {' and '.join(peers)}.\n{hardware}, {results['settings']['date']}."


def draw(results: Results, path: Path) -> None:
    """Raises: ImportError without matplotlib."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    counts = results["settings"]["threads"]
    panels = ratios(results)
    figure = Figure(figsize=(6 * len(panels), 2 + 0.2 * max(map(len, panels.values()))), layout="constrained")
    FigureCanvasSVG(figure)
    every = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, rows) in zip(every, panels.items(), strict=True):
        bars_of(axes, rows, counts)
        axes.set_title(title, loc="left", fontsize="small")
    figure.suptitle("Speed of ocannl relative to the best peer (float32, CPU)", x=0.01, ha="left", fontsize="medium")
    figure.supxlabel(caption(results), x=0.01, ha="left", fontsize="small")
    every[-1].legend(frameon=False, loc="lower right")
    with matplotlib.rc_context({"svg.hashsalt": "ocannl", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})


def bars_of(axes: Any, rows: dict[str, list[float | None]], counts: list[int]) -> None:
    """Draws a bar for each row and number of threads."""
    height = 0.8 / len(counts)
    for index, (threads, color) in enumerate(zip(counts, COLORS, strict=False)):
        shown = [(y + index * height, xs[index]) for y, xs in enumerate(rows.values()) if xs[index] is not None]
        bars = axes.barh(*zip(*shown, strict=True), height, color=color, label=threaded(threads))
        axes.bar_label(bars, [f"{x:.1f}" for _, x in shown], padding=3, fontsize=7)
    axes.set_yticks([y + (len(counts) - 1) * height / 2 for y in range(len(rows))], list(rows), fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(0.7, 60)
    axes.set_xticks([1, 2, 5, 10, 30], ["1", "2", "5", "10", "30"])
    axes.minorticks_off()
    axes.axvline(1, color="black", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="?", help="default: the newest of benchmarks/results")
    path = parser.parse_args().results or max(RESULTS.glob("????-??-??.json"))
    picture = path.with_name(f"{path.stem}-summary.svg")
    draw(json.loads(path.read_text(encoding="utf-8")), picture)
    print(picture)


if __name__ == "__main__":
    main()
