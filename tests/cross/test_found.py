"""What generated programs once found, as small as it gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shrink_programs import recalled

import ocannl as oc
from ocannl import train
from ocannl.testing.oracles import compare_backend, differs

KEPT = sorted((Path(__file__).parent / "found").glob("*.py"))


@pytest.fixture
def ctx(backend: str) -> Any:
    with oc.settings(cache=False, verify="every"):
        yield oc.Context(backend)


def ones(*shape: int, batch: int = 0) -> oc.Tensor:
    return oc.tensor(np.ones(shape), batch_axes=batch)


def test_a_slice_of_an_expression_does_not_make_it_grow(ctx: Any) -> None:
    doubled = ones(2, 3, batch=1) * 2
    row = doubled[1]
    assert (row.dims, doubled.dims) == ((3,), (2, 3))
    ctx.run(row.forward)
    assert ctx[row].tolist() == [2, 2, 2]


def test_a_row_variable_that_reads_an_expression_does_not_make_it_grow() -> None:
    doubled = ones(2, 3) * 2
    summed = oc.einsum("i... => i", doubled)
    assert (doubled.dims, summed.dims) == ((2, 3), (2,))


def test_what_follows_a_slice_or_a_row_variable_of_an_expression() -> None:
    assert oc.sin((ones(4, 4, batch=2) * 2)[0]).dims == (4,)
    assert oc.sin(oc.einsum("i... => ...", ones(4, 4) * 2)).dims == (4,)


def test_a_slice_of_what_a_row_variable_moved() -> None:
    moved = oc.einsum("j ..r..|u => ..r.. u|", -ones(1, 2, 4, batch=2))
    assert (moved * 2)[0].dims == (4,)
    assert moved.dims == (2, 4)


def test_a_slice_of_what_a_row_variable_moved_before_two_axes() -> None:
    moved = oc.einsum("j ..r..|pu => ..r.. u p|", -ones(1, 2, 4, 4, batch=2))
    assert (moved * 2)[0].dims == (4, 4)


def test_a_symbol_picks_from_an_expression_whose_shape_is_open() -> None:
    w, v = oc.param(batch=[2], input=[3], output=[2]), oc.param(b=[2], i=[2], o=[])
    assert (v @ w)[oc.symbol("n", 0, 2)].dims == (3,)


def test_data_without_axes_is_uploaded(ctx: Any) -> None:
    y = oc.tensor(np.array(3.0)) * 2
    ctx.run(y.forward)
    assert ctx[y] == 6


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_the_largest_product_of_narrow_numbers_has_a_gradient(ctx: Any, kind: str) -> None:
    a, b = (oc.param(n, np.array(v).astype(oc.tensor([1.0], dtype=kind).dtype.numpy))
            for n, v in (("a", [0.3, 0.7, 0.9]), ("b", [0.7, 0.9, 0.33])))  # fmt: skip
    largest = oc.einsum("i;i => ", a, b, reduce="max")
    ctx.init(largest)
    ctx.run(train.grad_update(largest))
    np.testing.assert_allclose(ctx[a.grad].astype("float64"), [0, 0.9, 0], rtol=1e-2)
    np.testing.assert_allclose(ctx[b.grad].astype("float64"), [0, 0.7, 0], rtol=1e-2)


def test_the_logarithm_of_a_literal_base_is_exact(ctx: Any) -> None:
    w = oc.param("w", np.array([0.5, 1.5]))
    loss = (2**w).sum()
    ctx.init(loss)
    ctx.run(train.grad_update(loss))
    np.testing.assert_allclose(ctx[w.grad], np.log(2) * 2 ** np.array([0.5, 1.5]), rtol=1e-14)


def test_rows_of_three_cells_are_summed(ctx: Any) -> None:
    rows = np.arange(27.0).reshape(3, 3, 3)
    w = oc.tensor(rows, batch_axes=2, input_axes=1)
    product = w @ w
    ctx.run(product.forward)
    assert np.array_equal(ctx[product], rows.sum(-1, keepdims=True) * rows)


def test_a_mean_counts_what_it_sums(ctx: Any) -> None:
    square = oc.tensor(6 * np.eye(3))
    for spec, want in (("ii => ", 6), ("i0 => i", [6, 0, 0]), ("ij => i", [2, 2, 2])):
        mean = square.mean(spec)
        ctx.run(mean.forward)
        assert ctx[mean].tolist() == want


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_what_was_kept_agrees(path: Path, backend: str) -> None:
    case, want = recalled(path)
    for name, array in want.items():
        node = case.built.tensors[name].node
        assert not differs(case.wants[-1][node], array, node, case.kind), name
    assert compare_backend([case], backend) == [None]


def test_a_sum_that_fills_what_an_earlier_one_read_a_copy_of(ctx: Any) -> None:
    random = np.random.default_rng(0)
    first, second, third = (random.standard_normal(dims).astype(np.float32) for dims in ((64, 64), (200, 64), (200, 5)))
    a, b = oc.param("a", first, output=[64, 64]), oc.param("b", second, output=[200, 64])
    g, s = oc.param("g", third, output=[200, 5]), oc.param("s", np.zeros((64, 5), np.float32), output=[64, 5])
    h = oc.einsum("i,m;k,m=>i,k", a, b)
    y = oc.einsum("i,k;k,j=>i,j", h, g)

    @oc.cd
    def update(b: oc.Tensor, s: oc.Tensor, y: oc.Tensor) -> None:
        s += y
        b += 1.0

    step = oc.seq(y.forward, update(b, s, y))
    for node, array in ((a, first), (b, second), (g, third), (s, np.zeros((64, 5), np.float32))):
        ctx[node] = array
    ctx.compile(oc.seq(step, step), keep=[h, y])()
    wanted = [first.astype(np.float64) @ (second + step).T for step in (0, 1)]
    np.testing.assert_allclose(ctx[h], wanted[1], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(ctx[y], wanted[1] @ third, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(ctx[s], sum(matrix @ third for matrix in wanted), rtol=1e-3, atol=1e-3)
