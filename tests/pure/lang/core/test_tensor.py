"""Tensors: operators build expressions, equality is identity, and conversions that need a value are errors."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ocannl as oc

A = np.array([1.5, -2.0, 0.0, 3.0])
B = np.array([2.0, 0.5, 1.0, -1.0])


@pytest.fixture
def x() -> oc.Tensor:
    return oc.tensor(A, label="x")


@pytest.fixture
def y() -> oc.Tensor:
    return oc.tensor(B, label="y")


# --- operators -------------------------------------------------------------------------------------------------------

BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.mod, operator.lt, operator.le, operator.gt,
    operator.ge,
]  # fmt: skip


@pytest.mark.parametrize("op", BINARY)
def test_binary_operators_equal_numpy(op: Callable[[Any, Any], Any], x: Any, y: Any, oracle: Any) -> None:
    np.testing.assert_array_equal(oracle(op(x, y)), op(A, B))
    np.testing.assert_array_equal(oracle(op(x, 2.0)), op(A, 2.0))
    np.testing.assert_array_equal(oracle(op(2, y)), op(2, B))
    np.testing.assert_array_equal(oracle(op(np.float64(2.5), y)), op(2.5, B))
    np.testing.assert_array_equal(oracle(op(A, y)), op(A, B))
    np.testing.assert_array_equal(oracle(op(x, B)), op(A, B))


def test_powers(y: Any, oracle: Any) -> None:
    np.testing.assert_allclose(oracle(abs(y) ** 1.5), abs(B) ** 1.5)
    np.testing.assert_allclose(oracle(y**2), B**2)
    np.testing.assert_allclose(oracle(2.0**y), 2.0**B)
    np.testing.assert_allclose(oracle(2**y), 2.0**B)


def test_logic_operators_take_nonzero_as_true(x: Any, y: Any, oracle: Any) -> None:
    np.testing.assert_array_equal(oracle(x & y), [1, 1, 0, 1])
    np.testing.assert_array_equal(oracle(x | 0), [1, 1, 0, 1])
    np.testing.assert_array_equal(oracle(1 & x), [1, 1, 0, 1])
    np.testing.assert_array_equal(oracle(0 | x), [1, 1, 0, 1])
    np.testing.assert_array_equal(oracle(~x), [0, 0, 1, 0])


def test_unary_operators(x: Any, oracle: Any) -> None:
    np.testing.assert_array_equal(oracle(-x), -A)
    np.testing.assert_array_equal(oracle(+x), A)
    np.testing.assert_array_equal(oracle(abs(x)), abs(A))


def test_methods_are_the_functions(x: Any, oracle: Any) -> None:
    for name in ("relu", "sat01", "exp", "exp2", "sin", "cos", "tanh", "abs", "sigmoid", "silu", "gelu"):
        np.testing.assert_array_equal(oracle(getattr(x, name)()), oracle(getattr(oc, name)(x)), err_msg=name)
    for name in ("log", "log2", "sqrt", "recip", "recip_sqrt"):
        np.testing.assert_array_equal(oracle(getattr(abs(x) + 1, name)()), oracle(getattr(oc, name)(abs(x) + 1)))


def test_rows_broadcast_independently(oracle: Any) -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    left, right = oc.tensor(a, batch_axes=1), oc.tensor(b, input_axes=1)  # 2|3 and 4->3
    total = left + right
    assert str(total.shape) == "2|4->3"
    np.testing.assert_array_equal(oracle(total), a[:, :, None] + b)
    tall = oc.tensor(a.reshape(2, 1, 3)) * oc.tensor(b.reshape(4, 3)[:1])
    assert str(tall.shape) == "2,1,3"


def test_matmul_contracts_rows(oracle: Any) -> None:
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(2, 3, 4, 5)), rng.normal(size=(7, 4, 5))
    product = oc.tensor(w, input_axes=2) @ oc.tensor(x, batch_axes=1)
    assert str(product.shape) == "7|2,3"
    np.testing.assert_allclose(oracle(product), np.einsum("abij,nij->nab", w, x))
    two = oc.tensor(w[0, 0], input_axes=1) @ oc.tensor(rng.normal(size=(5, 6)), input_axes=1)
    assert str(two.shape) == "6->4"
    np.testing.assert_allclose(oracle(np.eye(4)[0] * oc.tensor(x[0, :, 0])), np.eye(4)[0] * x[0, :, 0])


def test_transpose_swaps_input_and_output(oracle: Any) -> None:
    a = np.arange(24.0).reshape(2, 3, 4)
    t = oc.tensor(a, batch_axes=1, input_axes=1).T
    assert str(t.shape) == "2|3->4"
    np.testing.assert_array_equal(oracle(t), a.transpose(0, 2, 1))


def test_a_slice_takes_the_leftmost_batch_axis(oracle: Any) -> None:
    a = np.arange(24.0).reshape(2, 3, 4)
    x = oc.tensor(a, batch_axes=2)
    n = oc.symbol("n", 0, 2)
    np.testing.assert_array_equal(oracle(x[1]), a[1])
    np.testing.assert_array_equal(oracle(x[np.int64(1)][2]), a[1, 2])
    np.testing.assert_array_equal(oracle(x[n], n=1), a[1])
    assert str(x[n].shape) == "3|4"


def test_a_slice_of_an_expression_keeps_the_shape(oracle: Any) -> None:
    a = np.arange(6.0).reshape(2, 3)
    doubled = oc.tensor(a, batch_axes=1) * 2
    row = doubled[1]
    assert (doubled.dims, row.dims) == ((2, 3), (3,))
    np.testing.assert_array_equal(oracle(row), 2 * a[1])


def test_the_same_tensor_twice_is_two_operands(x: Any, oracle: Any) -> None:
    np.testing.assert_array_equal(oracle(x * x), A * A)
    np.testing.assert_array_equal(oracle(oc.einsum("i;j=>ij", x, x)), np.outer(A, A))


# --- identity --------------------------------------------------------------------------------------------------------


def test_equality_between_tensors_is_identity(x: Any, y: Any) -> None:
    assert operator.eq(x, x) is True
    assert operator.eq(x, y) is False
    assert operator.ne(x, y) is True
    assert operator.ne(x, x) is False
    assert x != None  # noqa: E711
    assert x != "x"
    assert {x: 1, y: 2}[x] == 1
    assert [y, x].index(x) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: x == 1, "`==` between tensors is identity; to compare values write oc.eq(a, b)"),
        (lambda x: x == 1.0, "`==` between tensors is identity; to compare values write oc.eq(a, b)"),
        (lambda x: operator.eq(1, x), "`==` between tensors is identity; to compare values write oc.eq(a, b)"),
        (lambda x: x == A, "`==` between tensors is identity; to compare values write oc.eq(a, b)"),
        (lambda x: x != 0, "`!=` between tensors is identity; to compare values write oc.ne(a, b)"),
        (bool, "an expression has no truth value before it is run; use oc.where, or ctx.run and ctx[t]"),
        (lambda x: x and x, "an expression has no truth value before it is run; use oc.where, or ctx.run and ctx[t]"),
        (lambda x: 0 < x < 1, "an expression has no truth value before it is run; use oc.where, or ctx.run and ctx[t]"),
        (len, "a tensor has no length; its sizes are t.dims"),
        (float, "an expression has no value before it is run; use t.numpy(), or ctx.run and ctx[t]"),
        (int, "an expression has no value before it is run; use t.numpy(), or ctx.run and ctx[t]"),
        (complex, "an expression has no value before it is run; use t.numpy(), or ctx.run and ctx[t]"),
        (lambda x: [1, 2][x], "a tensor cannot be an index; x[n] takes an int or a static symbol (oc.symbol)"),
        (copy.copy, "tensors cannot be copied; share them, or read values, as in ctx[t]"),
        (copy.deepcopy, "tensors cannot be copied; share them, or read values, as in ctx[t]"),
        (pickle.dumps, "tensors cannot be pickled; save values by oc.save(path, ctx, t), or read them, as in ctx[t]"),
        (lambda x: x["a"],
         "`x[...]` takes an int or a static symbol (oc.symbol), not 'a': it slices the leftmost batch axis"),
        (lambda x: x[True],
         "`x[...]` takes an int or a static symbol (oc.symbol), not True: it slices the leftmost batch axis"),
        (
            lambda x: x[0:1],
            ("`x[...]` takes an int or a static symbol (oc.symbol), not slice(0, 1, None):"
             ' a part of an axis is oc.concat("a^b => b", x, a=size)'),
        ),
        (lambda x: x[-1], "`x[-1]`: an index must not be negative, since sizes may not be known yet"),
        (lambda x: x + "a", "'a' cannot be an operand of a tensor expression"),
        (lambda x: x + None, "None cannot be an operand of a tensor expression"),
        (lambda x: x + 1j, "1j cannot be an operand of a tensor expression"),
        (lambda x: operator.add(x, [1.0]), "a literal must be converted to a tensor in expressions: oc.tensor([1.0])"),
        (lambda x: (1, 2) * x, "a literal must be converted to a tensor in expressions: oc.tensor((1, 2))"),
        (lambda x: x + x.value, "`x` is a node; use the tensor itself in expressions"),
        (lambda x: oc.tensor(x), "`x` is already a tensor"),
        (lambda x: x.with_label(""), "a label must be a string, not ''"),
        (lambda x: oc.relu(x, x), "oc.relu takes 1 operand, x, not 2"),
        (lambda x: oc.where(x, x), "oc.where takes 3 operands, condition, x, y, not 2"),
        (lambda x: x.find("nope"), "`x` has no dependency named 'nope'; the parameters are []"),
    ],
)
def test_errors_name_an_alternative(x: Any, call: Any, message: str) -> None:
    with pytest.raises(oc.CodeError) as caught:
        call(x)
    assert str(caught.value) == message


@pytest.mark.parametrize("call", [list, tuple, sum, lambda x: 1 in x, lambda x: [*x]])
def test_a_tensor_is_no_sequence(x: Any, call: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError):
        call(x)


@pytest.mark.parametrize("wrong", [True, False, np.True_])
def test_truth_values_take_no_part(x: Any, wrong: Any) -> None:
    with pytest.raises(oc.DtypeError) as caught:
        x + wrong
    assert str(caught.value) == (
        "True and False are not numbers here; write 1.0 and 0.0, or give an array of bools"
    )


# --- labels, parameters, gradients -----------------------------------------------------------------------------------


def test_errors_show_expressions_in_source_form() -> None:
    w, x = oc.param("w", o=[3]), oc.placeholder("x", o=[4], b=[2], i=[])
    with pytest.raises(oc.ShapeError) as caught:
        str((oc.relu(w @ x) * oc.tensor([1.0, 2.0], label="y")).shape)
    text = str(caught.value)
    assert "relu(matmul) * y" in text
    assert all(f"\n  {name} " in text for name in ("w", "y"))


def test_parameters_come_in_order_of_creation_whatever_the_order_of_use() -> None:
    a, b, c = oc.param("a", 1.0), oc.param("b", 1.0), oc.param("c", 1.0)
    assert list(((c * b) + (a * c)).params) == ["a", "b", "c"]
    second = oc.param("a", 2.0)
    assert list((second * a).params) == ["a", "a_2"]
    assert (second * a).params["a_2"] is second
    assert (c * b).find("b") is b


def test_inputs_are_the_leaves_that_are_neither_parameters_nor_numbers() -> None:
    w, x, d = oc.param("w", 1.0), oc.placeholder("x"), oc.tensor([1.0], label="d")
    assert (d * (w * x + 2) * x).inputs() == [x, d]


def test_tensors_with_and_without_gradient() -> None:
    w, x = oc.param("w", 1.0), oc.placeholder("x", o=[2])
    assert w.grad is not None
    assert w.grad is w.grad
    assert x.grad is None
    assert (w * x).grad is not None
    assert (x * 2).grad is None
    assert (w > x).grad is None
    assert oc.stop_gradient(w).grad is None
    assert (w * x).grad.label == "mul.grad" or (w * x).grad.label.endswith(".grad")
    with oc.no_grad():
        assert (w * x).grad is None
        assert oc.param("v").grad is None
    assert (w * x).grad is not None


def test_a_gradient_is_updated_not_replaced() -> None:
    w = oc.param("w", 1.0)
    message = "`w.grad` can be updated in place, not replaced: write `+=` or `w.grad[...] = `"
    for wrong in (w, None, 3.0, oc.param("v", 1.0).grad):
        with pytest.raises(oc.CodeError) as caught:
            w.grad = wrong
        assert str(caught.value) == message


def test_labels_default_to_variable_names() -> None:
    x = oc.placeholder()
    assert (x.label, x.with_label("h").label, x.value.label) == ("x", "h", "h")
    assert oc.relu(x * 1).application.operands[0].label == "mul"


def test_hasattr_infers_nothing() -> None:
    w = oc.param("w", o=[3])
    assert all(hasattr(w, name) for name in ("shape", "grad", "value", "params", "forward", "__array__"))
    assert w.known_shape == "...->3"


# --- gradients of what is written -------------------------------------------------------------------------------------


def test_a_diamond_adds_up() -> None:
    oc.testing.gradcheck(lambda x: (x + 1) * (x + 1), [1.0, 2.0])

    def diamond(x: oc.Tensor) -> oc.Tensor:
        once = x * x
        return once * oc.sin(once) + once

    oc.testing.gradcheck(diamond, [0.5, 1.5])


def test_a_broadcast_operand_receives_the_sum() -> None:
    ones = oc.tensor(np.ones((4, 3)), batch_axes=1)
    oc.testing.gradcheck(lambda b: ones * b, [1.0, 2.0, 3.0])
    oc.testing.gradcheck(lambda a, b: a * b, np.ones((3, 1)), [[1.0, 2.0]])


def test_a_gradient_flows_through_slices_and_transposes() -> None:
    a = np.arange(1.0, 25).reshape(2, 3, 4)
    x = oc.tensor(a, batch_axes=1, input_axes=1)
    oc.testing.gradcheck(lambda x: x[1] * x[0] + x.T[0].T, x)


def test_gradcheck_reports_a_stopped_gradient() -> None:
    with pytest.raises(oc.testing.GradientMismatch, match="argument 1, `x1`"):
        oc.testing.gradcheck(lambda x: x * oc.stop_gradient(x), [2.0])
