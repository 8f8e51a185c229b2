"""Arrays that depend on weights only are computed once, and again after any write of a weight."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

BATCH, INPUTS, OUTPUTS = 24, 200, 300  # large enough to be packed
RNG = np.random.default_rng(0)


@pytest.fixture(params=["inline", "threaded"])
def context(native, request):
    with oc.settings(precompute_weights=True), oc.Context(native.name, queue=request.param) as result:
        yield result


class Layer:
    """A layer with its routine for inference."""

    def __init__(self, context: oc.Context) -> None:
        self.context = context
        self.x = oc.placeholder("x", batch=[BATCH], i=[], o=[INPUTS])
        self.w = oc.param("w", i=[INPUTS], o=[OUTPUTS])
        self.y = oc.relu(self.w @ self.x)
        self.set_weights()
        context[self.x] = self.input = RNG.normal(size=(BATCH, INPUTS)).astype("f4")
        self.routine = context.compile(self.y.forward, name="layer", keep=[self.y])

    def set_weights(self) -> None:
        self.context[self.w] = RNG.normal(size=(OUTPUTS, INPUTS)).astype("f4")

    @property
    def wanted(self) -> np.ndarray:
        return np.maximum(self.input @ self.context[self.w].T, 0)

    def check(self) -> None:
        self.routine()
        np.testing.assert_allclose(self.context[self.y], self.wanted, rtol=1e-4, atol=1e-4)

    def overwrite_memory(self) -> None:
        """Changes the weights behind the back of the context."""
        resident = self.context.arrays[self.w.value]
        self.context.queue.from_host(resident.where, np.zeros((OUTPUTS, INPUTS), "f4"))

    @property
    def is_computed_once(self) -> bool:
        """Whether a call uses the weights of the call before."""
        self.routine()
        before = self.context[self.y]
        weights = self.context[self.w]
        self.overwrite_memory()
        self.routine()
        same = np.array_equal(before, self.context[self.y])
        self.context[self.w] = weights
        return same


@pytest.fixture
def layer(context) -> Layer:
    return Layer(context)


def memory_bytes(context: oc.Context) -> int:
    """The memory of arrays, without that of temporaries."""
    usage = context.memory
    return usage.held_bytes - usage.arena_bytes


def test_weights_are_packed_once(layer):
    layer.check()
    assert layer.is_computed_once
    layer.check()


def test_an_upload_is_noticed(layer):
    for _ in range(3):
        layer.check()
        layer.set_weights()
    layer.check()
    layer.context[layer.w] = 0.5
    layer.check()


def test_writes_by_other_routines_are_noticed(layer):
    layer.check()
    with oc.cd("doubled") as code:
        layer.w[...] = layer.w * 2.0
    doubling = layer.context.compile(code)
    for _ in range(3):
        doubling()
        layer.check()
    assert not layer.is_computed_once  # the context does not see what other routines write
    del doubling
    layer.check()
    assert layer.is_computed_once


def test_writers_that_end_are_noticed(layer):
    layer.check()
    with oc.cd("doubled") as code:
        layer.w[...] = layer.w * 2.0
    for _ in range(2):
        layer.context.run(code)
        layer.check()
        assert layer.is_computed_once


def test_training_and_inference_alternate(context):
    x, t = oc.placeholder("x", batch=[BATCH], o=[INPUTS]), oc.placeholder("t", batch=[BATCH], o=[OUTPUTS])
    w = oc.param("w", i=[INPUTS], o=[OUTPUTS])
    y = w @ x
    loss = ((y - t) ** 2).mean()
    context.init(loss, seed=1)
    context[x], context[t] = RNG.normal(size=(BATCH, INPUTS)), RNG.normal(size=(BATCH, OUTPUTS))
    inference = context.compile(y.forward, keep=[y])
    inference()
    step = context.compile(oc.seq(train.grad_update(loss), train.sgd(loss, 0.1)))
    for _ in range(3):
        step()
        inference()
        np.testing.assert_allclose(context[y], context[x] @ context[w].T, rtol=1e-4, atol=1e-4)


def test_a_transfer_is_noticed(layer):
    layer.check()
    with oc.Context(layer.context.backend.name, device=1) as source:
        source[layer.w] = RNG.normal(size=(OUTPUTS, INPUTS)).astype("f4")
        transfer = oc.transfer(layer.w, src=source, dst=layer.context, into="node")
        for _ in range(2):
            transfer()
            layer.check()
            source[layer.w] = RNG.normal(size=(OUTPUTS, INPUTS)).astype("f4")


def test_writes_by_other_libraries_are_noticed(layer):
    layer.check()
    torch = pytest.importorskip("torch")
    shared = torch.from_dlpack(layer.context.share(layer.w))
    for _ in range(3):
        shared += 1
        layer.check()


def test_lost_work_is_repeated(layer):
    layer.check()
    layer.overwrite_memory()
    layer.context.arrays.invalidate(())
    layer.routine()
    assert not layer.context[layer.y].any()


def test_loading_is_noticed(layer, tmp_path):
    layer.check()
    oc.save(tmp_path / "weights.ocannl", layer.context, layer.w)
    saved = layer.context[layer.w]
    layer.set_weights()
    layer.check()
    oc.load(tmp_path / "weights.ocannl", layer.context, layer.w)
    np.testing.assert_array_equal(layer.context[layer.w], saved)
    layer.check()


def test_two_routines_share_weights(layer):
    other = layer.context.compile((layer.w @ layer.x).forward, keep=[layer.y])
    layer.check()
    other()
    layer.set_weights()
    other()
    layer.check()


def test_the_setting_saves_memory(context):
    def layer_bytes(precompute: bool) -> int:
        before = memory_bytes(context)
        with oc.settings(precompute_weights=precompute):
            layer = Layer(context)
        layer.check()
        assert layer.is_computed_once is precompute
        return memory_bytes(context) - before

    assert layer_bytes(True) >= layer_bytes(False) + 4 * INPUTS * OUTPUTS


def test_memory_is_freed_with_the_routine(layer):
    layer.check()
    before = memory_bytes(layer.context)
    layer.routine = None
    assert memory_bytes(layer.context) <= before - 4 * INPUTS * OUTPUTS


def test_profiles_list_the_nests(layer):
    layer.check()
    rows = layer.routine.profile(calls=2).rows
    assert len(rows) >= 2
    layer.check()


def test_derived_weights(context):
    """Batch normalization of a trained network: the scale of a weight is a weight."""
    x = oc.placeholder("x", batch=[BATCH], o=[INPUTS])
    w, scale = oc.param("w", i=[INPUTS], o=[OUTPUTS]), oc.param("scale", o=[OUTPUTS])
    y = oc.einsum("i->o; o => i->o", w, oc.sqrt(scale)) @ x
    context[x] = RNG.normal(size=(BATCH, INPUTS))
    routine = context.compile(y.forward, keep=[y])
    for _ in range(2):
        context[w], context[scale] = RNG.normal(size=(OUTPUTS, INPUTS)), RNG.uniform(1, 2, OUTPUTS)
        for _ in range(2):
            routine()
            wanted = context[x] @ (context[w] * np.sqrt(context[scale])[:, None]).T
            np.testing.assert_allclose(context[y], wanted, rtol=1e-4, atol=1e-4)
            context[scale] = RNG.uniform(1, 2, OUTPUTS)


def test_loops_with_a_carry(context):
    steps, width = 5, 128
    w = oc.param("w", i=[width], o=[width])
    start = oc.placeholder("start", batch=[4], o=[width])
    carry, _ = oc.scan(lambda c, _: (oc.tanh(w @ c), None), start, length=steps)
    routine = context.compile(carry.forward, keep=[carry])
    context[start] = RNG.normal(size=(4, width))
    for _ in range(2):
        context[w] = RNG.normal(size=(width, width)) / width
        routine()
        wanted = context[start]
        for _ in range(steps):
            wanted = np.tanh(wanted @ context[w].T)
        np.testing.assert_allclose(context[carry], wanted, rtol=1e-4, atol=1e-4)


def test_conditional_code(context):
    """Copies of the weights of both branches are computed on request, whichever branch is taken."""
    x = oc.placeholder("x", batch=[BATCH], i=[], o=[INPUTS])
    left, right = (oc.param(name, i=[INPUTS], o=[OUTPUTS]) for name in ("left", "right"))
    sign = oc.placeholder("sign", b=[], i=[], o=[])
    y = oc.cond(sign > 0.0, lambda: oc.relu(left @ x), lambda: oc.tanh(right @ x))
    context[x] = RNG.normal(size=(BATCH, INPUTS))
    for w in (left, right):
        context[w] = RNG.normal(size=(OUTPUTS, INPUTS)) / INPUTS
    routine = context.compile(y.forward, keep=[y])

    def check() -> None:
        for value, w, function in ((1, left, lambda z: np.maximum(z, 0)), (-1, right, np.tanh)):
            context[sign] = np.float32(value)
            routine()
            np.testing.assert_allclose(context[y], function(context[x] @ context[w].T), rtol=1e-4, atol=1e-4)

    check()
    for w in (right, left):
        context[w] = RNG.normal(size=(OUTPUTS, INPUTS)) / INPUTS
        check()
    for value, w in ((1, left), (-1, right)):
        context[sign] = np.float32(value)
        routine()
        before = context[y]
        resident = context.arrays[w.value]
        context.queue.from_host(resident.where, np.zeros((OUTPUTS, INPUTS), "f4"))  # behind the back of the context
        routine()
        np.testing.assert_array_equal(context[y], before)
