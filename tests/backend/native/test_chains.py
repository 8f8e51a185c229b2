"""Random programs of many small statements, on larger arrays, divided among threads: results are exact."""

from random import Random

import numpy as np
import pytest

from ocannl.ir.loops import Home
from ocannl.ir.text import print_proc
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt.memory import memory
from ocannl.opt.pipeline import optimize
from ocannl.opt.poll import poll
from ocannl.opt.share import share
from ocannl.testing.chains import chain
from ocannl.testing.evaluate import evaluate

BATCH = 8
LATE = frozenset({"share", "poll", "memory"})
SHAPES = ((40,), (17, 33), (64, 64), (5, 40), (130,), (3, 7, 19), (0,), (4, 0), (1, 50), (50, 1), (2, 3, 4, 5))


@pytest.mark.parametrize("seed", range(8))
def test_compiled_chains_are_exact(native, run, seed):
    random = Random(f"chains {seed}")
    cases = []
    for n in range(BATCH):
        made = chain(random, 14, SHAPES)
        proc = optimize(lower(made.code, f"p{n}"), made.asked, native.capabilities, without=LATE)
        proc = poll(share(proc, 1, random.choice((1, 10, 100))), random.choice((1, 20, 1000)))
        proc = memory(proc, native.capabilities.alignment_bytes)
        verify(proc, "placed", alignment_bytes=native.capabilities.alignment_bytes)
        cases.append((made, proc))
    code = native.compile([proc for _, proc in cases])
    for made, proc in cases:
        nodes = [buf.node for buf in proc.bufs if buf.home is Home.POOL]
        wanted = evaluate(made.code, made.arrays, {}, {})
        after = run(proc, *(made.arrays[node] for node in nodes), code=code)
        for node, array in zip(nodes, after, strict=True):
            want = wanted.get(node, made.arrays[node])
            np.testing.assert_array_equal(array, want, f"{seed}, {proc.name}\n{print_proc(proc)}")
