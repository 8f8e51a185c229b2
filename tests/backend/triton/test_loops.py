"""Scans, while loops and branches: values and gradients in the interpreter, and machine code."""

from dataclasses import replace

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize
from ocannl_backend_triton.backend import CAPABILITIES
from ocannl_backend_triton.emit_module import generate_module

X = np.random.default_rng(0).normal(size=(5, 3, 2)).astype("float32")


def recurrence():
    """The loss of a recurrent network whose steps have a branch, and its parameters."""
    xs = oc.tensor(X, batch_axes=2, label="xs")
    w, u = oc.param("w", o=[4]), oc.param("u", i=[4], o=[4])

    def step(h, x):
        h = oc.tanh(w @ x + u @ h)
        return oc.cond(h.sum() > 0.0, lambda: h, lambda: 0.5 * h), h

    last, hs = oc.scan(step, 0.0, xs)
    root = oc.while_loop(lambda c: c.sum() < 100.0, lambda c: 2.0 * c, 1.0 + last * last, bound=20)
    return (hs * hs).sum() + (0.01 * root).sum(), (w, u)


def test_values_and_gradients(context):
    loss, params = recurrence()
    results = []
    for ctx in (context, oc.Context("numpy")):
        ctx.init(loss, seed=1)
        ctx.run(train.grad_update(loss))
        results.append([np.array(ctx[t]) for t in (loss, *(p.grad for p in params))])
    for got, expected in zip(*results, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sm", [80, 90])
def test_machine_code(sm):
    pytest.importorskip("triton")
    from ocannl_backend_triton.compile import compile_kernels
    from ocannl_backend_triton.cuda_target import TARGETS

    loss, _ = recurrence()
    code = train.grad_update(loss).elaborate()
    proc = optimize(lower(code.comp, "step"), dict(code.keep_reasons), replace(CAPABILITIES, grid_threads=1024))
    for binary in compile_kernels(generate_module(proc), TARGETS[sm]):
        assert binary.image.startswith(b"\x7fELF")
