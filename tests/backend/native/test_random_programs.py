"""Random programs, lowered and optimized: compiled code equals the interpreter, up to the programs' tolerances."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from ocannl.ir.interpret import interpret
from ocannl.ir.loops import AccessMode, MemorySpace
from ocannl.lower.lower import lower
from ocannl.opt.memory.allocate_memory import allocate_memory
from ocannl.opt.parallel.insert_polls import insert_polls
from ocannl.opt.parallel.parallelize import parallelize
from ocannl.opt.pipeline import optimize
from ocannl.testing.random_programs import difference, generate

BATCH = 12


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


def at_widths(vector_bytes, vector_registers):
    """Schedules for given vector registers, independently of this machine."""

    def make(program, name, random, native):
        capabilities = replace(native.capabilities, vector_bytes=vector_bytes, vector_registers=vector_registers)
        return optimize(lower(program.code, name), {}, capabilities)

    make.__name__ = f"for_{vector_registers}_of_{vector_bytes}_bytes"
    return make


MAKERS = [lowered, optimized, divided]
WIDTHS = [at_widths(0, 16), at_widths(16, 16), at_widths(16, 32), at_widths(32, 16)]
CASES = [(make, seed) for make in MAKERS for seed in range(25)] + [(make, seed) for make in WIDTHS for seed in range(5)]


@pytest.mark.sample(covering=("seed", "make native"))
@pytest.mark.parametrize(("make", "seed"), CASES, ids=[f"{seed}-{make.__name__}" for make, seed in CASES])
def test_compiled_programs_agree_with_the_interpreter(native, run, make, seed):
    random = Random(f"native {make.__name__} {seed}")
    programs = [generate(random, random.randint(1, 5)) for _ in range(BATCH)]
    procs = [make(program, f"p{n}", random, native) for n, program in enumerate(programs)]
    code = native.compile(procs)  # in one batch, so that helpers are shared
    for program, proc in zip(programs, procs, strict=True):
        want = interpret(proc, program.arrays, program.symbols, program.merged)
        pools = [buf for buf in proc.bufs if buf.space is MemorySpace.GLOBAL]
        inputs = [(program.merged if buf.access is AccessMode.MERGE else program.arrays).get(buf.node) for buf in pools]
        arrays = [
            np.full(buf.nbytes, 0xFF, np.uint8).view(buf.precision.numpy) if array is None else array
            for array, buf in zip(inputs, pools, strict=True)
        ]
        results = run(proc, *arrays, syms=[program.symbols[s] for s in proc.syms], code=code)
        got = {
            buf.node: array.reshape(buf.node.dims)
            for buf, array in zip(pools, results, strict=True)
            if buf.access is not AccessMode.MERGE
        }
        tolerance = {node: program.tolerance.get(node, 0.0) for node in want}
        assert want.keys() == got.keys()
        assert not (message := difference(want, got, tolerance)), f"{make.__name__} {seed}, {proc.name}: {message}"
