"""Random programs as native code takes them: ways of lowering them, and the arrays of their inputs."""

from __future__ import annotations

import numpy as np

from ocannl.ir.loops import AccessMode, MemorySpace
from ocannl.ir.precomputed import request_buffer
from ocannl.lower.lower import lower
from ocannl.opt.memory.allocate_memory import allocate_memory
from ocannl.opt.parallel.insert_polls import insert_polls
from ocannl.opt.parallel.parallelize import parallelize
from ocannl.opt.pipeline import optimize


def lowered(program, name, random, native):
    return allocate_memory(lower(program.code, name), native.capabilities.alignment_bytes)


def optimized(program, name, random, native):
    kept_nodes = {node: "a test" for node in program.tolerance if random.random() < 0.4}
    return optimize(lower(program.code, name), kept_nodes, native.capabilities)


def divided(program, name, random, native):
    """Parallelizes all eligible loops, with frequent polls."""
    proc = optimize(
        lower(program.code, name),
        {},
        native.capabilities,
        without=frozenset(["parallelize", "insert_polls", "allocate_memory"]),
    )
    proc = insert_polls(parallelize(proc, 1, random.choice((1, 10, 100))), random.choice((1, 20, 10**6)))
    return allocate_memory(proc, native.capabilities.alignment_bytes)


def global_bufs(proc):
    return [buf for buf in proc.bufs if buf.space is MemorySpace.GLOBAL]


def initial_arrays(program, proc):
    """The contents of the global buffers: inputs, and bytes 0xFF where the program writes first. Precomputed arrays are
    requested."""
    request = request_buffer(proc)
    sources = [
        (buf, program.merged if buf.access is AccessMode.MERGE else program.arrays) for buf in global_bufs(proc)
    ]
    return [
        np.ones(1, np.int64) if buf is request
        else np.full(buf.nbytes, 0xFF, np.uint8).view(buf.precision.numpy) if source.get(buf.node) is None
        else source[buf.node]
        for buf, source in sources
    ]  # fmt: skip
