"""Programs as they are printed, from assignments to generated text; each is also run, and judged by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.ir.printer import print_comp

Array = np.ndarray
RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3)).astype("float32")
W = RNG.normal(size=(2, 3)).astype("float32")


@dataclass(frozen=True)
class Golden:
    """Code, what its leaves hold, and what it should come to."""

    code: oc.Code
    wanted: Mapping[oc.Tensor, Any]
    given: Mapping[oc.Tensor, Any] = field(default_factory=dict)
    symbols: Mapping[str, int] = field(default_factory=dict)


def pointwise() -> Golden:
    x, b = oc.tensor(X, batch_axes=1, label="x"), oc.tensor(W[0], label="b")
    y = oc.where(x > 0.5, oc.tanh(2 * x + b), -x)
    return Golden(y.forward, {y: np.where(X > 0.5, np.tanh(2 * X + W[0]), -X)})


def linear_gradient() -> Golden:
    x, t = oc.tensor(X, batch_axes=1, label="x"), oc.tensor(X[:, :2].copy(), batch_axes=1, label="t")
    w, b = oc.param("w", W, i=[3], o=[2]), oc.param("b", 0.0)
    loss = ((w @ x + b - t) ** 2).mean()
    off = X @ W.T - X[:, :2]
    code = train.grad_update(loss)
    return Golden(
        code, {loss: (off**2).mean(), w.grad: off.T @ X / 4, b.grad: off.sum(0) / 4}, {w: W, b: np.zeros(2)}
    )


def softmax() -> Golden:
    x = oc.tensor(X, batch_axes=1, label="x")
    e = oc.exp(x - x.max("...|o => ...|0"))
    p = e / e.sum("...|o => ...|0")
    want = np.exp(X - X.max(1, keepdims=True))
    return Golden(p.forward, {p: want / want.sum(1, keepdims=True)})


def einsum_odds() -> Golden:
    a = oc.tensor(X[:3], label="a")
    d = oc.einsum("ii => i", a)
    e = oc.einsum("i; i1 => ij2", d, a, j=2)
    want = np.zeros((3, 2, 3))
    want[:, :, 2] = (np.diag(X[:3]) * X[:3, 1])[:, None]
    return Golden(oc.forward(d, e), {d: np.diag(X[:3]), e: want})


def largest_gradient() -> Golden:
    cells = np.array([[1.0, 3.0, 3.0], [2.0, 0.0, 1.0]], "float32")
    w = oc.param("w", cells)
    loss = (w.max("ij => i") * oc.tensor([1.0, 10.0], label="k")).sum()
    return Golden(train.grad_update(loss), {loss: 23, w.grad: [[0, 0.5, 0.5], [10, 0, 0]]}, {w: cells})


def training_step() -> Golden:
    n = oc.symbol("n", 0, 4)
    x = oc.tensor(X, batch_axes=1, label="data")[n]
    w = oc.param("w", W, i=[3], o=[2])
    loss = ((w @ x) ** 2).sum()
    code = oc.seq(train.grad_update(loss), train.sgd(loss, 0.1, momentum=0.9))
    grad = 2 * np.outer(W @ X[2], X[2])
    return Golden(code, {loss: ((W @ X[2]) ** 2).sum(), w: W - 0.1 * grad}, {w: W}, {"n": 2})


def recorded() -> Golden:
    m = oc.placeholder("m", batch=[], input=[], output=[3, 3])
    total = oc.placeholder("total", batch=[], input=[], output=[])
    with oc.cd("turn and sum") as code:
        m["=:", "ij=>ji"] = m
        with oc.comment("sum of", m):
            total["=:+", "ij=>"] = m * m
    return Golden(code, {m: X[:3].T, total: (X[:3] ** 2).sum()}, {m: X[:3]})


def concatenation() -> Golden:
    a, b = oc.param("a", X[0]), oc.param("b", W[0, :2].copy())
    both = oc.concat("i; j => i^j", a, b)
    loss = (both * oc.arange(5)).sum()
    want = np.concatenate([X[0], W[0, :2]])
    return Golden(
        train.grad_update(loss),
        {loss: want @ np.arange(5), a.grad: [0, 1, 2], b.grad: [3, 4]},
        {a: X[0], b: W[0, :2]},
    )


def narrow_types() -> Golden:
    x = oc.tensor(X.astype("float16"), label="x")
    i = oc.tensor(np.array([1, 2, 3], "int32"), label="i")
    y = (x * i).sum("ij => i")
    want = (X.astype("float16").astype("float32") * [1, 2, 3]).astype("float16").astype("float32")
    return Golden(y.forward, {y: want.sum(1).astype("float16")})


def empty() -> Golden:
    x = oc.tensor(np.ones((0, 3), "float32"), batch_axes=1, label="x")
    w = oc.param("w", W, i=[3], o=[2])
    loss = (w @ x).sum()
    return Golden(train.grad_update(loss), {loss: 0, w.grad: np.zeros((2, 3))}, {w: W})


ALL = (
    pointwise, linear_gradient, softmax, einsum_odds, largest_gradient, training_step, recorded, concatenation,
    narrow_types, empty,
)  # fmt: skip
PROGRAMS: dict[str, Callable[[], Golden]] = {built.__name__: built for built in ALL}


@pytest.mark.parametrize("name", PROGRAMS)
def test_golden_programs_do_what_numpy_does(name: str, backend: str) -> None:
    program = PROGRAMS[name]()
    with oc.settings(cache=False, verify="every"):
        ctx = oc.Context(backend)
        for t, array in program.given.items():
            ctx[t] = array
        ctx.compile(program.code, keep=list(program.wanted))(**program.symbols)
    for t, want in program.wanted.items():
        np.testing.assert_allclose(
            ctx[t].astype("float64"), want, rtol=2e-3 if t.dtype == "float16" else 1e-5, atol=1e-6, err_msg=t.label
        )


def stage(name: str, which: str) -> str:
    program = PROGRAMS[name]()
    if which == "comp":
        return print_comp(program.code.elaborate().comp)
    with oc.settings(cache=False):
        routine = oc.Context("llvm" if which == "llvm" else "numpy").compile(program.code, keep=list(program.wanted))
    if which == "llvm":
        return routine.source()
    stages = list(routine.stages().items())
    return dict(stages)["lower"] if which == "lowered" else stages[-1][1]


@pytest.mark.parametrize("which", ["comp", "lowered", "optimized", "llvm"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_printed(name: str, which: str, golden: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    if which == "llvm":
        backend = pytest.importorskip("ocannl_backend_llvm.backend")
        vectors = replace(backend._capabilities(), vector_bytes=32, vector_registers=16)  # those of no machine
        monkeypatch.setattr(backend, "_capabilities", lambda: vectors)
        jit, builder = (import_module(f"ocannl_backend_llvm.{name}") for name in ("jit", "builder"))
        monkeypatch.setattr(jit.Target, "instructions", builder.Instructions(half=True, scale=False))
    golden(stage(name, which))


def test_every_golden_text_belongs_to_a_test(request: pytest.FixtureRequest) -> None:
    folder = request.config.rootpath / "tests" / "golden" / "printed"
    texts = {path.stem for path in folder.glob("*.txt")}
    assert texts == {f"{name}-{which}" for name in PROGRAMS for which in ("comp", "lowered", "optimized", "llvm")}
