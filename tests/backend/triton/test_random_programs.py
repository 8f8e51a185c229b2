"""Random programs as kernels, interpreted: results are exact."""

from random import Random

import numpy as np
import pytest

from ocannl.ir.interpret import interpret
from ocannl.ir.loops import Home
from ocannl.ir.text import print_proc
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize
from ocannl.testing.chains import chain
from ocannl.testing.evaluate import evaluate
from ocannl.testing.groups import group
from ocannl_backend_triton.types import HELD

BATCH = 8
SHAPES = ((40,), (17, 33), (64, 64), (5, 40), (130,), (3, 7, 19), (0,), (4, 0), (1, 50), (50, 1), (2, 3, 4, 5))


@pytest.mark.parametrize("seed", range(8))
def test_chains(triton, run, seed):
    random = Random(f"chains {seed}")
    cases = []
    for n in range(BATCH):
        made = chain(random, 14, SHAPES)
        cases.append((made, optimize(lower(made.code, f"p{n}"), made.asked, triton.capabilities)))
    code = triton.compile([proc for _, proc in cases])
    for made, proc in cases:
        nodes = [buf.node for buf in proc.bufs if buf.home is Home.POOL]
        wanted = evaluate(made.code, made.arrays, {}, {})
        after = run(proc, *(made.arrays[node] for node in nodes), code=code)
        for node, array in zip(nodes, after, strict=True):
            want = wanted.get(node, made.arrays[node])
            np.testing.assert_array_equal(array, want, f"{seed}, {proc.name}\n{print_proc(proc)}")


@pytest.mark.parametrize("seed", [*range(40), 503, 1512])
def test_groups(triton, run, seed):
    made = group(Random(f"groups {seed}"))
    proc = made.proc(made.group.stmt())
    if not {buf.precision for buf in proc.bufs} <= HELD.keys():
        pytest.skip("a type that the backend does not have")
    wanted = interpret(proc, made.arrays)
    after = run(proc, *(made.arrays[buf.node] for buf in proc.bufs))
    for buf, array in zip(proc.bufs, after, strict=True):
        np.testing.assert_array_equal(array, wanted[buf.node], print_proc(proc))
