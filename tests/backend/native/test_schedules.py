"""However a program is scheduled, compiled code computes the same, bit by bit with 1, 2 and 3 threads and every time.

OCANNL_TEST_SCHEDULES says how many random programs there are, from the seed OCANNL_TEST_FIRST on.
"""

import os
from random import Random

import numpy as np
import pytest

from ocannl.ir.loops import Access, Home
from ocannl.ir.text import print_proc
from ocannl.lower.lower import lower
from ocannl.testing.chains import SHAPES
from ocannl.testing.evaluate import evaluate
from ocannl.testing.generate import difference
from ocannl.testing.runner import Runner
from ocannl.testing.schedules import drawn, sample

BATCH = 20
FIRST, COUNT = int(os.environ.get("OCANNL_TEST_FIRST", "0")), int(os.environ.get("OCANNL_TEST_SCHEDULES", "120"))
LARGER = (*SHAPES, (40,), (17, 33), (64, 64), (5, 40), (130,), (3, 7, 19), (0,), (4, 0), (1, 50), (50, 1))


@pytest.fixture(scope="module")
def runners(native):
    return [Runner(native, threads) for threads in (1, 2, 3, 3)]


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_any_schedule_computes_the_same(native, runners, first):
    cases = []
    for seed in range(first, min(first + BATCH, FIRST + COUNT)):
        random = Random(f"schedules {seed}")
        made, asked = sample(random, LARGER)
        cases.append((seed, made, drawn(random, lower(made.code, f"p{seed}"), asked, native.capabilities)))
    code = native.compile([some.proc for _, _, some in cases])
    for seed, made, some in cases:
        proc = some.proc
        pools = [buf for buf in proc.bufs if buf.home is Home.POOL]
        given = [(made.merged if buf.access is Access.MERGE else made.arrays).get(buf.node) for buf in pools]
        arrays = [
            np.full(buf.nbytes, 0xFF, np.uint8).view(buf.precision.numpy) if array is None else array
            for array, buf in zip(given, pools, strict=True)
        ]
        syms = [made.symbols[sym] for sym in proc.syms]
        results = [run(proc, *arrays, syms=syms, code=code) for run in runners]
        got = {
            buf.node: array.reshape(buf.node.dims)
            for buf, array in zip(pools, results[0], strict=True)
            if buf.access is not Access.MERGE
        }
        wrong = difference(evaluate(made.code, made.arrays, made.symbols, made.merged), got, made.tolerance)
        assert not wrong, f"seed {seed}: {some.words}\n{print_proc(proc)}\n{wrong}"
        for others in results[1:]:
            for buf, one, other in zip(pools, results[0], others, strict=True):
                assert one.tobytes() == other.tobytes(), f"seed {seed}: {some.words}\n{print_proc(proc)}\n{buf}"
