"""Operations composed of others: the results of NumPy, for every operation and type, and for whole programs."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc
from ocannl.ir.affine import Cond
from ocannl.ir.capabilities import ALL_OPERATIONS, Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import AccessMode, Apply, Const, Store, Update, When, loop
from ocannl.ir.ops import BY_NAME, OPS
from ocannl.ir.precision import float32
from ocannl.ir.verify import verify
from ocannl.ir.walk import walk
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize
from ocannl.opt.simplify.compose_operations import COMPOSITIONS, compose_operations
from ocannl.testing.kit.cases import A, case, cell, elementwise, load, pool, sym
from ocannl.testing.kit.numbers import agree, agree_fused, allowed, numpy_result, operand_values
from ocannl.testing.kit.operations import APPLIED

FEWEST = Capabilities(wants_schedule=False, operations=ALL_OPERATIONS - COMPOSITIONS.keys())
COMPOSED = [(op, p) for op, p in APPLIED if op.name in COMPOSITIONS]
SEVERAL_ROUNDINGS = {"recip_sqrt": 1, "log2": 1}  # more units in the last place than one operation


def operations(proc):
    return {node.op.name for node in walk(proc.body) if isinstance(node, Apply | Update)}


def test_operations_that_programs_accumulate_with_are_required():
    assert not COMPOSITIONS.keys() & {op.name for op in OPS if op.monoid}


@pytest.mark.parametrize(("op", "p"), COMPOSED, ids=[f"{op}-{p}" for op, p in COMPOSED])
def test_a_composition_has_the_result_of_numpy(op, p):
    inputs = operand_values(op, p)
    if op.arity == 9:
        inputs = [column[:40] for column in inputs]
    want = numpy_result(op, p, *inputs)
    example = elementwise("composed", inputs, want, lambda *x: Apply(op, x))
    proc = compose_operations(example.proc, FEWEST)
    verify(proc, "optimized")
    assert not operations(proc) & COMPOSITIONS.keys()
    got = list(interpret(proc, {b.node: a for b, a in zip(proc.bufs, example.inputs, strict=True)}, {}).values())[-1]
    if op.name == "fma" and p.is_float:
        agree_fused("fma", p, got.reshape(-1), inputs)
    else:
        agree(str(op), got, want, inputs, allowed(op, p) + (SEVERAL_ROUNDINGS.get(op.name, 0) if p.is_float else 0))


@pytest.mark.parametrize("name", ["neg", "abs"])
def test_signs_of_zeros(name):
    zeros = np.array([0.0, -0.0], np.float32)
    example = elementwise("zeros", [zeros], zeros, lambda x: Apply(BY_NAME[name], (x,)))
    proc = compose_operations(example.proc, FEWEST)
    (x, y) = proc.bufs
    got = interpret(proc, {x.node: zeros, y.node: np.ones_like(zeros)}, {})[y.node]
    assert np.signbit(got).tolist() == [name == "neg", False]


def test_loads_of_guarded_values_stay_guarded():
    """`y[i] = abs(x[i])` where `x` has this cell, else -1."""
    a = np.array([-3, 2, -1], np.float32)
    x, y, i = pool("x", a, AccessMode.IN), pool("y", np.zeros(5, np.float32), AccessMode.OUT), sym("i", 5)
    value = When(Cond((A(2) - A(i),)), Apply(BY_NAME["abs"], (load(x, i),)), Const(-1, float32))
    example = case("guarded", [(x, a), (y, np.zeros(5, np.float32))], (loop(i, (Store(cell(y, i), value),)),))
    proc = compose_operations(example.proc, FEWEST)
    verify(proc, "optimized")
    assert interpret(proc, {x.node: a, y.node: np.zeros(5, np.float32)}, {})[y.node].tolist() == [3, 2, 1, -1, -1]


@pytest.mark.parametrize("is_scheduled", [True, False])
def test_the_pipeline_leaves_claimed_operations_only(is_scheduled):
    x = oc.tensor(np.linspace(-2, 2, 30, dtype=np.float32).reshape(5, 6), batch_axes=1)
    code = (oc.dropout(oc.relu(x), 0.25) - abs(x)).sum().forward.elaborate().comp
    target = Capabilities(wants_schedule=is_scheduled, vector_bytes=32 * is_scheduled, operations=FEWEST.operations)
    complete = optimize(lower(code, "it"), {}, Capabilities(wants_schedule=False))
    reduced = optimize(lower(code, "it"), {}, target)
    assert operations(complete) & COMPOSITIONS.keys() and not operations(reduced) & COMPOSITIONS.keys()
