"""Runs random programs and the workloads of the benchmarks on arrays beside memory that must not be accessed.

    python guarded_memory.py BACKEND after|before|poisoned|threads COUNT FIRST
    python guarded_memory.py BACKEND after|before|poisoned|threads defect N

The second form runs a program that accesses the Nth element beyond its array, or the same element by all threads, which
must end the process.

`after` places each array directly before a page without access, `before` directly after one. Arrays that end at a page
are aligned to their elements only, which is less than the claim of the backends, and detects any access beyond the end.
`poisoned` marks the bytes around each array for AddressSanitizer, which must be loaded. `threads` leaves arrays in
place and shares all loops among threads, for ThreadSanitizer. The arrays of an arena are one block of memory.
"""

from __future__ import annotations

import ctypes
import json
import math
import mmap
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
from compare.adapter import Run
from compare.workloads import big_sum, chain, decoder, einsum, gemm, lenet, moons, perceptron, rows
from loop_programs.program_runner import Runner
from loop_programs.random_procs import divided, global_bufs, initial_arrays, lowered, optimized

import ocannl as oc
from ocannl.backend.cpu import device, queue
from ocannl.backend.cpu.host_slab import HostSlab
from ocannl.backend.registry import open_backend
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import AccessMode, Load, Proc, Ref, Store, Update, loop
from ocannl.ir.ops import ADD
from ocannl.runtime.device_arrays import Arrays, Resident
from ocannl.testing.random_programs import difference, generate

PAGE = mmap.PAGESIZE
MARGIN = 64
UNCACHED_BYTES = 4096  # NumPy keeps the memory of smaller arrays, and with it the marks
BATCH = 6
CALLS_OF_THREADS = 10  # the first ends before sleeping threads have woken up
SMALL_DECODER = {"L": 1, "D": 12, "H": 3, "T": 9, "B": 2, "V": 11}
WORKLOADS = {
    "gemm": lambda: gemm(37, 29, 51),
    "large gemm": lambda: gemm(130, 131, 133),
    "perceptron": lambda: perceptron(14, (31, 19, 7)),
    "moons": lambda: moons(7),
    "lenet": lambda: lenet(2),
    "decoder": lambda: decoder(SMALL_DECODER),
    "chain": lambda: chain(cells=4099),
    "chain in place": lambda: chain("chain_inplace", cells=4099),
    "layer norm": lambda: rows("layernorm", 7, (13, 37)),
    "softmax": lambda: rows("softmax", 8, (13, 37)),
    "sum": lambda: big_sum(70001),
    "einsum": lambda: einsum("ibjck,cjlb->bkli", (3, 4, 5, 2, 7), (2, 5, 9, 4)),
    "batched product": lambda: einsum("bhqd,bhkd->bhqk", (2, 3, 21, 9), (2, 3, 17, 9)),
}


# --------------------------------------------------------------------------------------------------------- allocation


