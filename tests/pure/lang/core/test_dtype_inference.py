"""Data type inference: explicit types, types of results, and types that consumers determine."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.base.config import FLOATS
from ocannl.ir.precision import PRECISIONS

HALF = np.ones(3, np.float16)


def types(*tensors: oc.Tensor) -> str:
    return " ".join(t.dtype.name for t in tensors)


def test_a_leaf_takes_the_type_of_the_consumer() -> None:
    w, x = oc.param("w"), oc.tensor(HALF)
    y = w @ x
    assert types(w, x, y, w.grad, y.grad) == "float16 float16 float16 float16 float16"


def test_a_leaf_takes_the_promoted_type_of_several_consumers() -> None:
    w = oc.param("w", o=[3])
    narrow = w * oc.tensor(HALF)
    brain = w * oc.placeholder("x", o=[3], dtype=oc.bfloat16)
    assert types(narrow, brain, w) == "float16 bfloat16 float32"
    assert str(w.typing).startswith("float32, settled by `narrow` (test_dtype_inference.py:")
    assert ", float16 and `brain` (" in str(w.typing)


def test_leaves_alone_hold_the_default() -> None:
    w, b, x = oc.param("w", o=[2]), oc.param("b", 0.0), oc.placeholder("x", o=[3])
    y = oc.relu(w @ x + b)
    assert types(w, b, x, y, y * oc.tensor(np.ones(2, np.float16))) == "float32 float32 float32 float32 float32"


LEAVES = {
    "literal": lambda: oc.tensor([1.0, 2.0, 3.0]),
    "param": lambda: oc.param("w", o=[3]),
    "param of a number": lambda: oc.param(0.5, o=[3]),
    "param of a literal": lambda: oc.param([1.0, 2.0, 3.0]),
    "param of an initializer": lambda: oc.param(oc.normal(), o=[3]),
    "param of an expression": lambda: oc.param(oc.normal() * 0.1 + 1, o=[3]),
    "placeholder": lambda: oc.placeholder("p", o=[3]),
    "node": lambda: oc.node("n", output=[3]),
    "full": lambda: oc.full(2.0, o=[3]),
    "arange": lambda: oc.arange(3),
    "init": lambda: oc.init(lambda i: i, o=[3]),
    "uniform": lambda: oc.uniform(o=[3], key="k"),
    "normal": lambda: oc.normal(o=[3], key="k"),
    "bernoulli": lambda: oc.bernoulli(0.5, o=[3], key="k"),
    "one_hot": lambda: oc.one_hot(oc.tensor(np.int32(1)), 3),
}


@pytest.mark.parametrize("name", LEAVES)
def test_every_leaf_is_open_until_used(name: str) -> None:
    t = LEAVES[name]()
    assert types(t * oc.tensor(HALF), t) == "float16 float16"
    assert types(LEAVES[name]()) == "float32"
    with oc.use_precision("bfloat16"):
        t = LEAVES[name]()
    assert types(t + 1, t) == "bfloat16 bfloat16"


EXPLICIT = {
    "array": lambda: oc.tensor(np.ones(3)),
    "literal": lambda: oc.tensor([1.0, 2.0, 3.0], dtype=float),
    "param": lambda: oc.param("w", o=[3], dtype=float),
    "param of an array": lambda: oc.param(np.ones(3)),
    "param of an expression": lambda: oc.param(oc.tensor(np.ones(3)) * 2),
    "placeholder": lambda: oc.placeholder("p", o=[3], dtype="float64"),
    "node": lambda: oc.node("n", output=[3], dtype="float64"),
    "uniform": lambda: oc.uniform(o=[3], key="k", dtype="float64"),
    "with_dtype": lambda: oc.param("w", o=[3]).with_dtype(oc.float64),
    "cast": lambda: oc.param("w", o=[3]).astype("float64"),
}


@pytest.mark.parametrize("name", EXPLICIT)
def test_explicit_types_take_precedence(name: str) -> None:
    with oc.use_precision("bfloat16"):
        t = EXPLICIT[name]()
    assert types(t * oc.tensor(HALF), t) == "float64 float64"


def test_a_cast_does_not_constrain_the_operand() -> None:
    w = oc.param("w", o=[3])
    y = w.astype("float16") * oc.tensor(HALF)
    assert types(y, w, w.grad) == "float16 float32 float32"


def test_conditions_do_not_constrain_types() -> None:
    on, x = oc.placeholder("on", o=[3]), oc.tensor(HALF)
    assert types(oc.where(on, x, 0.0), on) == "float16 float32"


def test_integers_beside_open_leaves_make_floats() -> None:
    x = oc.placeholder("x", o=[3])
    assert types(x + oc.tensor(np.arange(3)), oc.exp(oc.tensor(np.arange(3)))) == "float32 float32"
    with oc.use_precision("float16"):
        x = oc.placeholder("x", o=[3])
        assert types(x + oc.tensor(np.arange(3)), oc.exp(oc.tensor(np.arange(3)))) == "float16 float16"


def test_sums_of_narrow_numbers_are_means_of_their_type() -> None:
    assert types(oc.tensor(HALF).mean(), oc.tensor(HALF).var()) == "float16 float16"
    with oc.use_precision("bfloat16"):
        x = oc.placeholder("x", o=[3])
        y = x.mean()
    assert types(y, x) == "bfloat16 bfloat16"


def test_numbers_do_not_constrain_types() -> None:
    assert types(oc.tensor(HALF) * 2.5, 1 - oc.tensor(HALF)) == "float16 float16"
    two = oc.tensor(2.0)
    assert types(two * oc.tensor(HALF), two) == "float16 float16"


# --- settling --------------------------------------------------------------------------------------------------------


def test_printing_settles_no_types() -> None:
    w = oc.param("w", o=[3])
    assert repr(w) == "<w: ...->3 float32>"
    y = w * oc.tensor(HALF)
    assert repr(w) == "<w: ...->3 float16>" and y.dtype is oc.float16


def test_a_settled_leaf_is_as_weak_as_before() -> None:
    w = oc.param("w", o=[3])
    assert w.dtype is oc.float32
    assert types(w * oc.tensor(HALF), w) == "float16 float32"


REFUSALS = {
    "twice": (
        lambda x: x.with_dtype("float16").with_dtype("bfloat16"),
        r"`x` \(.*\) is float16, settled by with_dtype \(.*\); with_dtype \(.*\) requests bfloat16",
    ),
    "read already": (
        lambda x: ((s := x + 1), s * 2, s.with_dtype("float16")),
        r"`s` \(.*\) is float32, settled by `mul` \(test_dtype_inference.py:\d+\); with_dtype \(.*\) requests float16",
    ),
    "asked already": (
        lambda x: (x.dtype, x.with_dtype("float16")),
        r"`x` \(.*\) is float32, settled by its use \(test_dtype_inference.py:\d+\); with_dtype .* requests float16",
    ),
    "said where it was made": (
        lambda _: oc.tensor(HALF).with_dtype("float32"),
        r"`data` \(.*\) is float16, settled by its creation; with_dtype .* requests float32",
    ),
    "relied on by a leaf": (
        lambda x: ((y := x * 2), x.dtype, y.with_dtype("float16")),
        r"`y` \(.*\) is float32, settled by `x` \(.*\); with_dtype .* requests float16",
    ),
    "of another kind": (
        lambda x: x.with_dtype("int32"),
        r"with_dtype \(.*\) cannot make int32 of float32: x.astype\(oc.int32\) converts",
    ),
    "an integer gradient": (lambda _: oc.param("w", grad_dtype="int32"), "gradients are floats, not int32"),
    "an integer by default": (lambda _: oc.use_precision("int32").__enter__(), "are floats, not int32"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_contradicting_types_are_errors(case: str) -> None:
    act, message = REFUSALS[case]
    with pytest.raises(oc.DtypeError, match=message):
        act(oc.placeholder("x", o=[3]))


# --- gradients -------------------------------------------------------------------------------------------------------


def test_gradient_types_may_differ_from_value_types() -> None:
    with oc.use_precision("bfloat16", gradients="float32"):
        w, x = oc.param("w", o=[2]), oc.placeholder("x", o=[3])
        y = oc.relu(w @ x)
    loss = y.sum()
    assert types(w, x, y, loss) == "bfloat16 bfloat16 bfloat16 bfloat16"
    assert types(w.grad, y.grad, loss.grad) == "float32 float32 float32"


def test_gradient_type_of_a_single_parameter() -> None:
    w = oc.param("w", o=[3], dtype="bfloat16", grad_dtype="float32")
    y = w * oc.param("v", dtype="float16")
    assert types(w, y, w.grad, y.grad) == "bfloat16 float32 float32 float32"


def test_explicit_type_of_a_gradient() -> None:
    w = oc.param("w", o=[3], dtype="bfloat16")
    assert w.grad is not None
    w.grad.with_dtype("float32")
    assert types(w, w.grad) == "bfloat16 float32"


def test_master_weights_receive_wide_gradients() -> None:
    w = oc.param("w", o=[3], dtype="float32")
    narrow = w.astype("bfloat16")
    y = narrow * oc.placeholder("x", o=[3], dtype="bfloat16")
    assert types(w, narrow, y, w.grad, narrow.grad) == "float32 bfloat16 bfloat16 float32 bfloat16"


# --- code ------------------------------------------------------------------------------------------------------------


def test_state_nodes_take_the_type_of_stored_values() -> None:
    w = oc.param("w", o=[3])
    loss = (w * oc.tensor(np.ones(3))).sum()
    with oc.cd():
        delta = oc.node("delta")
        delta[...] = w.grad + 0.1 * w
        loose = oc.node("loose")
        oc.assign(loose, "mul", delta, 0.5)
    assert types(loss, w, delta, loose) == "float64 float64 float64 float64"
    assert str(w.typing).startswith("float64, settled by `mul` (")


def test_an_optimizer_does_not_change_types_of_the_model() -> None:
    w = oc.param("w", o=[3])
    loss = (w * oc.tensor(HALF)).sum()
    train.sgd(loss, 0.1, momentum=0.9, weight_decay=0.1)
    assert types(w, loss) == "float16 float16"


def test_a_literal_in_code_stays_weak() -> None:
    out = oc.node("out")
    with oc.cd():
        out[...] = oc.tensor(HALF) * oc.tensor([1.0, 2.0, 3.0])
    assert types(out) == "float16"


# --- settings --------------------------------------------------------------------------------------------------------


def test_default_types_from_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCANNL_PRECISION", "bfloat16")
    monkeypatch.setenv("OCANNL_GRADIENT_PRECISION", "float32")
    w = oc.param("w", o=[3])
    assert types(w, w.grad) == "bfloat16 float32"
    with oc.use_precision("float64", gradients="float64"):
        w = oc.param("w", o=[3])
    assert types(w, w.grad) == "float64 float64"


def test_the_default_applies_where_a_leaf_is_created() -> None:
    with oc.use_precision("float64"):
        w = oc.param("w", o=[3])
    assert types(w * 2, oc.param("v", o=[3]) * 2) == "float64 float32"


def test_every_float_can_be_the_default() -> None:
    assert set(FLOATS) == {p.name for p in PRECISIONS if p.is_float}
    for name in FLOATS:
        with oc.use_precision(name):
            assert types(oc.param("w", o=[3])) == name


def test_long_chains_of_expressions_have_types() -> None:
    with oc.use_precision("bfloat16"):
        w = oc.param("w", o=[2])
    t = w
    for _ in range(3000):
        t = t + 1
    assert types(t, w) == "bfloat16 bfloat16"
