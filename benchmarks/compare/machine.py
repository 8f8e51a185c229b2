"""The machine: what it is, without its name, and what it can do at best."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
VECTORS = ("avx512f", "avx2", "avx", "asimd")  # the widest first
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def described() -> dict[str, Any]:
    return {
        "processor": _processor(), "cores": len(cores()), "caches": _caches(), "memory_gb": _memory_gb(),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}", "python": platform.python_version(),
    }  # fmt: skip


def cores() -> list[int]:
    """Those that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def limits(threads: int) -> dict[str, float]:
    """GF/s of fused multiply-adds, GB/s of `a = b + 3*c` and of a sum; nothing where no C compiler is found."""
    output = _output_of("limits", str(threads))
    rates: dict[str, float] = json.loads(output) if output else {}
    return rates


def crossing_ns() -> float | None:
    """What a cache line takes from one core to another and back, if a C compiler is found."""
    output = _output_of("crossing")
    return float(output) if output else None


def _output_of(program: str, *arguments: str) -> str:
    """What the C program prints that lies beside this file."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return ""
    built = Path(_programs().name) / program
    if not built.exists():
        source = str(FOLDER / f"{program}.c")
        subprocess.run([compiler, "-O3", "-march=native", "-pthread", source, "-o", built], check=True)
    return subprocess.run([built, *arguments], check=True, capture_output=True, text=True).stdout


@cache
def _programs() -> tempfile.TemporaryDirectory[str]:
    """Where they are while this process lives."""
    return tempfile.TemporaryDirectory()


def bound_s(workload: dict[str, Any], limit: dict[str, float]) -> float | None:
    """Seconds that the machine needs at least, if that is known: for arithmetic, or for bytes."""
    if not limit:
        return None
    if "flops" in workload:
        return float(workload["flops"]) / 1e9 / limit["fma_gflops"]
    if "bytes" in workload:
        return float(workload["bytes"]) / 1e9 / limit["sum_gbs" if workload["kind"] == "bigsum" else "triad_gbs"]
    return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts = dict(tuple(part.strip() for part in line.split(":", 1)) for line in lines if ":" in line)
    flags = facts.get("flags", facts.get("Features", "")).split()
    widest = next((flag for flag in VECTORS if flag in flags), "no vectors known")
    return f"{facts.get('model name', platform.machine())}, family {facts.get('cpu family', 'unknown')}, {widest}"


def _caches() -> str:
    levels = []
    for index in sorted(CACHES.glob("index*")):
        level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        if kind != "Instruction":
            levels.append(f"L{level} {size}")
    return ", ".join(levels)


def _memory_gb() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
