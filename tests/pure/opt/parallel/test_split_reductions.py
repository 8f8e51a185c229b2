"""Sums in parts for the programs of a grid: as many as keep it busy, and the last of them shorter."""

import numpy as np
import pytest

import ocannl as oc
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.printer import print_proc
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize

GRID = Capabilities(wants_schedule=False, wants_fusion_groups=True, grid_threads=1 << 12)


def computed(tensor, given):
    stages = {}
    proc = optimize(lower(tensor.forward.elaborate().comp, "step"), {tensor.node: "kept"}, GRID, stages.__setitem__)
    verify(proc, "placed", alignment_bytes=GRID.alignment_bytes)
    return stages["split_reductions"], interpret(proc, {given.node: given.numpy(oc.Context("numpy"))})[tensor.node]


@pytest.mark.parametrize(("rows", "columns", "many"), [
    (2047, 3, 1), (2048, 3, 2), (2049, 3, 2), (5000, 3, 4), (5003, 2, 4), (2048, 33, 1), (4096, 16, 4),
])  # fmt: skip
def test_columns(rows, columns, many):
    """A program takes 64 terms of a column at a time, and at least 16 times."""
    x = oc.tensor(np.random.default_rng(0).integers(-9, 9, (rows, columns)).astype(np.float32))
    y = x.sum("ij => j")
    proc, got = computed(y, x)
    assert ([buf.shape[0] for buf in proc.bufs if "part" in buf.name] or [1]) == [many], print_proc(proc)
    np.testing.assert_array_equal(got, x.numpy(oc.Context("numpy")).sum(0))


def test_rows():
    """2048 terms at a time, whatever they are folded with."""
    x = oc.tensor(np.random.default_rng(0).integers(-9, 9, 70_001).astype(np.float32))
    for y in (x.sum("i => 0"), x.max("i => 0")):
        proc, got = computed(y, x)
        assert [buf.shape for buf in proc.bufs if "part" in buf.name] == [(2,)], print_proc(proc)
        np.testing.assert_array_equal(got, y.numpy(oc.Context("numpy")))
