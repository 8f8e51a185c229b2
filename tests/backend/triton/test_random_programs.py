"""Random programs in the interpreter, with exact results."""

from random import Random

import numpy as np
import pytest
from loop_programs.random_chains import chain
from loop_programs.random_groups import group

from ocannl.ir.interpret import interpret
from ocannl.ir.loops import MemorySpace
from ocannl.ir.printer import print_proc
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize
from ocannl.testing.evaluate import evaluate
from ocannl_backend_triton.types import TRITON_TYPES

BATCH = 8
SHAPES = ((40,), (17, 33), (64, 64), (5, 40), (130,), (3, 7, 19), (0,), (4, 0), (1, 50), (50, 1), (2, 3, 4, 5))


@pytest.mark.parametrize("seed", range(8))
def test_chains(triton, run, seed):
    random = Random(f"chains {seed}")
    cases = []
    for n in range(BATCH):
        program = chain(random, 14, SHAPES)
        cases.append((program, optimize(lower(program.code, f"p{n}"), program.requested, triton.capabilities)))
    code = triton.compile([proc for _, proc in cases])
    for program, proc in cases:
        nodes = [buf.node for buf in proc.bufs if buf.space is MemorySpace.GLOBAL]
        expected = evaluate(program.code, program.arrays, {}, {})
        actual = run(proc, *(program.arrays[node] for node in nodes), code=code)
        for node, array in zip(nodes, actual, strict=True):
            expected_array = expected.get(node, program.arrays[node])
            np.testing.assert_array_equal(array, expected_array, f"{seed}, {proc.name}\n{print_proc(proc)}")


@pytest.mark.parametrize("seed", [*range(40), 503, 1512])
def test_groups(triton, run, seed):
    program = group(Random(f"groups {seed}"))
    proc = program.proc(program.group.stmt())
    if not {buf.precision for buf in proc.bufs} <= TRITON_TYPES.keys():
        pytest.skip("unsupported precision")
    expected = interpret(proc, program.arrays)
    actual = run(proc, *(program.arrays[buf.node] for buf in proc.bufs))
    for buf, array in zip(proc.bufs, actual, strict=True):
        np.testing.assert_array_equal(array, expected[buf.node], print_proc(proc))
