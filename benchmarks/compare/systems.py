"""The systems that are compared: an adapter each, ours beside this file, those of the peers in a folder of their own.

An adapter is a file. Above its line `# ---` it says, without importing what it adapts, `IMPORT`, the statement that
does, and perhaps `ENV(threads)`, variables of the environment; below it `version()` and `build(workload)`, which gives
an object with `call`, one step, `sync`, waits for all steps, and `value`, the loss or the results of the latest.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

OURS = Path(__file__).parent / "ours"
PEERS = Path(__file__).parents[3] / "shared" / "bench"
"""Beside the checkout; holds the package `bench` with the folder `systems`."""

STANDARD = (
    "ocannl_llvm", "ocannl_c", "numpy_hand", "torch_eager", "torch_compile", "jax", "tinygrad_llvm", "tinygrad_clang",
)  # fmt: skip
HEAD_ENDS = "# ---"


@dataclass(frozen=True, slots=True)
class System:
    name: str
    path: Path
    head: dict[str, Any]

    @property
    def module(self) -> str:
        return f"compare.ours.{self.name}" if self.path.parent == OURS else f"bench.systems.{self.name}"

    def environment(self, threads: int, cache: Path) -> dict[str, str]:
        """What its process is told: how many threads, and where each library keeps what it has compiled."""
        count = str(threads)
        libraries = {f"{name}_NUM_THREADS": count for name in ("OMP", "MKL", "OPENBLAS")}
        caches = {
            "OCANNL_CACHE_DIR": "ocannl", "TORCHINDUCTOR_CACHE_DIR": "inductor", "JAX_COMPILATION_CACHE_DIR": "jax",
            "XDG_CACHE_HOME": "xdg", "CACHEDB": "tiny.db",
        }  # fmt: skip
        limits = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
        where = {variable: str(cache / name) for variable, name in caches.items()}
        declared = self.head["ENV"](threads) if "ENV" in self.head else {}
        return {"BENCH_THREADS": count, **libraries, **where, **limits, **declared}

    def load(self) -> ModuleType:
        return importlib.import_module(self.module)


def systems(folder: Path = PEERS) -> dict[str, System]:
    """All adapters there are, by name."""
    return {system.name: system for system in (*_read(OURS, folder), *_read(folder / "bench" / "systems", folder))}


def _read(folder: Path, home: Path) -> Iterator[System]:
    for path in sorted(folder.glob("[!_]*.py")):
        text = path.read_text(encoding="utf-8")
        if f"\n{HEAD_ENDS}" in text:  # what several adapters share has none
            head: dict[str, Any] = {"ROOT": str(home)}
            exec(text.partition(f"\n{HEAD_ENDS}")[0], head)
            yield System(path.stem, path, head)


def python_path(folder: Path = PEERS) -> list[str]:
    """Where a process finds the adapters."""
    return [str(Path(__file__).parents[1]), str(folder), *(p for p in sys.path if p)]
