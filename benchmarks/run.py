"""Runs all workloads and families of programs with ocannl and with all installed peers.

    python benchmarks/run.py                                        everything: hours
    python benchmarks/run.py --quick                                what the picture of the README shows, once: roughly
    python benchmarks/run.py --workload W2 'W1_*' 'sum of *' --threads 1
    python benchmarks/run.py --again benchmarks/results/DATE.json   the table and the plot of results there are

Peers are the systems with an adapter in `../shared/bench` beside the checkout (or `--peers FOLDER`) that can be
imported. Systems alternate, each run in a new process; results are checked before they are timed. Families of
programs are those of `families.py`, where the peers take turns in one process.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from datetime import date
from fnmatch import fnmatch
from pathlib import Path

from compare.families import family_cells
from compare.machine import bound_s, cores, described, limits
from compare.plot import plot
from compare.report import Results, report
from compare.running import Plan, absent, cells, import_seconds
from compare.systems import PEERS, STANDARD, systems
from compare.workloads import TRAINING, WORKLOADS, Workload
from summary import WORKLOADS as SUMMARIZED
from twins.families import FAMILIES

RESULTS = Path(__file__).parent / "results"
QUICK = {"rounds": 1, "seconds": 0.3}
QUICK_SYSTEMS = ("ocannl_llvm", "torch_eager", "jax")
THOROUGH = {"rounds": 3, "seconds": 2.0}


def compared(plan: Plan, missing: dict[str, str], families: list[list[str]], options: list[str]) -> Results:
    """Runs everything: `families` are lists of names, of which each is measured in a process of its own."""
    workloads = {name: summary(WORKLOADS[name]()) for name in plan.workloads}
    limit = {str(threads): limits(threads) for threads in plan.threads}
    bounds = {
        threads: {
            name: bound for name, workload in workloads.items() if (bound := bound_s(workload, rate)) is not None
        }
        for threads, rate in limit.items()
    }
    settings = {
        "date": date.today().isoformat(), "rounds": plan.rounds, "seconds": plan.seconds,
        "threads": list(plan.threads), "systems": [system.name for system in plan.systems],
    }  # fmt: skip
    return {
        "machine": described(), "limits": limit, "settings": settings, "bounds": bounds,
        "unit": {name: workload["unit"] for name, workload in workloads.items()},
        "work": {name: workload["work"] for name, workload in workloads.items()},
        "imports": {system.name: import_seconds(system, plan) for system in plan.systems},
        "cells": list(cells(plan, tell)), "absent": missing,
        "families": [
            cell for threads in plan.threads for names in families
            for cell in family_cells(names, threads, options, plan.scratch, tell)
        ],
    }  # fmt: skip


def tell(text: str) -> None:
    print(text, flush=True)


def summary(workload: Workload) -> Workload:
    """What is told about a workload beside its times: without its arrays, with a unit and the work in that unit."""
    if workload["kind"] == "noop":
        row = {"unit": "us a call", "work": None}
    elif workload["kind"] in TRAINING:
        row = {"unit": "steps/s", "work": 1.0}
    elif "flops" in workload:
        row = {"unit": "GF/s", "work": workload["flops"] / 1e9}
    else:
        row = {"unit": "GB/s", "work": workload["bytes"] / 1e9}
    return {key: workload[key] for key in ("kind", "flops", "bytes") if key in workload} | row


def write(results: Results, path: Path) -> None:
    """Three files: `path` with the endings .json, .md and .svg."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    text = report(results)
    try:
        plot(results, path.with_suffix(".svg"))
        text += f"\n![How near each system comes to the bound]({path.stem}.svg)\n"
    except ImportError as wrong:
        print(f"no plot: {wrong}")
    path.with_suffix(".md").write_text(text)
    print(f"\n{text}\n{path.with_suffix('.md')}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", nargs="+", help=f"for the workloads, of them: {' '.join(STANDARD)}, or others")
    parser.add_argument("--workload", nargs="+", help="names of workloads and families, or patterns")
    parser.add_argument("--threads", nargs="+", type=int, default=[n for n in (1, 2) if n <= len(cores())])
    parser.add_argument("--quick", action="store_true", help="one short round, one size of each family")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, help="to measure for, in each process")
    parser.add_argument("--limit", type=float, default=170, help="seconds after which a process is stopped")
    parser.add_argument("--peers", type=Path, default=PEERS, help="the folder with the adapters of the peers")
    parser.add_argument("--output", type=Path, help="where results go; by default the date, in benchmarks/results")
    parser.add_argument("--again", type=Path, help="results to write the table and the plot of")
    arguments = parser.parse_args()
    if arguments.again:
        write(json.loads(arguments.again.read_text()), arguments.again)
        return
    standard = QUICK if arguments.quick else THOROUGH
    adapters = systems(arguments.peers)
    if not (arguments.peers / "bench").is_dir():
        print("no adapters of peers were found beside the checkout: only ocannl is measured")
    named = arguments.system or (QUICK_SYSTEMS if arguments.quick else STANDARD)
    patterns = arguments.workload or ([*SUMMARIZED, *FAMILIES] if arguments.quick else ["*"])
    workloads, families = (
        [name for name in names if any(fnmatch(name, pattern) for pattern in patterns)]
        for names in (WORKLOADS, FAMILIES)
    )
    processes, options = ([families], ["--quick"]) if arguments.quick else ([[name] for name in families], [])
    with tempfile.TemporaryDirectory() as scratch:
        plan = Plan(
            [adapters[name] for name in named if name in adapters], workloads, arguments.threads,
            arguments.rounds or int(standard["rounds"]), arguments.seconds or standard["seconds"], arguments.limit,
            arguments.peers.resolve(), Path(scratch),
        )  # fmt: skip
        missing = {name: "there is no adapter of it" for name in named if name not in adapters}
        missing |= {system.name: why for system in plan.systems if (why := absent(system, plan))}
        for name, why in missing.items():
            print(f"{name} skipped: {why}")
        present = [system for system in plan.systems if system.name not in missing]
        results = compared(replace(plan, systems=present), missing, processes if families else [], options)
    write(results, arguments.output or RESULTS / date.today().isoformat())


if __name__ == "__main__":
    main()
