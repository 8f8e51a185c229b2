"""Gradients in buckets: parts of the code that computes them, and sums that continue between the parts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.ir.assign import assigns, nodes
from ocannl.ir.slicing import Slicer
from ocannl.train.gradient_buckets import gradient_buckets
from ocannl.train.overlap import Overlap

LAYERS = 3


def network() -> tuple[oc.Tensor, dict[oc.Tensor, np.ndarray]]:
    x, t = oc.placeholder("x", b=[4], o=[8]), oc.placeholder("t", b=[4], o=[2])
    hidden = x
    for number in range(LAYERS):
        hidden = oc.tanh(oc.param(f"w{number}") @ hidden + oc.param(f"b{number}", 0.0, o=[8]))
    loss = ((oc.param("v") @ hidden - t) ** 2).mean().with_label("loss")
    rng = np.random.default_rng(0)
    return loss, {x: rng.normal(size=(4, 8)), t: rng.normal(size=(4, 2))}


def gradients_of(loss: oc.Tensor) -> list[oc.Tensor]:
    return [p.grad for p in loss.params.values()]


def test_gradients_of_last_layers_are_final_first() -> None:
    loss, _ = network()
    oc.Context("numpy").init(loss)
    buckets = gradient_buckets(train.grad_update(loss), gradients_of(loss), 1)
    paths = [[g.node.gradient_of.label for g in bucket.gradients] for bucket in buckets]
    assert paths[0] == ["v"]
    assert [sorted(group)[-1] for group in paths if sorted(group)[-1][0] == "w"] == ["w2", "w1", "w0"]
    (bucket,) = gradient_buckets(train.grad_update(loss), gradients_of(loss), 1 << 20)
    assert len(bucket.gradients) == 2 * LAYERS + 1


@pytest.mark.parametrize("bucket_bytes", [1, 100, 400])
def test_parts_compute_the_gradients_of_the_whole(backend: str, bucket_bytes: int) -> None:
    loss, batch = network()
    single, parts = oc.Context(backend), oc.Context(backend)
    single.init(loss)
    for p in loss.params.values():
        parts[p] = single[p]
    code, gradients = train.grad_update(loss, scale=8.0), gradients_of(loss)
    for ctx in (single, parts):
        for node, value in batch.items():
            ctx[node] = value
    single.compile(code, keep=[loss, *gradients])()
    buckets = gradient_buckets(code, gradients, bucket_bytes)
    assert len(buckets) > 1
    routines = parts.compile_all([bucket.code for bucket in buckets], keep=[loss, *gradients])
    for number, (routine, bucket) in enumerate(zip(routines, buckets, strict=True)):
        routine()
        for gradient in bucket.gradients:
            np.testing.assert_allclose(parts[gradient], single[gradient], rtol=1e-5, atol=1e-6)
            assert all(gradient.node not in later.inputs + later.outputs for later in routines[number + 1 :])
    np.testing.assert_allclose(parts[loss], single[loss], rtol=1e-6)


def test_slices_keep_all_statements_and_their_dependencies() -> None:
    a, b, c = (oc.placeholder(name, o=[2]) for name in "abc")
    with oc.cd("steps") as code:
        a["=:"] = 1.0
        b["=:"] = a
        a["=:"] = 2.0  # after `b` has read the value before
        c["=:"] = 3.0
        c += a
    comp = code.elaborate().comp
    order = [statement.lhs.label for statement in assigns(comp)]
    assert order == ["a", "b", "a", "c", "c"]
    first, second = Slicer(comp).slices([[b.node], [c.node]])
    assert [statement.lhs.label for statement in assigns(first)] == ["a", "b"]
    assert [statement.lhs.label for statement in assigns(second)] == ["a", "c", "c"]
    assert set(nodes(first)) | set(nodes(second)) == {a.node, b.node, c.node}


class Requests:
    """Completions that are done when the test says so."""

    def __init__(self) -> None:
        self.done = 0
        self.log: list[str] = []

    def sum(self, name: str, count: int) -> Iterator[Request]:
        for number in range(count):
            yield Request(self, number)
            self.log.append(f"{name}{number}")


class Request:
    def __init__(self, requests: Requests, number: int) -> None:
        self._requests, self._number = requests, number

    def is_done(self) -> bool:
        return self._number < self._requests.done


class World:
    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def wait(self, request: Request) -> None:
        for _ in itertools.takewhile(lambda _: not request.is_done(), itertools.count()):
            self._requests.done += 1


def test_sums_continue_when_another_begins_and_end_in_order() -> None:
    requests = Requests()
    overlap = Overlap(World(requests))
    overlap.begin(requests.sum("a", 2))
    assert requests.log == []  # nothing is waited for
    requests.done = 1
    overlap.begin(requests.sum("b", 2))
    assert requests.log == ["a0", "b0"]
    overlap.finish()
    assert requests.log == ["a0", "b0", "a1", "b1"]


def test_code_whose_parts_would_share_the_states_of_a_loop_is_one_bucket() -> None:
    w, xs = oc.param("w", o=[4], i=[4]), oc.placeholder("xs", b=[5], o=[4])

    def step(h: oc.Tensor, x: oc.Tensor) -> tuple[oc.Tensor, None]:
        return oc.tanh(w @ h + x), None

    state, _ = oc.scan(step, oc.tensor(np.zeros(4)), xs)
    loss = ((oc.param("v", o=[3]) @ state) ** 2).mean().with_label("loss")
    ctx = oc.Context("numpy")
    ctx.init(loss)
    ctx[xs] = np.ones((5, 4))
    (bucket,) = gradient_buckets(train.grad_update(loss), gradients_of(loss), 1)
    ctx.compile(bucket.code, keep=[loss, *bucket.gradients])()
    assert all(np.abs(ctx[gradient]).sum() > 0 for gradient in bucket.gradients)
