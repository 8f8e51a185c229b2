"""Random programs, lowered and optimized: compiled code agrees with the interpreter, to the tolerance they state."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from ocannl.ir.interpret import interpret
from ocannl.ir.loops import Access, Home
from ocannl.lower.lower import lower
from ocannl.opt.memory import memory
from ocannl.opt.pipeline import optimize
from ocannl.opt.poll import poll
from ocannl.opt.share import share
from ocannl.testing.generate import difference, generate

BATCH = 12


def lowered(program, name, random, native):
    return memory(lower(program.code, name), native.capabilities.alignment_bytes)


def optimized(program, name, random, native):
    asked = {node: "a test" for node in program.tolerance if random.random() < 0.4}
    return optimize(lower(program.code, name), asked, native.capabilities)


def divided(program, name, random, native):
    """Threads share what they can, and look for signals everywhere."""
    proc = optimize(lower(program.code, name), {}, native.capabilities, without=frozenset(["share", "poll", "memory"]))
    proc = poll(share(proc, 1, random.choice((1, 10, 100))), random.choice((1, 20, 10**6)))
    return memory(proc, native.capabilities.alignment_bytes)


def at_widths(vector_bytes, vector_registers):
    """Scheduled for such vectors, whatever this machine has."""

    def make(program, name, random, native):
        claimed = replace(native.capabilities, vector_bytes=vector_bytes, vector_registers=vector_registers)
        return optimize(lower(program.code, name), {}, claimed)

    make.__name__ = f"for_{vector_registers}_of_{vector_bytes}_bytes"
    return make


MAKERS = [lowered, optimized, divided]
WIDTHS = [at_widths(0, 16), at_widths(16, 16), at_widths(16, 32), at_widths(32, 16)]
CASES = [(make, seed) for make in MAKERS for seed in range(25)] + [(make, seed) for make in WIDTHS for seed in range(5)]


@pytest.mark.parametrize(("make", "seed"), CASES, ids=[f"{seed}-{make.__name__}" for make, seed in CASES])
def test_compiled_programs_agree_with_the_interpreter(native, run, make, seed):
    random = Random(f"native {make.__name__} {seed}")
    programs = [generate(random, random.randint(1, 5)) for _ in range(BATCH)]
    procs = [make(program, f"p{n}", random, native) for n, program in enumerate(programs)]
    code = native.compile(procs)  # of all at once: they share what helps them
    for program, proc in zip(programs, procs, strict=True):
        want = interpret(proc, program.arrays, program.symbols, program.merged)
        pools = [buf for buf in proc.bufs if buf.home is Home.POOL]
        given = [(program.merged if buf.access is Access.MERGE else program.arrays).get(buf.node) for buf in pools]
        arrays = [
            np.full(buf.nbytes, 0xFF, np.uint8).view(buf.precision.numpy) if array is None else array
            for array, buf in zip(given, pools, strict=True)
        ]
        after = run(proc, *arrays, syms=[program.symbols[s] for s in proc.syms], code=code)
        got = {
            buf.node: array.reshape(buf.node.dims)
            for buf, array in zip(pools, after, strict=True)
            if buf.access is not Access.MERGE
        }
        tolerance = {node: program.tolerance.get(node, 0.0) for node in want}
        assert want.keys() == got.keys()
        assert not (words := difference(want, got, tolerance)), f"{make.__name__} {seed}, {proc.name}: {words}"
