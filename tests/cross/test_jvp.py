"""Directional derivatives: beside the gradient of every operation, beside PyTorch's, and of code with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.ir.assign import host_calls
from ocannl.lang.declare.catalogue import OperationRow, catalogue
from ocannl.lang.declare.samples import Sample
from ocannl.testing.operations import called, drawn

Array = np.ndarray[Any, Any]
OPERATIONS = [(row, n) for row in catalogue() for n in range(len(row.samples))]
EPS = 1e-6


def like(t: oc.Tensor, array: Array) -> oc.Tensor:
    return oc.tensor(array, batch_axes=len(t.shape.batch), input_axes=len(t.shape.input))


def as_param(t: oc.Tensor, number: int) -> oc.Tensor:
    rows = {row: [axis.size for axis in getattr(t.shape, row)] for row in ("batch", "input", "output")}
    return oc.param(f"x{number}", t.numpy().astype("f8"), dtype="float64", **rows)


def sample_loss(row: OperationRow, sample: Sample) -> tuple[oc.Tensor, list[oc.Tensor]]:
    """A weighted sum of the results of an operation, and the operands that it has gradients by."""
    random = np.random.default_rng(0)
    data = [
        oc.tensor(d.array(random), batch_axes=d.batch_axes, input_axes=d.input_axes) for d in drawn(sample.operands)
    ]
    params = [as_param(t, n) for n, t in enumerate(data)]
    y = called(row, sample, params)
    if not y.has_gradient:
        pytest.skip("no gradient")
    loss = (y * like(y, np.random.default_rng(1).normal(size=y.dims))).sum()
    return loss, [p for p in params if p in set(loss.params.values())]


def directions(params: list[oc.Tensor], seed: int = 2) -> dict[oc.Tensor, oc.Tensor]:
    random = np.random.default_rng(seed)
    return {p: like(p, random.normal(size=p.dims)) for p in params}


def has_host_calls(code: oc.Code) -> bool:
    return next(host_calls(code.elaborate().comp), None) is not None


@pytest.mark.quick(10)
@pytest.mark.sample(40)
@pytest.mark.parametrize(("row", "number"), OPERATIONS, ids=lambda x: getattr(x, "call", x))
def test_every_operation_agrees_with_its_gradient(row: OperationRow, number: int) -> None:
    loss, params = sample_loss(row, row.samples[number])
    along = directions(params)
    step = train.grad_update(loss)
    code = oc.jvp(step, along)
    tangent = code[loss]
    ctx = oc.Context("numpy")
    ctx.init(loss)
    try:
        ctx.run(code)
    except oc.CodeError:
        if has_host_calls(step):
            pytest.skip("host call")
        raise
    expected = sum(float((ctx[p.grad] * v.numpy()).sum()) for p, v in along.items())
    np.testing.assert_allclose(ctx[tangent], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.quick(10)
@pytest.mark.sample(40)
@pytest.mark.parametrize(("row", "number"), OPERATIONS, ids=lambda x: getattr(x, "call", x))
def test_products_with_hessians_agree_with_differences(row: OperationRow, number: int) -> None:
    loss, params = sample_loss(row, row.samples[number])
    along = directions(params)
    step = train.grad_update(loss)
    if has_host_calls(step):
        pytest.skip("host call")
    code = oc.jvp(step, along)
    tangents = [code[p.grad] for p in params]
    ctx = oc.Context("numpy")
    ctx.init(loss)
    ctx.run(code)
    products = [ctx[t] for t in tangents]
    values, gradients = {p: ctx[p] for p in params}, []
    for sign in (1, -1):
        for p, v in along.items():
            ctx[p] = values[p] + sign * EPS * v.numpy()
        ctx.run(step)
        gradients.append([ctx[p.grad] for p in params])
    for product, plus, minus in zip(products, *gradients, strict=True):
        np.testing.assert_allclose(product, (plus - minus) / (2 * EPS), rtol=1e-4, atol=1e-4)


def network(w: Any, u: Any, x: Any, tanh: Any) -> Any:
    return tanh(u @ tanh(w @ x)) ** 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_network_beside_torch(dtype: str, ctx: oc.Context) -> None:
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(0)
    w, u, x = (random.normal(size=dims).astype(dtype) for dims in ((6, 5), (3, 6), (5,)))
    vw, vu = (random.normal(size=a.shape).astype(dtype) for a in (w, u))
    p, q = oc.param("w", w, shape="5->6", dtype=dtype), oc.param("u", u, shape="6->3", dtype=dtype)
    y = network(p, q, oc.tensor(x), oc.tanh)
    along = {p: oc.tensor(vw, input_axes=1), q: oc.tensor(vu, input_axes=1)}
    tangent = oc.jvp(y, along)
    loss = y.sum()
    code = oc.jvp(train.grad_update(loss), along)
    products = [code[p.grad], code[q.grad]]
    ctx.init(loss)
    tw, tu, tx = (torch.tensor(a, dtype=torch.float64) for a in (w, u, x))
    primals, tangents = (tw, tu), tuple(torch.tensor(v, dtype=torch.float64) for v in (vw, vu))
    tolerance = 200 * float(np.finfo(dtype).eps)

    def f(w: Any, u: Any) -> Any:
        return network(w, u, tx, torch.tanh)

    functional = torch.autograd.functional
    expected = functional.jvp(f, primals, tangents)[1]
    np.testing.assert_allclose(tangent.eval(ctx), expected, rtol=tolerance, atol=tolerance)
    hessian_products = functional.hvp(lambda w, u: f(w, u).sum(), primals, tangents)[1]
    ctx.run(code)
    for product, right in zip(products, hessian_products, strict=True):
        np.testing.assert_allclose(ctx[product], right, rtol=tolerance, atol=tolerance)


def test_second_derivatives_by_nesting(ctx: oc.Context) -> None:
    x = oc.param("x", np.array([0.3, -0.5]), dtype="float64")
    y = oc.sin(x) * x
    ones = oc.tensor(np.ones(2))
    second = oc.jvp(oc.jvp(y, {x: ones}), {x: ones})
    ctx.init(y)
    value = np.array([0.3, -0.5])
    np.testing.assert_allclose(second.eval(ctx), 2 * np.cos(value) - value * np.sin(value), rtol=1e-12)


def test_tangents_are_tensors_of_expressions(ctx: oc.Context) -> None:
    x = oc.placeholder("x", batch=[], input=[], output=[3])
    y = oc.exp(2 * x)
    relative = oc.jvp(y, {x: 1.0}) / y
    ctx[x] = np.array([0.1, 0.2, 0.3], "f4")
    np.testing.assert_allclose(relative.eval(ctx), 2.0, rtol=1e-6)


def test_an_intermediate_result_as_input(ctx: oc.Context) -> None:
    x = oc.param("x", np.array([2.0, 3.0]), dtype="float64")
    h = x * x
    ctx.init(x)
    np.testing.assert_allclose(oc.jvp(h * h + x, {h: oc.tensor(np.ones(2))}).eval(ctx), [8.0, 18.0])
    np.testing.assert_allclose(oc.jvp(h, {h: oc.tensor(np.array([5.0, 6.0]))}).eval(ctx), [5.0, 6.0])
    np.testing.assert_allclose(oc.jvp(x, {h: 1.0}).eval(ctx), 0.0)


def test_stop_gradient_has_no_tangent(ctx: oc.Context) -> None:
    x = oc.param("x", np.array([2.0, 3.0]), dtype="float64")
    y = x * oc.stop_gradient(x)
    ctx.init(y)
    np.testing.assert_allclose(oc.jvp(y, {x: 1.0}).eval(ctx), [2.0, 3.0])
    code = oc.jvp(y.forward, {x: 1.0})
    tangent = code[y]
    ctx.run(code)
    np.testing.assert_allclose(ctx[tangent], [2.0, 3.0])


def test_assignments(ctx: oc.Context) -> None:
    """Updates in place, by all operations that have derivatives."""
    start, change = np.array([2.0, 3.0]), np.array([0.5, -1.0])
    x = oc.param("x", start, dtype="float64")
    n = oc.param("n", start, dtype="float64")
    m = oc.param("m", np.array([2.5, 2.5]), dtype="float64")
    with oc.cd("updates") as code:
        n *= x
        n -= 2.0 * x - 3.0
        n /= x
        n **= 2.0
        m["=@^"] = x
    tangents = oc.jvp(code, {x: oc.tensor(change)})
    result, largest = tangents[n], tangents[m]
    for p in (x, n, m):
        ctx.init(p)
    ctx.run(tangents)
    np.testing.assert_allclose(ctx[n], (start - 2 + 3 / start) ** 2)
    np.testing.assert_allclose(ctx[result], 2 * (start - 2 + 3 / start) * (-3 / start**2) * change)
    np.testing.assert_allclose(ctx[largest], np.where(start > 2.5, change, 0.0))


def test_products_with_zeros(ctx: oc.Context) -> None:
    x = oc.param("x", np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 1.0], [1.0, 2.0, 4.0]]), dtype="float64")
    y = x.prod("ij => i")
    ctx.init(y)
    v = np.arange(1.0, 10).reshape(3, 3)
    np.testing.assert_allclose(oc.jvp(y, {x: oc.tensor(v)}).eval(ctx), [2 * 3 * 2, 0.0, 7 * 8 + 8 * 4 + 9 * 2])


def test_loops(ctx: oc.Context) -> None:
    x = oc.param("x", np.array([0.5, 0.7]), dtype="float64")
    last, _ = oc.scan(lambda h, _: (oc.sin(h) * x, h), x, length=5)
    with pytest.raises(oc.CodeError, match="differentiate its code"):
        oc.jvp(last, {x: 1.0}).eval(ctx)
    code = oc.jvp(last.forward, {x: 1.0})
    tangent = code[last]
    ctx.init(last)
    ctx.run(code)

    def f(x: Array) -> Array:
        h = x
        for _ in range(5):
            h = np.sin(h) * x
        return h

    value = np.array([0.5, 0.7])
    np.testing.assert_allclose(ctx[tangent], (f(value + EPS) - f(value - EPS)) / (2 * EPS), rtol=1e-7)


def test_products_with_hessians_of_loops(ctx: oc.Context) -> None:
    random = np.random.default_rng(0)
    start, change = random.normal(size=(3, 3)) / 2, random.normal(size=(3, 3))
    w = oc.param("w", start, shape="3->3", dtype="float64")
    xs = oc.tensor(random.normal(size=(6, 3)), batch_axes=1)
    last, _ = oc.scan(lambda h, x: (oc.tanh(w @ h + x), None), oc.tensor(np.zeros(3)), xs)
    loss = (last * last).sum()
    step = train.grad_update(loss)
    code = oc.jvp(step, {w: oc.tensor(change, input_axes=1)})
    product = code[w.grad]
    ctx.init(loss)
    ctx.run(code)
    actual, gradients = ctx[product], []
    for sign in (1, -1):
        ctx[w] = start + sign * EPS * change
        ctx.run(step)
        gradients.append(ctx[w.grad])
    np.testing.assert_allclose(actual, (gradients[0] - gradients[1]) / (2 * EPS), rtol=1e-6, atol=1e-8)


def test_refusals() -> None:
    x = oc.param("x", [1.0, 2.0])
    with pytest.raises(oc.CodeError, match="oc.jvp differentiates by float tensors, not by"):
        oc.jvp(x, {oc.tensor([1, 2], dtype="int32"): 1.0})
    with pytest.raises(oc.CodeError, match="oc.jvp takes a tensor or code, not 3"):
        oc.jvp(3, {x: 1.0})
    with pytest.raises(oc.CodeError, match="a tangent is that of a float tensor"):
        oc.jvp(x.forward, {x: 1.0})[oc.tensor([1, 2], dtype="int32")]
    with pytest.raises(oc.ShapeError):
        oc.jvp(x.sum(), {x: oc.tensor([1.0, 2.0, 3.0])}).eval()
