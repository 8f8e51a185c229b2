"""Split reductions, for threads and for the programs of a grid."""

import numpy as np
import pytest

import ocannl as oc
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.printer import print_proc
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt import machine_model as machine
from ocannl.opt.pipeline import optimize

GRID = Capabilities(wants_schedule=False, wants_fusion_groups=True, grid_threads=1 << 12)
VECTORS = Capabilities(vector_bytes=16)


def computed(tensor, *given, target=GRID):
    stages = {}
    proc = optimize(lower(tensor.forward.elaborate().comp, "step"), {tensor.node: "kept"}, target, stages.__setitem__)
    verify(proc, "placed", alignment_bytes=target.alignment_bytes)
    arrays = {t.node: t.numpy(oc.Context("numpy")) for t in given}
    return stages["split_reductions"], interpret(proc, arrays)[tensor.node]


@pytest.mark.parametrize(("rows", "columns", "parts"), [
    (2047, 3, 1), (2048, 3, 2), (2049, 3, 2), (5000, 3, 4), (5003, 2, 4), (2048, 33, 1), (4096, 16, 4),
])  # fmt: skip
def test_columns(rows, columns, parts):
    """A program takes 64 terms of a column at a time, and at least 16 times."""
    x = oc.tensor(np.random.default_rng(0).integers(-9, 9, (rows, columns)).astype(np.float32))
    y = x.sum("ij => j")
    proc, got = computed(y, x)
    assert ([buf.shape[0] for buf in proc.bufs if "part" in buf.name] or [1]) == [parts], print_proc(proc)
    np.testing.assert_array_equal(got, x.numpy(oc.Context("numpy")).sum(0))


def test_rows():
    """2048 terms at a time, whatever they are folded with."""
    x = oc.tensor(np.random.default_rng(0).integers(-9, 9, 70_001).astype(np.float32))
    for y in (x.sum("i => 0"), x.max("i => 0")):
        proc, got = computed(y, x)
        assert [buf.shape for buf in proc.bufs if "part" in buf.name] == [(2,)], print_proc(proc)
        np.testing.assert_array_equal(got, y.numpy(oc.Context("numpy")))


@pytest.mark.parametrize(("spec", "parts"), [
    ("ki; kj => ij", 8),  # the gradient of a weight
    ("ik; kj => ij", 0),  # threads that share the columns read a part of one operand
    ("ik; jk => ij", 0),
])  # fmt: skip
def test_products_whose_operands_the_summed_axis_divides(spec, parts, monkeypatch):
    monkeypatch.setattr(machine, "MIN_PARALLEL_OPS", 1000)
    monkeypatch.setattr(machine, "MIN_SPLIT_OPERAND_BYTES", 1000)
    random, sizes = np.random.default_rng(0), {"i": 4, "j": 6, "k": 96}
    axes = spec.partition(" =>")[0].split("; ")
    a, b = (oc.tensor(random.integers(-9, 9, [sizes[axis] for axis in names]).astype("f4")) for names in axes)
    proc, got = computed(oc.einsum(spec, a, b), a, b, target=VECTORS)
    assert [buf.shape for buf in proc.bufs if "part" in buf.name] == [(parts, 4, 6)] * bool(parts), print_proc(proc)
    wanted = np.einsum(spec.replace(";", ",").replace("=>", "->"), *(t.numpy(oc.Context("numpy")) for t in (a, b)))
    np.testing.assert_array_equal(got, wanted)


def test_products_with_many_results_are_not_split(monkeypatch):
    """The partial sums of 8 parts would be larger than half of the operands."""
    monkeypatch.setattr(machine, "MIN_PARALLEL_OPS", 1000)
    monkeypatch.setattr(machine, "MIN_SPLIT_OPERAND_BYTES", 1000)
    a, b = (oc.tensor(np.ones((64, 16), np.float32)) for _ in range(2))
    proc, got = computed(oc.einsum("ki; kj => ij", a, b), a, b, target=VECTORS)
    assert not any("part" in buf.name for buf in proc.bufs), print_proc(proc)
    np.testing.assert_array_equal(got, np.full((16, 16), 64))
