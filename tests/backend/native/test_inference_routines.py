"""Functions of arrays keep packed weights, unless these take too much memory or the weights may change."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train

INPUTS, OUTPUTS = 200, 300  # large enough to be packed
RNG = np.random.default_rng(0)


class Model:
    def __init__(self, context: oc.Context) -> None:
        self.context = context
        self.block = nn.linear(width=OUTPUTS)
        self.function = oc.compile(self.block, ctx=context)

    def check(self, batch: int) -> None:
        x = RNG.normal(size=(batch, INPUTS)).astype("f4")
        for _ in range(2):
            result = self.function(x)
            w, b = (self.context[p] for p in self.block.params.values())
            w, b = (w, b) if w.ndim == 2 else (b, w)
            np.testing.assert_allclose(result, x @ w.T + b, rtol=1e-4, atol=1e-4)

    @property
    def packed_bytes(self) -> list[int]:
        """The bytes that each routine keeps, the one called last at the end."""
        return [compiled.routine.precomputed_bytes for compiled in self.function._compiled.values()]

    def training_step(self) -> oc.Routine:
        x = oc.placeholder("x", batch=[4], output=[INPUTS])
        loss = (self.block(x) ** 2).mean()
        self.context[x] = RNG.normal(size=(4, INPUTS))
        return self.context.compile(oc.seq(train.grad_update(loss), train.sgd(loss, 0.1)))


@pytest.fixture
def model(native):
    with oc.Context(native.name) as context:
        yield Model(context)


def test_weights_are_packed_once(model):
    model.check(24)
    assert model.packed_bytes[0] >= 4 * INPUTS * OUTPUTS
    for param in model.block.params.values():
        model.context[param] = RNG.normal(size=param.dims)
    model.check(24)


def test_constants_that_may_change_do_not_let_every_call_compile(native):
    values, x = (RNG.normal(size=size).astype("f4") for size in ((OUTPUTS, INPUTS), (24, INPUTS)))
    with oc.Context(native.name) as context:
        constant = oc.tensor(values, input_axes=1)
        param = oc.param("param", output=[2 * OUTPUTS * INPUTS])  # raises the limit of memory
        context[param] = np.zeros(param.dims, "f4")
        function = oc.compile(lambda t: oc.relu(constant @ t) + param.sum(), ctx=context)
        function(x)
        (first,) = function._compiled.values()
        assert first.routine.precomputed_bytes
        view = context.share(constant)
        function(x)
        (second,) = function._compiled.values()
        assert not second.routine.precomputed_bytes
        np.asarray(view)[...] *= 2
        np.testing.assert_allclose(function(x), np.maximum(x @ (2 * values).T, 0), rtol=1e-4, atol=1e-3)
        assert list(function._compiled.values()) == [second]


def test_memory_is_limited(model):
    for batch in range(24, 32):
        model.check(batch)
    assert sum(model.packed_bytes) <= 3 * 4 * INPUTS * OUTPUTS
    assert model.packed_bytes[-1] == 0


@pytest.mark.parametrize("setting", [True, False])
def test_the_setting_decides(model, setting):
    with oc.settings(precompute_weights=setting):
        for batch in range(24, 29):
            model.check(batch)
    assert [bool(size) for size in model.packed_bytes] == [setting] * 5


def test_weights_that_are_trained_are_packed_in_each_call(model):
    model.check(24)
    step = model.training_step()
    assert model.packed_bytes[0]
    for _ in range(2):
        step()
        model.check(24)
        model.check(25)
    assert model.packed_bytes == [0, 0]
    del step
    model.check(26)
    assert model.packed_bytes[-1]


def test_shared_weights_are_packed_in_each_call(model):
    model.check(24)
    assert model.packed_bytes[0]
    (w,) = (p for p in model.block.params.values() if len(p.dims) == 2)
    shared = np.asarray(model.context.share(w))
    for _ in range(2):
        shared[...] = RNG.normal(size=shared.shape)
        model.check(24)
    assert model.packed_bytes == [0]


def test_routines_of_code_pack_in_each_call(model):
    x = oc.placeholder("x", batch=[24], output=[INPUTS])
    y = model.block(x)
    model.context.init(y)
    assert not model.context.compile(y.forward).precomputed_bytes
