"""Operations and gradients against PyTorch, where it is installed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

Array = np.ndarray


@dataclass(frozen=True)
class Row:
    """One function in both languages, and where to look at it."""

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...] = ((3, 4),)
    low: float = -2.0
    high: float = 2.0


PAIR = ((3, 4), (3, 4))
BROADCAST = ((3, 4), (4,))

ROWS = (
    # one operand
    Row("neg", oc.neg, torch.neg),
    Row("abs", oc.abs, torch.abs),
    Row("relu", oc.relu, torch.relu),
    Row("sat01", oc.sat01, lambda x: torch.clamp(x, 0, 1)),
    Row("exp", oc.exp, torch.exp),
    Row("exp2", oc.exp2, torch.exp2),
    Row("log", oc.log, torch.log, low=0.2),
    Row("log2", oc.log2, torch.log2, low=0.2),
    Row("sin", oc.sin, torch.sin),
    Row("cos", oc.cos, torch.cos),
    Row("tanh", oc.tanh, torch.tanh),
    Row("sqrt", oc.sqrt, torch.sqrt, low=0.2),
    Row("recip", oc.recip, torch.reciprocal, low=0.2),
    Row("recip_sqrt", oc.recip_sqrt, torch.rsqrt, low=0.2),
    Row("sigmoid", oc.sigmoid, torch.sigmoid),
    Row("silu", oc.silu, torch.nn.functional.silu),
    Row("gelu", oc.gelu, lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
    Row("stop_gradient", lambda x: x * oc.stop_gradient(x), lambda x: x * x.detach()),
    # two and three operands
    Row("add", oc.add, torch.add, BROADCAST),
    Row("sub", oc.sub, torch.sub, BROADCAST),
    Row("mul", oc.mul, torch.mul, BROADCAST),
    Row("div", oc.div, torch.div, BROADCAST, low=0.3),
    Row("pow", oc.pow, torch.pow, BROADCAST, low=0.3),
    Row("square", lambda x: x**2, lambda x: x**2),
    Row("cube", lambda x: x**3, lambda x: x**3),
    Row("power of two", lambda x: 2.0**x, lambda x: 2.0**x),
    Row("mod", oc.mod, torch.remainder, BROADCAST, low=0.3),
    Row("maximum", oc.maximum, torch.maximum, BROADCAST),
    Row("minimum", oc.minimum, torch.minimum, BROADCAST),
    Row("maximum of ties", lambda x, y: oc.maximum(x, x) * y, lambda x, y: torch.maximum(x, x) * y, PAIR),
    Row("where", lambda x, y: oc.where(x > y, x, y * y), lambda x, y: torch.where(x > y, x, y * y), BROADCAST),
    Row("fma", oc.fma, lambda x, y, z: torch.addcmul(z, x, y), ((3, 4), (3, 4), (4,))),
    # reductions
    Row("sum", lambda x: x.sum(), torch.sum),
    Row("mean", lambda x: x.mean(), torch.mean),
    Row("max", lambda x: x.max(), torch.amax),
    Row("min", lambda x: x.min(), torch.amin),
    Row("sum of rows", lambda x: x.sum("ij => i"), lambda x: x.sum(1)),
    Row("mean of columns", lambda x: x.mean("ij => j"), lambda x: x.mean(0)),
    Row("max of rows", lambda x: x.max("ij => i"), lambda x: x.amax(1)),
    Row("max of ties", lambda x: oc.sat01(x).max("ij => j"), lambda x: torch.clamp(x, 0, 1).amax(0), ((4, 4),)),
    Row("product of rows", lambda x: oc.einsum("ij => i", x, reduce="mul"), lambda x: x.prod(1)),
    # contractions
    Row("matmul", lambda x, y: oc.einsum("ij;jk => ik", x, y), torch.matmul, ((3, 4), (4, 2))),
    Row("outer", lambda x, y: oc.einsum("i;j => ij", x, y), torch.outer, ((3,), (4,))),
    Row("batched", lambda x, y: oc.einsum("bij;bjk => bik", x, y), torch.bmm, ((2, 3, 4), (2, 4, 3))),
    Row("trace", lambda x: oc.einsum("ii => ", x), torch.trace, ((4, 4),)),
    Row("diagonal", lambda x: oc.einsum("ii => i", x), torch.diagonal, ((4, 4),)),
    Row("embedded", lambda x: oc.einsum("i => ii", x), torch.diag, ((4,),)),
    Row("bilinear", lambda x, y, z: oc.einsum("bi;oij;bj => bo", x, y, z),
        lambda x, y, z: torch.nn.functional.bilinear(x, z, y), ((2, 3), (4, 3, 5), (2, 5))),
    Row("attention", lambda q, k: oc.einsum("sd;td => st", q, k) * 0.5, lambda q, k: q @ k.T * 0.5, ((3, 4), (5, 4))),
    # what follows from them
    Row("softmax", lambda x: _softmax(x), lambda x: torch.softmax(x, 1)),
    Row("log sum exp", lambda x: oc.log(oc.exp(x).sum("ij => i")), lambda x: torch.logsumexp(x, 1)),
    Row("layer norm", lambda x: _normalized(x), lambda x: torch.nn.functional.layer_norm(x, (4,), eps=1e-5)),
    Row("concat", lambda x, y: oc.concat("i; j => i^j", x, y), lambda x, y: torch.cat([x, y]), ((3,), (2,))),
    Row("stack", lambda x, y: oc.stack([x, y]), lambda x, y: torch.stack([x, y]), ((3,), (3,))),
)  # fmt: skip


def _softmax(x: oc.Tensor) -> oc.Tensor:
    e = oc.exp(x - x.max("ij => i0"))
    return e / e.sum("ij => i0")


def _normalized(x: oc.Tensor) -> oc.Tensor:
    centered = x - x.mean("ij => i0")
    return centered * oc.recip_sqrt((centered**2).mean("ij => i0") + 1e-5)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_values_and_gradients_are_those_of_torch(row: Row, backend: str) -> None:
    rng = np.random.default_rng(len(row.name))
    arrays = [rng.uniform(row.low, row.high, size=shape) for shape in row.shapes]
    params = [oc.param(f"x{n}", array) for n, array in enumerate(arrays)]
    result = row.ours(*params)
    theirs = [torch.tensor(array, requires_grad=True) for array in arrays]
    want = row.theirs(*theirs)
    assert result.dims == tuple(want.shape)
    weights = rng.normal(size=result.dims)
    (want * torch.tensor(weights)).sum().backward()
    loss = (result * oc.tensor(weights)).sum()
    with oc.settings(cache=False):
        ctx = oc.Context(backend)
        ctx.init(loss)
        ctx.compile(train.grad_update(loss), keep=[result, *(p.grad for p in params)])()
    np.testing.assert_allclose(ctx[result], want.detach().numpy(), rtol=1e-10, atol=1e-12)
    for p, x in zip(params, theirs, strict=True):
        given = np.zeros(p.dims) if x.grad is None else x.grad.numpy()
        np.testing.assert_allclose(ctx[p.grad], given, rtol=1e-9, atol=1e-11, err_msg=p.label)


def test_sgd_is_that_of_torch(backend: str) -> None:
    rng = np.random.default_rng(0)
    start, target = rng.normal(size=4), rng.normal(size=4)
    for settings in (
        {},
        {"momentum": 0.9},
        {"momentum": 0.9, "nesterov": True},
        {"weight_decay": 0.1},
        {"momentum": 0.5, "weight_decay": 0.01},
    ):
        theirs = torch.tensor(start, requires_grad=True)
        optimizer = torch.optim.SGD([theirs], lr=0.05, **settings)
        w = oc.param("w", start)
        loss = ((w - oc.tensor(target)) ** 2).sum()
        with oc.settings(cache=False):
            ctx = oc.Context(backend)
            ctx.init(loss)
            step = ctx.compile(oc.seq(train.grad_update(loss), train.sgd(loss, 0.05, **settings)))
        for _ in range(5):
            step()
            optimizer.zero_grad()
            ((theirs - torch.tensor(target)) ** 2).sum().backward()
            optimizer.step()
        np.testing.assert_allclose(ctx[w], theirs.detach().numpy(), rtol=1e-6, err_msg=str(settings))
