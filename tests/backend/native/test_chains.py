"""Random parallel programs of many small statements on larger arrays: results are exact."""

from random import Random

import numpy as np
import pytest
from loop_programs.random_chains import chain

from ocannl.ir.loops import MemorySpace
from ocannl.ir.printer import print_proc
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt.memory.allocate_memory import allocate_memory
from ocannl.opt.parallel.insert_polls import insert_polls
from ocannl.opt.parallel.parallelize import parallelize
from ocannl.opt.pipeline import optimize
from ocannl.testing.evaluate import evaluate

BATCH = 8
LATE = frozenset({"parallelize", "insert_polls", "allocate_memory"})
SHAPES = ((40,), (17, 33), (64, 64), (5, 40), (130,), (3, 7, 19), (0,), (4, 0), (1, 50), (50, 1), (2, 3, 4, 5))


@pytest.mark.sample(covering=("seed", "native"))
@pytest.mark.parametrize("seed", range(8))
def test_compiled_chains_are_exact(native, run, seed):
    random = Random(f"chains {seed}")
    cases = []
    for n in range(BATCH):
        sample = chain(random, 14, SHAPES)
        proc = optimize(lower(sample.code, f"p{n}"), sample.requested, native.capabilities, without=LATE)
        proc = insert_polls(parallelize(proc, 1, random.choice((1, 10, 100))), random.choice((1, 20, 1000)))
        proc = allocate_memory(proc, native.capabilities.alignment_bytes)
        verify(proc, "placed", alignment_bytes=native.capabilities.alignment_bytes)
        cases.append((sample, proc))
    code = native.compile([proc for _, proc in cases])
    for sample, proc in cases:
        nodes = [buf.node for buf in proc.bufs if buf.space is MemorySpace.GLOBAL]
        expected = evaluate(sample.code, sample.arrays, {}, {})
        arrays = run(proc, *(sample.arrays[node] for node in nodes), code=code)
        for node, array in zip(nodes, arrays, strict=True):
            want = expected.get(node, sample.arrays[node])
            np.testing.assert_array_equal(array, want, f"{seed}, {proc.name}\n{print_proc(proc)}")