def between_pages(at_end: bool) -> Callable[[int], HostSlab]:
    """Slabs in pages of their own, with a page without access on each side."""
    protect = ctypes.CDLL(None, use_errno=True).mprotect

    def allocate(size_bytes: int) -> HostSlab:
        inside = -(-max(size_bytes, 1) // PAGE) * PAGE
        pages = np.frombuffer(mmap.mmap(-1, inside + 2 * PAGE), np.uint8)
        for start in (0, PAGE + inside):
            if protect(ctypes.c_void_p(pages.ctypes.data + start), ctypes.c_size_t(PAGE), 0):
                raise OSError(ctypes.get_errno(), "mprotect failed")
        first = PAGE + (inside - size_bytes if at_end else 0)
        return HostSlab(pages[first : first + size_bytes], pages.ctypes.data + first)

    return allocate


def poisoned(size_bytes: int) -> HostSlab:
    """A slab between bytes that AddressSanitizer reports when instrumented code accesses them."""
    raw = np.empty(max(size_bytes + 3 * MARGIN, UNCACHED_BYTES), np.uint8)
    start = MARGIN + -raw.ctypes.data % MARGIN
    poison = ctypes.CDLL(None).__asan_poison_memory_region
    for first, last in ((0, start), (start + size_bytes, raw.size)):
        poison(ctypes.c_void_p(raw.ctypes.data + first), ctypes.c_size_t(last - first))
    return HostSlab(raw[start : start + size_bytes], raw.ctypes.data + start)


def allocate_separately(arrays: Arrays, nodes: list[Any]) -> list[Resident]:
    """Replaces the allocation of contexts: each array is a slab of exactly its size."""
    slabs = [arrays.slab(math.prod(node.dims, start=node.precision.nbytes)) for node in nodes]
    return [Resident(slab, slab.at(0)) for slab in slabs]


ALLOCATORS = {"after": between_pages(True), "before": between_pages(False), "poisoned": poisoned}


# ------------------------------------------------------------------------------------------------------------ programs


def run_random(seed: int, runner: Runner, is_parallel: bool) -> None:
    random = Random(f"guarded {seed}")
    programs = [generate(random, random.randint(1, 5)) for _ in range(BATCH)]
    ways = [divided] if is_parallel else [lowered, optimized, divided]
    procs = [random.choice(ways)(program, f"p{n}", random, runner.backend) for n, program in enumerate(programs)]
    code = runner.backend.compile(procs)
    for program, proc in zip(programs, procs, strict=True):
        want = interpret(proc, program.arrays, program.symbols, program.merged)
        pools, arrays = global_bufs(proc), initial_arrays(program, proc)
        for _ in range(CALLS_OF_THREADS if is_parallel else 1):
            results = runner(proc, *arrays, syms=[program.symbols[s] for s in proc.syms], code=code)
        got = {
            buf.node: array.reshape(buf.node.dims)
            for buf, array in zip(pools, results, strict=True)
            if buf.node is not None and buf.access is not AccessMode.MERGE
        }
        tolerance = {node: program.tolerance.get(node, 0.0) for node in want}
        if wrong := difference(want, got, tolerance):
            raise AssertionError(f"seed {seed}: {wrong}")


def run_workload(name: str, backend: str) -> None:
    run = Run(backend, WORKLOADS[name]())
    for _ in range(2):
        run.call()
    run.sync()
    value = run.value()
    for array in value if isinstance(value, tuple | list) else [value]:
        assert np.isfinite(array).all(), name


def run_defect(runner: Runner, mode: str, distance: int) -> None:
    """Reads beyond an array of 5 elements, or updates a cell from all threads."""
    i = Sym("i", 0, 99_999)
    x, y = np.zeros(5, np.float32), np.zeros(100_000, np.float32)
    source, target = runner.like("x", x, AccessMode.IN), runner.like("y", y, AccessMode.INOUT)
    if mode == "threads":
        update = Update(Ref(target, (Affine.of(0),)), ADD, Load(Ref(source, (Affine.of(0),))))
        body = replace(loop(i, (update,)), parallel_chunk=1)
    else:
        element = -distance if mode == "before" else 4 + distance
        body = loop(i, (Store(Ref(target, (Affine.of(i),)), Load(Ref(source, (Affine.of(element),)))),))
    proc = Proc("defect", (source, target), (), (body,))
    code = runner.backend.compile([proc])
    for _ in range(2 * CALLS_OF_THREADS):
        runner(proc, x, y, code=code)


def main(backend_name: str, mode: str, count_text: str, first: int) -> None:
    os.environ.pop("LD_PRELOAD", None)  # of sanitizers, which are loaded by now: compilers need none
    if mode in ALLOCATORS:
        device.aligned_slab = queue.aligned_slab = ALLOCATORS[mode]
        Arrays._allocate_slab = allocate_separately  # type: ignore[method-assign]
    is_parallel = mode == "threads"
    with oc.settings(cache=False, on_defect="raise", threads=3):
        runner = Runner(open_backend(backend_name), threads=3)
        if count_text == "defect":
            run_defect(runner, mode, first)
            return
        count = int(count_text)
        for seed in range(first, first + count):
            print("random programs of seed", seed, flush=True)
            run_random(seed, runner, is_parallel)
        names = sorted(WORKLOADS)
        chosen = [names[(first + n) % len(names)] for n in range(min(count, len(names)))]
        for name in chosen:
            print("workload", name, flush=True)
            run_workload(name, backend_name)
    print(json.dumps({"programs": count * BATCH, "workloads": len(chosen)}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
