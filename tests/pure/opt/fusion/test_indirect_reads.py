"""Values that gathers compute, and scatters that become comparisons."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.ir.assign import nodes
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import BindIndex, Proc, Update
from ocannl.ir.printer import print_proc
from ocannl.ir.verify import verify
from ocannl.ir.walk import walk
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize

IDS = np.array([3, 0, 7, -1, 2], np.int32)  # of four classes: two are outside


def param(label: str, *dims: int, batch: int = 0) -> oc.Tensor:
    array = np.random.default_rng(len(label)).normal(size=dims).astype("float32")
    return oc.param(label, array, batch=list(dims[:batch]), output=list(dims[batch:]))


def ids(array: Any = IDS, label: str = "ids") -> oc.Tensor:
    return oc.placeholder(label, batch=list(np.shape(array)), dtype=oc.int32)


def optimized(code: oc.Code, kept: list[oc.Tensor], values: dict[oc.Tensor, Any]) -> Proc:
    """The optimized program, whose results are compared with those of the program before."""
    comp = code.elaborate().comp
    lowered = lower(comp, "step")
    final = optimize(lowered, {t.node: "kept" for t in kept}, Capabilities(), lambda name, proc: verify(
        proc, "placed" if name == "allocate_memory" else "optimized"
    ))  # fmt: skip
    by_node = {t.node: array for t, array in values.items()}
    arrays = {
        n: by_node[n] if n in by_node else n.contents.array(n.dims, n.precision, 42)
        for n in nodes(comp) if n in by_node or n.contents is not None
    }  # fmt: skip
    wanted, got = interpret(lowered, dict(arrays)), interpret(final, dict(arrays))
    for t in kept:
        np.testing.assert_allclose(got[t.node], wanted[t.node], rtol=1e-5, atol=1e-6)
    return final


def test_cross_entropy_keeps_no_array_of_log_probabilities() -> None:
    x, t = param("x", 5, 4, batch=1), ids()
    loss = oc.cross_entropy(x, t).mean()
    final = optimized(train.grad_update(loss), [loss, x.grad], {t: IDS})
    assert {buf.name for buf in final.bufs if buf.shape == (5, 4)} == {"x", "exp", "x_grad"}
    picks = [node for node in walk(final.body) if isinstance(node, BindIndex)]
    assert len(picks) == 2  # the log-probability of the class, and the sum of its gradients
    assert "where(f32(ids[b0_27] == o0_10), pick_grad[b0_27], 0)" in print_proc(final)


def test_a_gradient_of_chosen_cells_is_a_comparison() -> None:
    x, t = param("x", 5, 4, batch=1), ids()
    loss = (oc.pick(x, t) * param("w", 5, batch=1)).sum()
    final = optimized(train.grad_update(loss), [x.grad], {t: IDS})
    assert not any(isinstance(node, Update) and node.ref.buf.name == "x_grad" for node in walk(final.body))


def test_ids_of_a_narrow_type() -> None:
    x, t = param("x", 3, 200, batch=1), oc.placeholder("ids", batch=[3], dtype=oc.int8)
    loss = oc.cross_entropy(x, t).sum()
    optimized(train.grad_update(loss), [loss, x.grad], {t: np.array([-56, 127, 3], np.int8)})  # -56 is 200 - 256


def test_rows_that_several_ids_choose_remain_sums() -> None:
    table, t = param("table", 4, 3), ids()
    loss = (table.take(t) * param("w", 5, 3, batch=1)).sum()
    final = optimized(train.grad_update(loss), [table.grad], {t: np.array([1, 1, 3, 9, 1], np.int32)})
    assert any(isinstance(node, Update) and node.ref.buf.name == "table_grad" for node in walk(final.body))


def test_gathers_compute_the_cells_that_they_read() -> None:
    table, t = param("table", 200, 3), ids()
    y = oc.tanh(table).take(t)
    final = optimized(y.forward, [y], {t: IDS})
    assert not any(buf.shape == (200, 3) for buf in final.bufs if buf.name != "table")


def test_costly_values_that_are_read_often_are_stored() -> None:
    table, t = param("table", 4, 3), ids()
    y = oc.tanh(table).take(t)
    final = optimized(y.forward, [y], {t: IDS})
    assert any(buf.shape == (4, 3) for buf in final.bufs if buf.name != "table")


def test_arrays_that_indices_are_loaded_from_are_stored() -> None:
    a, b = ids(label="a"), ids(label="b")
    x = param("x", 5, 40, batch=1)
    y = oc.pick(x * 2, a * b + 1)
    optimized(y.forward, [y], {a: IDS, b: np.array([2, 1, 1, 0, 9], np.int32)})


@pytest.mark.parametrize("seed", range(60))
def test_gathers_and_scatters_at_random(seed: int) -> None:
    random, rng = Random(seed), np.random.default_rng(seed)
    batch, classes = random.choice([1, 2, 5]), random.choice([1, 3, 40])
    x, w = param("xs", batch, classes, batch=1), param("weights", batch, classes, batch=1)
    values: dict[oc.Tensor, Any] = {}
    y: oc.Tensor = x * w
    for step in range(random.randrange(1, 4)):
        match random.randrange(4):
            case 0: y = oc.tanh(y) * w
            case 1: y = y + w
            case 2: y = oc.log_softmax(y)
            case _: y = 2 * y - x
        if random.random() < 0.4:
            t = ids(np.zeros(batch), f"ids{step}")
            values[t] = rng.integers(-1, classes + 1, batch).astype("int32")
            y = y + oc.pick(y, t)
    t = ids(np.zeros(batch), "last")
    values[t] = rng.integers(-1, classes + 1, batch).astype("int32")
    loss = (oc.cross_entropy(y, t) if random.random() < 0.5 else oc.pick(y, t) * 3).sum()
    optimized(train.grad_update(loss), [loss, x.grad, w.grad], values)
