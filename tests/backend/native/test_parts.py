"""Programs of many nests: entry functions that call functions of parts, in one module and in several."""

from functools import partial
from importlib import import_module

import numpy as np
import pytest
from loop_programs.golden_programs import NATIVE_SAMPLES

import ocannl as oc
from ocannl import train
from ocannl.codegen import outlining

EMITTERS = {"llvm": ("emit", "emit"), "c": ("backend", "emit_units")}  # module and function


@pytest.fixture(autouse=True, params=[1, 3])
def short_parts(request, monkeypatch):
    """Parts call 1 or 3 nests."""
    monkeypatch.setattr(outlining, "PART_CALLS", request.param)


@pytest.fixture
def separate_modules(native, monkeypatch):
    """Emits a module per function."""
    name, function = EMITTERS[native.name]
    module = import_module(f"ocannl_backend_{native.name}.{name}")
    monkeypatch.setattr(module, function, partial(getattr(module, function), lines=0))


@pytest.mark.parametrize(("program", "check"), NATIVE_SAMPLES, ids=lambda f: f.__name__)
def test_samples(run, program, check):
    check(run)


def trained(backend, threads):
    """The parameters, their gradients and the loss of a small network after two steps."""
    random = np.random.default_rng(0)
    x, t = (oc.tensor(random.normal(size=(8, n)).astype("float32"), batch_axes=1) for n in (5, 3))
    w = oc.param("w", random.normal(size=(3, 5)), output=[3], input=[5])
    loss = ((oc.softmax(w @ x) - t) ** 2).mean()
    ctx = oc.Context(backend, threads=threads)
    ctx.init(loss)
    routine = ctx.compile(oc.seq(train.grad_update(loss), train.sgd(loss, 0.1)), keep=[w.grad, loss])
    routine()
    routine()
    return [ctx[w], ctx[w.grad], ctx[loss]]


def test_training(native):
    """Each part loads the arrays of its own nests."""
    for actual, expected in zip(trained(native.name, 2), trained("numpy", 1), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=1e-6)


def test_training_in_separate_modules(native, separate_modules):
    test_training(native)


def test_parallel_loops(native, separate_modules):
    """Results do not depend on the number of threads."""
    x = np.arange(300 * 700, dtype="float32").reshape(300, 700)
    results = []
    for threads in (1, 2):
        a, b = oc.placeholder("a", o=[300, 700]), oc.placeholder("b", o=[300, 700])
        with oc.cd("steps") as code:
            for _ in range(4):
                b[...] = oc.sin(a) + 1
                a[...] = oc.exp(b) * 0.5
        ctx = oc.Context(native.name, threads=threads)
        ctx[a] = x
        routine = ctx.compile(code)
        assert threads == 1 or "parallel(" in str(routine.stages())
        routine()
        results.append(ctx[a])
    np.testing.assert_array_equal(*results)
