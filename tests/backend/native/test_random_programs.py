"""Random programs, lowered and optimized: compiled code equals the interpreter, up to the programs' tolerances."""

from dataclasses import replace
from random import Random

import pytest
from loop_programs.random_procs import divided, global_bufs, initial_arrays, lowered, optimized

from ocannl.ir.interpret import interpret
from ocannl.ir.loops import AccessMode
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize
from ocannl.testing.random_programs import difference, generate

BATCH = 12


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
        pools, arrays = global_bufs(proc), initial_arrays(program, proc)
        results = run(proc, *arrays, syms=[program.symbols[s] for s in proc.syms], code=code)
        got = {
            buf.node: array.reshape(buf.node.dims)
            for buf, array in zip(pools, results, strict=True)
            if buf.node is not None and buf.access is not AccessMode.MERGE
        }
        tolerance = {node: program.tolerance.get(node, 0.0) for node in want}
        assert want.keys() == got.keys()
        assert not (message := difference(want, got, tolerance)), f"{make.__name__} {seed}, {proc.name}: {message}"
