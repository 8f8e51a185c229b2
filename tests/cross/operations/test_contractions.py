"""Einsums of several operands, which are contracted pairwise: values and gradients beside NumPy and PyTorch."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

torch = pytest.importorskip("torch")
Array = np.ndarray[Any, Any]

CASES = {
    "chain": ("ij,jk,kl,lm->im", "i=9 j=12 k=10 l=11 m=8"),
    "chain of six": ("ij,jk,kl,lm,mn,no->io", "i=9 j=8 k=10 l=11 m=8 n=9 o=7"),
    "trace": ("ij,jk,kl,li->", "i=12 j=11 k=10 l=9"),
    "diagonal": ("ii,ij,jk->k", "i=20 j=15 k=12"),
    "quadratic form": ("bi,ij,bj->b", "b=20 i=15 j=15"),
    "bilinear layer": ("bi,ijk,bj->bk", "b=16 i=12 j=10 k=14"),
    "hyperedge": ("ax,bx,cx,x->abc", "a=12 b=11 c=10 x=9"),
    "private axes": ("ijp,jkq,klr->il", "i=12 j=11 k=10 l=9 p=40 q=3 r=5"),
    "long private axis": ("ip,ijq,j->i", "i=5 j=6 p=500 q=70"),
    "disconnected": ("ij,kl,k->", "i=20 j=20 k=20 l=20"),
    "axes of size 1": ("ij,jk,kl->il", "i=40 j=1 k=40 l=40"),
    "scalars": ("ij,,jk,->ik", "i=20 j=20 k=20"),
    "Tucker": ("abc,ia,jb,kc->ijk", "a=4 b=5 c=3 i=12 j=13 k=11"),
    "MPS": ("ia,ajb,bkc,cl->ijkl", "i=4 j=5 k=4 l=3 a=8 b=9 c=7"),
    "permuted result": ("ij,jk,kl->li", "i=20 j=21 k=22 l=23"),
}


def sizes_of(text: str) -> dict[str, int]:
    return {name: int(size) for name, size in (pair.split("=") for pair in text.split())}


def arrays(spec: str, sizes: dict[str, int], seed: int = 0) -> list[Array]:
    random = np.random.default_rng(seed)
    return [random.uniform(-1, 1, [sizes[c] for c in axes]) for axes in spec.split("->")[0].split(",")]


def notation(spec: str) -> str:
    return spec.replace(",", "; ").replace("->", " => ")


def leaf_spec(spec: str, *tensors: oc.Tensor) -> oc.Tensor:
    return oc.einsum(notation(spec), *tensors)


def expected(spec: str, data: list[Array], weight: Array) -> tuple[Array, list[Array]]:
    """The value, and the gradients of its sum weighted by `weight`, in float64."""
    leaves = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in data]
    value = torch.einsum(spec, *leaves)
    (value * torch.tensor(weight)).sum().backward()
    return value.detach().numpy(), [leaf.grad.numpy() for leaf in leaves]


def assert_near(actual: Array, right: Array, magnitude: Array, eps: float, stages: int) -> None:
    """Each of the sums in turn has an error of 64 eps times the sum of the absolute values of its terms."""
    assert np.all(np.abs(np.asarray(actual, "f8") - right) <= 64 * eps * stages * magnitude)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str, dtype: str, ctx: oc.Context) -> None:
    spec, sizes = CASES[name][0], sizes_of(CASES[name][1])
    data = [a.astype(dtype) for a in arrays(spec, sizes)]
    weight = np.random.default_rng(1).uniform(-1, 1, [sizes[c] for c in spec.split("->")[1]]).astype(dtype)
    params = [oc.param(f"p{n}", a, dtype=dtype) for n, a in enumerate(data)]
    y = leaf_spec(spec, *params)
    loss = (y * oc.tensor(weight)).sum()
    ctx.init(loss)
    ctx.run(oc.seq(train.grad_update(loss), y.forward))
    value, gradients = expected(spec, data, weight.astype("f8"))
    eps = float(np.finfo(dtype).eps)
    magnitude, magnitudes = expected(spec, [*map(np.abs, data)], np.abs(weight).astype("f8"))
    assert_near(ctx[y], value, magnitude, eps, len(data))
    for p, gradient, bound in zip(params, gradients, magnitudes, strict=True):
        assert p.grad is not None
        assert_near(ctx[p.grad], gradient, bound, eps, len(data))


def random_case(seed: int) -> tuple[str, dict[str, int]]:
    """A random contraction of three to six operands with up to three axes each, repeated and private ones included."""
    random = Random(seed)
    letters = "abcdefg"[: random.randint(3, 7)]
    operands = ["".join(random.choices(letters, k=random.randint(0, 3))) for _ in range(random.randint(3, 6))]
    used = sorted(set("".join(operands)))
    result = "".join(random.sample(used, random.randint(0, min(3, len(used)))))
    return f"{','.join(operands)}->{result}", {c: random.choice([1, 2, 3, 5, 8]) for c in letters}


@pytest.mark.sample(12)
@pytest.mark.parametrize("seed", range(200))
def test_random_contractions(seed: int, ctx: oc.Context) -> None:
    spec, sizes = random_case(seed)
    data = arrays(spec, sizes, seed)
    actual = leaf_spec(spec, *map(oc.tensor, data)).eval(ctx)
    magnitude = np.einsum(spec, *map(np.abs, data))
    assert_near(actual, np.einsum(spec, *data), magnitude, 2.0**-52, len(data))


def test_integers_are_exact(ctx: oc.Context) -> None:
    random = np.random.default_rng(0)
    x, y, z = (random.integers(-99, 99, (20, 20), dtype="int32") for _ in range(3))
    product = oc.einsum("ij; jk; kl => il", oc.tensor(x), oc.tensor(y), oc.tensor(z))
    assert (product.eval(ctx) == x @ y @ z).all()
    assert product.dtype is oc.int32


def test_narrow_floats_have_intermediate_results_in_float32(ctx: oc.Context) -> None:
    x, y, z = (oc.tensor(a, dtype="bfloat16") for a in arrays("ij,jk,kl->il", sizes_of("i=20 j=30 k=25 l=22")))
    actual = oc.einsum("ij; jk; kl => il", x, y, z)
    right = np.einsum("ij,jk,kl->il", *(np.asarray(t.eval(), "f8") for t in (x, y, z)))
    assert actual.dtype is oc.bfloat16
    assert np.max(np.abs(actual.eval(ctx).astype("f8") - right)) <= 2.0**-8 * np.max(np.abs(right))


def test_an_empty_axis_gives_zeros_beside_infinities(ctx: oc.Context) -> None:
    x, empty = np.full((20, 20), np.inf, "f4"), np.zeros((20, 0), "f4")
    sum_of_none = oc.einsum("ij; jk; il => i", oc.tensor(x), oc.tensor(empty), oc.tensor(x))
    assert (sum_of_none.eval(ctx) == 0).all()


def test_one_tensor_several_times(ctx: oc.Context) -> None:
    a = arrays("ij->", {"i": 15, "j": 15})[0]
    w = oc.param("w", a, dtype="float64")
    loss = oc.einsum("ij; jk; kl; li =>", w, w, w, w)
    ctx.init(loss)
    ctx.run(train.grad_update(loss))
    assert w.grad is not None
    np.testing.assert_allclose(ctx[w.grad], 4 * np.linalg.matrix_power(a, 3).T, rtol=1e-12)


def test_windows_and_rows(ctx: oc.Context) -> None:
    """A convolution by a factored kernel, with rows that a variable covers."""
    random = np.random.default_rng(0)
    x, k, m = random.normal(size=(4, 30, 6)), random.normal(size=(5, 6, 8)), random.normal(size=(8, 20))
    spec = "..b..|o<+k, c; |k, c, d; |d, e => ..b..|o, e"
    result = oc.einsum(spec, oc.tensor(x, batch_axes=1), oc.tensor(k), oc.tensor(m))
    windows = np.lib.stride_tricks.sliding_window_view(x, 5, 1)
    np.testing.assert_allclose(result.eval(ctx), np.einsum("bock,kcd,de->boe", windows, k, m), rtol=1e-10)


def test_padded_windows_and_their_gradients() -> None:
    random = np.random.default_rng(0)
    x, k, m = random.normal(size=(20, 12)), random.normal(size=(3, 12, 4)), random.normal(size=(4, 12))
    oc.testing.gradcheck(lambda x, k, m: oc.einsum("o=+k, c; k, c, d; d, e => o, e", x, k, m), x, k, m)


def test_assignments_accumulate(ctx: oc.Context) -> None:
    data = arrays("ij,jk,kl->il", sizes_of("i=20 j=21 k=22 l=23"))
    a, b, c = map(oc.tensor, data)
    total = oc.param("total", np.ones((20, 23)), dtype="float64")

    @oc.cd
    def update() -> None:
        nonlocal total
        total += oc.einsum("ij; jk; kl => il", a, b, c)

    code = update()
    assert str(code).count("=:+") == 1
    ctx.run(total.init_params)
    ctx.run(code)
    ctx.run(code)
    np.testing.assert_allclose(ctx[total], 1 + 2 * (data[0] @ data[1] @ data[2]), rtol=1e-12)


def assignments(spec: str, sizes: str, **settings: Any) -> list[str]:
    data = [oc.tensor(a) for a in arrays(spec, sizes_of(sizes))]
    return str(oc.einsum(notation(spec), *data, **settings).forward).strip().splitlines()


def test_which_sums_are_factored() -> None:
    chain = "i=64 j=64 k=64 l=64 m=64"
    assert len(assignments("ij,jk,kl,lm->im", chain)) == 3
    assert len(assignments("ij,jk,kl->il", chain, reduce="max")) == 1
    assert len(assignments("ij,jk,kl->il", chain, combine="add")) == 1
    assert len(assignments("ij,ij,ij->ij", chain)) == 1
    assert len(assignments("ij,jk->ik", chain)) == 1
    assert len(assignments("ij,jk,kl->il", "i=2 j=2 k=2 l=2")) == 1


def test_gradients_share_intermediate_results() -> None:
    """Each of the n - 1 contractions of a chain has two gradients; nothing is computed twice."""
    params = [oc.param(f"p{n}", a) for n, a in enumerate(arrays("ij,jk,kl,lm,mn->", dict.fromkeys("ijklmn", 32)))]
    y = oc.einsum("ij; jk; kl; lm; mn => in", *params)
    ctx = oc.Context("llvm")
    loss = (y * y).sum()
    ctx.init(loss)
    stages = ctx.compile(train.grad_update(loss)).stages()
    products = [line for line in str(stages["eliminate_dead_code"]).splitlines() if "+=" in line and " * " in line]
    assert sum("p" in line for line in products if not line.strip().startswith("loss")) == 4 * 3


@pytest.mark.parametrize(("spec", "want"), [("o=+k => o", [2, 3, 3, 2]), ("2*o[1,0]+k => o", [2, 3])])
def test_windows_over_a_constant_count_its_cells(spec: str, want: list[int], backend: str) -> None:
    np.testing.assert_array_equal(oc.full(1.0, o=[4]).sum(spec, k=3).numpy(oc.Context(backend)), want)


def test_windows_over_a_constant_in_code(backend: str) -> None:
    x, y = oc.tensor(np.ones(3, "float32")), oc.node("y", output=[5])
    with oc.cd("windows") as code:
        y["=:+", "o=+k; k => o"] = oc.full(1.0, o=[5]) * x
    ctx = oc.Context(backend)
    ctx.run(code)
    np.testing.assert_array_equal(ctx[y], [2, 3, 3, 3, 2])
