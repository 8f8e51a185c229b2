"""Code: the steps of `forward`, `backprop`, `zero_grads` and `init_params`, and concatenation of code."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train


def labels(code: oc.Code) -> list[str]:
    """Labels of the written nodes, in order."""
    from ocannl.ir.assign import assigns

    return [a.lhs.label for a in assigns(code.elaborate().comp)]


def data(label: str = "x") -> oc.Tensor:
    return oc.tensor([1.0, 2.0, 3.0], label=label)


# --- forward ---------------------------------------------------------------------------------------------------------


def test_forward_computes_every_tensor_once_operands_first() -> None:
    x = data()
    a = x * 2
    b = a + a
    c = b * a
    assert labels(c.forward) == ["a", "b", "c"]


def test_code_next_to_code_is_both_and_forward_of_both_shares() -> None:
    a = data() * 2
    b = a + 1
    c = a * 3
    assert labels(oc.seq(b.forward, c.forward)) == ["a", "b", "a", "c"]
    assert labels(oc.forward(b, c)) == ["a", "b", "c"]
    assert labels(oc.forward(b, b)) == ["a", "b"]
    assert labels(oc.forward(c, a)) == ["a", "c"]
    assert labels(oc.forward()) == []


def test_forward_of_leaves_is_empty_and_initializes_no_parameters() -> None:
    w = oc.param("w", 0.5)
    y = data() * w
    assert labels(w.forward) == []
    assert labels(y.forward) == ["y"]
    assert labels(y.init_params) == ["w"]


def test_numbers_and_stops_are_written_into_formulas(listing: Any) -> None:
    x = data()
    y = oc.where(x > 1, x, 0.0)
    assert listing(y.forward) == ["gt[o0] =: x[o0] > 1    over o0<3", "y[o0] =: where(gt[o0], x[o0], 0)    over o0<3"]


def test_asking_for_code_does_not_infer_but_elaborating_does() -> None:
    w = oc.param("w", o=[2])
    y = w @ data()
    code = y.forward
    assert w.known_shape == "...,3->2"
    v = oc.param("v")
    z = v * oc.placeholder("p")
    code = z.forward
    assert v.known_shape.startswith("...")
    code.elaborate()
    assert v.dims == ()


def test_forward_keeps_the_roots() -> None:
    a = data() * 2
    b = a + 1
    assert list(b.forward.keep_reasons) == [b.value]
    assert set(oc.seq(a.forward, b.forward).keep_reasons) == {a.value, b.value}
    assert list((b * 1).forward.elaborate().keep_reasons.values()) == ["result of forward"]


# --- gradients -------------------------------------------------------------------------------------------------------


def test_backprop_is_in_reverse_order_and_seeds_nothing() -> None:
    w = oc.param("w", 1.0)
    a = w * 2
    b = oc.sin(a)
    c = b * a
    assert labels(c.backprop) == ["b.grad", "a.grad", "a.grad", "w.grad"]
    assert set(labels(c.zero_grads)) == {"w.grad", "a.grad", "b.grad", "c.grad"}


def test_a_gradient_update_zeroes_runs_seeds_and_goes_back() -> None:
    w = oc.param("w", 1.0, o=[])
    y = w * w
    code = train.grad_update(y)
    assert labels(code) == ["y", "w.grad", "y.grad", "y.grad", "w.grad", "w.grad"]
    assert code.elaborate().name == "y grad update"


def test_tensors_without_gradient_contribute_no_code() -> None:
    w, x = oc.param("w", 1.0, o=[3]), data()
    y = (w * x) * (x + 1)
    assert labels(y.backprop) == ["mul.grad", "w.grad"]
    with oc.no_grad():
        frozen = oc.sin(w)
    z = frozen * w
    assert labels(z.backprop) == ["w.grad"]


def test_backprop_without_gradient_is_an_error() -> None:
    for t in (data(), data() * 2, oc.stop_gradient(oc.param("w", 1.0)), oc.param("v", 1.0) > 0):
        message = f"`{t.label}` has no gradient: it depends on no parameter, or was built inside oc.no_grad()"
        with pytest.raises(oc.CodeError) as caught:
            t.backprop  # noqa: B018
        assert str(caught.value) == message
    assert labels(data().zero_grads) == []


@pytest.mark.parametrize("loss", [3.0, None, "x"])
def test_a_gradient_update_needs_a_loss(loss: Any) -> None:
    with pytest.raises(oc.CodeError, match="has no gradient: a loss must depend on a parameter"):
        train.grad_update(loss)


def test_gradients_accumulate_over_uses_and_calls(oracle: Any) -> None:
    w = oc.param("w", [2.0, 3.0])
    y = w * w
    with oc.cd() as seed:
        y.grad["=:"] = 1.0
    once = oc.seq(y.forward, y.zero_grads, seed, y.backprop)
    assert oracle.after(once, w.grad)[0].tolist() == [4, 6]
    (twice,) = oracle.after(oc.seq(once, y.backprop), w.grad)
    assert twice.tolist() == [8, 12]


# --- initial values --------------------------------------------------------------------------------------------------


def test_initial_values_are_filled_copied_or_computed(listing: Any) -> None:
    a, b = oc.param("a", 0.5, o=[2]), oc.param("b", [1.0, 2.0])
    c = oc.param("c", 2.0 * oc.arange(2))
    y = a * b * c
    text = "\n".join(listing(y.init_params))
    assert "a[i0] =: 0.5    over i0<2" in text
    assert "c[o0] =: mul[o0]    over o0<2" in text
    assert "b[" not in text  # initialized by contents
    assert set(y.init_params.keep_reasons) == {a.value, b.value, c.value}


# --- putting code together -------------------------------------------------------------------------------------------


def test_seq_is_flat_and_keeps_headings(listing: Any) -> None:
    w = oc.param("w", 1.0, o=[])
    y = (w * w).with_label("y")
    lines = listing(oc.seq(train.grad_update(y), train.sgd(y, 0.5)))
    assert lines[0] == "# y grad update"
    assert lines[-3:] == ["# y sgd update", "  # sgd_one", "    w =- 0.5 * w.grad"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: oc.seq(1),
            "oc.seq takes code such as t.forward or the result of an `oc.cd` function, not 1",
        ),
        (
            lambda x: oc.seq(x),
            "oc.seq takes code such as t.forward or the result of an `oc.cd` function, not <x: 3 float32>",
        ),
        (lambda x: oc.forward(1), "oc.forward takes tensors, not 1"),
        (lambda x: (x * 1).forward(), "code is spliced by calling it inside `oc.cd`; to run it use ctx.run(code)"),
        (
            lambda x: bool((x * 1).forward),
            "code has no truth value; compile it with ctx.compile(code) or run it with ctx.run(code)",
        ),
    ],
)
def test_errors_for_misplaced_code(call: Any, message: str) -> None:
    with pytest.raises(oc.CodeError) as caught:
        call(data())
    assert str(caught.value) == message


def test_state_does_not_leak_between_threads() -> None:
    inside: list[Any] = []
    with oc.no_grad():
        thread = threading.Thread(target=lambda: inside.append(oc.param("w", 1.0).grad))
        thread.start()
        thread.join()
        assert oc.param("w", 1.0).grad is None
    assert inside[0] is not None


def test_long_chains_need_no_recursion() -> None:
    x = oc.param("x", 1.0, o=[])
    t = x
    for _ in range(3000):
        t = t + x
    assert len(labels(t.forward)) == 3000
    assert len(labels(t.backprop)) > 3000


def test_values_of_a_small_network_equal_numpy(oracle: Any) -> None:
    rng = np.random.default_rng(0)
    xs, w, b = rng.normal(size=(5, 4)), rng.normal(size=(3, 4)), rng.normal(size=3)
    x = oc.tensor(xs, batch_axes=1)
    y = oc.relu(oc.param("w", w, i=[4], o=[3]) @ x + oc.param("b", b))
    np.testing.assert_allclose(oracle(y.mean()), np.maximum(xs @ w.T + b, 0).mean())
    np.testing.assert_allclose(oracle(y.max("...|o => ...|0"))[:, 0], np.maximum(xs @ w.T + b, 0).max(1))
