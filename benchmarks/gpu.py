"""Training steps, products and passes over memory on a GPU, with ocannl and with PyTorch and JAX on the same card.

    python benchmarks/gpu.py [--workload W2 'product_*'] [--system ocannl torch_compile] [--seconds 2]

Systems alternate, each workload in a new process. The same run measures the limits of the device: copies within its
memory, and bfloat16 products of 8192 x 8192 matrices by the library that torch or JAX calls. Without a GPU nothing is
measured; `--small` tests the benchmark itself with small sizes on any device.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

from on_gpu.worker import SYSTEMS
from on_gpu.workloads import WORKLOADS

Results = dict[str, dict[str, dict[str, Any]]]  # by workload, by system
COPIED_BYTES, COPIES = 1 << 30, 20
NEEDS = {"torch_eager": "torch", "torch_compile": "torch", "jax": "jax"}


def obstacle() -> str | None:
    """Why nothing can be measured here."""
    if find_spec("ocannl_backend_triton") is None:
        return "ocannl-backend-triton is not installed"
    from ocannl.backend import BackendUnavailable
    from ocannl_backend_triton.driver import system_driver

    try:
        system_driver()
    except BackendUnavailable as wrong:
        return str(wrong)
    return None if find_spec("triton") else "triton is not installed"


def copied_bytes_per_s() -> tuple[str, float]:
    """The card, and how fast it copies within its memory: bytes read and bytes written."""
    from ocannl.backend import Location
    from ocannl_backend_triton.device import devices
    from ocannl_backend_triton.driver import system_driver

    device = devices(system_driver())[0]
    queue, (source, target) = device.queue(False), (device.alloc_pool(COPIED_BYTES) for _ in range(2))
    best = 0.0
    for _ in range(5):
        queue.synchronize()
        start = perf_counter()
        for _ in range(COPIES):
            queue.copy(Location(source, 0), Location(target, 0), COPIED_BYTES)
        queue.synchronize()
        best = max(best, 2 * COPIES * COPIED_BYTES / (perf_counter() - start))
    return f"{device.name}, {device.target}, {device.memory_bytes >> 30} GiB", best


def run(system: str, workload: str, seconds: float, size: str) -> dict[str, Any]:
    folder = Path(__file__).parent
    path = os.pathsep.join([str(folder), *(p for p in sys.path if p)])
    command = [sys.executable, "-m", "on_gpu.worker", system, workload, str(seconds), size]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True)
    try:
        cell: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return {"error": f"the process ended with status {done.returncode}"}
    return cell


def worst(results: dict[str, Any], reference: dict[str, Any]) -> float | None:
    """How far the results of two systems are apart."""
    pairs = list(zip(results.get("values", ()), reference.get("values", ()), strict=False))
    scale = max((abs(b) for _, b in pairs), default=0.0)
    return max(abs(a - b) for a, b in pairs) / scale if scale else None


def cell(result: dict[str, Any] | None, rates: dict[str, float]) -> str:
    """A rate, in brackets the part of what the card does at best."""
    if result is None:
        return ""
    if "error" in result:
        return "failed"
    call_s = result["call_s"]
    if result["trains"]:
        text, unit = f"{1 / call_s:.1f} steps/s", "flops"
    elif "flops" in result:
        text, unit = f"{result['flops'] / call_s / 1e12:.1f} TF/s", "flops"
    else:
        text, unit = f"{result['bytes'] / call_s / 1e9:.0f} GB/s", "bytes"
    part = result[unit] / call_s / rates[unit] if unit in rates else None
    return text if part is None else f"{text} ({part:.0%})"


def table(results: Results, systems: list[str], rates: dict[str, float]) -> str:
    rows = [["", *systems, "ocannl / torch_compile", "apart"]]
    for name, by_system in results.items():
        ours, peer = by_system.get("ocannl", {}), by_system.get("torch_compile", {})
        ratio = f"{peer['call_s'] / ours['call_s']:.2f}" if "call_s" in ours and "call_s" in peer else ""
        apart = worst(ours, by_system.get("torch_eager") or by_system.get("jax") or {})
        deviation = "" if apart is None else f"{apart:.0e}"
        rows.append([name, *(cell(by_system.get(system), rates) for system in systems), ratio, deviation])
    rows.insert(1, ["---"] * len(rows[0]))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", nargs="*", default=["*"])
    parser.add_argument("--system", nargs="*", default=list(SYSTEMS), choices=SYSTEMS)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    wrong = obstacle()
    if wrong and not arguments.small:
        print(f"not measured: {wrong}")
        return 0
    systems = [system for system in arguments.system if find_spec(NEEDS.get(system, "ocannl"))]
    absent = sorted(set(arguments.system) - set(systems))
    rates: dict[str, float] = {}
    if not wrong:
        card, rates["bytes"] = copied_bytes_per_s()
        print(f"{card}; copies {rates['bytes'] / 1e9:.0f} GB/s")
    size = "small" if arguments.small else "full"
    names = [name for name in WORKLOADS if any(fnmatch(name, pattern) for pattern in arguments.workload)]
    best = [run(system, "product_8192", arguments.seconds, size) for system in systems if system in NEEDS]
    speeds = [result["flops"] / result["call_s"] for result in best if "call_s" in result]
    if speeds:
        rates["flops"] = max(speeds)
        print(f"products in bfloat16 by a library: {rates['flops'] / 1e12:.1f} TF/s")
    else:
        print("products by a library: not measured")
    results: Results = {}
    for name in names:
        results[name] = {system: run(system, name, arguments.seconds, size) for system in systems}
        for system, result in results[name].items():
            text = result.get("error") or f"{cell(result, rates)}, first {result['first_s']:.1f} s, {result['version']}"
            print(f"{name} {system}: {text}", flush=True)
    print(f"\n{table(results, systems, rates)}")
    if absent:
        print(f"\nnot installed: {', '.join(absent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
