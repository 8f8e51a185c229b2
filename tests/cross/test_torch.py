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
    # of each cell
    Row("floor", lambda x: x * oc.floor(x), lambda x: x * torch.floor(x).detach()),
    Row("round", lambda x: x * x.round(), lambda x: x * torch.round(x).detach()),
    Row("log1p", oc.log1p, torch.log1p, low=-0.5),
    Row("expm1", oc.expm1, torch.expm1),
    Row("logaddexp", oc.logaddexp, torch.logaddexp, BROADCAST),
    Row("softplus", oc.softplus, torch.nn.functional.softplus),
    Row("leaky relu", oc.leaky_relu, torch.nn.functional.leaky_relu),
    Row("elu", oc.elu, torch.nn.functional.elu),
    Row("clip", lambda x: oc.clip(x, -1, 1), lambda x: torch.clamp(x, -1, 1)),
    # by a spec, and along an axis
    Row("prod", lambda x: x.prod("ij => i"), lambda x: x.prod(1)),
    Row("var", lambda x: x.var("ij => i", sample=True), lambda x: x.var(1)),
    Row("std", lambda x: x.std("ij => j"), lambda x: x.std(0, correction=0)),
    Row("norm", lambda x: x.norm("ij => j"), lambda x: torch.linalg.vector_norm(x, dim=0)),
    Row("norm 1", lambda x: x.norm(ord=1), lambda x: torch.linalg.vector_norm(x, 1)),
    Row("norm inf", lambda x: x.norm(ord=np.inf), lambda x: torch.linalg.vector_norm(x, float("inf"))),
    Row("softmax of rows", lambda x: x.softmax("ij => i"), lambda x: torch.softmax(x, 1)),
    Row("log softmax", lambda x: x.log_softmax("ij => j"), lambda x: torch.log_softmax(x, 0)),
    Row("logsumexp", lambda x: x.logsumexp("ij => i"), lambda x: torch.logsumexp(x, 1)),
    Row("cumsum", lambda x: x.cumsum("ij => i"), lambda x: x.cumsum(1)),
    Row("cumprod", lambda x: x.cumprod("ij => j"), lambda x: x.cumprod(0)),
    Row("cummax", lambda x: oc.cummax(x, "ij => i"), lambda x: x.cummax(1).values),
    Row("cummin", lambda x: oc.cummin(x, "ij => i"), lambda x: x.cummin(1).values),
    Row("flip", lambda x: oc.flip(x, "ij => j"), lambda x: x.flip(0)),
    Row("roll", lambda x: oc.roll(x, 2, "ij => i"), lambda x: x.roll(2, 1)),
    # matrices and windows
    Row("dot", oc.dot, torch.dot, ((4,), (4,))),
    Row("diagonal of a vector", oc.diag, torch.diag, ((4,),)),
    Row("triu", lambda x: oc.triu(x, 1), lambda x: torch.triu(x, 1)),
    Row("tril", lambda x: oc.tril(x, -1), lambda x: torch.tril(x, -1)),
    Row("conv1d", lambda x, k: oc.conv1d(x, k, stride=2, dilation=2),
        lambda x, k: torch.conv1d(x.T, k.permute(2, 1, 0), stride=2, dilation=2).T, ((9, 2), (3, 2, 4))),
    Row("conv2d", lambda x, k: oc.conv2d(x, k, groups=2),
        lambda x, k: torch.conv2d(x.permute(2, 0, 1), k.permute(3, 2, 0, 1), groups=2).permute(1, 2, 0),
        ((5, 6, 4), (3, 2, 2, 6))),
    Row("conv transpose2d", lambda x, k: oc.conv_transpose2d(x, k, stride=2),
        lambda x, k: torch.conv_transpose2d(x.permute(2, 0, 1), k.permute(2, 3, 0, 1), stride=2).permute(1, 2, 0),
        ((3, 4, 2), (3, 2, 2, 5))),
    Row("max pool", lambda x: oc.max_pool2d(x, 3, 2),
        lambda x: torch.max_pool2d(x.permute(2, 0, 1), 3, 2).permute(1, 2, 0), ((7, 5, 2),)),
    Row("avg pool", lambda x: oc.avg_pool2d(x, 3, 2),
        lambda x: torch.nn.functional.avg_pool2d(x.permute(2, 0, 1), 3, 2).permute(1, 2, 0), ((7, 5, 2),)),
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
