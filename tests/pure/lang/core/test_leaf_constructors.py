"""Leaves: data, parameters, placeholders, nodes, initializers, numbers; and errors of their creation."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ocannl as oc

DTYPE_NAMES = (
    "bool, uint8, uint16, uint32, uint64, int8, int16, int32, int64, float8_e5m2, float8_e4m3fn, float16, bfloat16, "
    "float32, float64"
)


# --- shapes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: oc.tensor(3), ""),
        (lambda: oc.tensor([1, 2, 3]), "3"),
        (lambda: oc.tensor([(1, 2, 3), (4, 5, 6)]), "3->2"),
        (lambda: oc.tensor((1, 2, 3)), "3->"),
        (lambda: oc.tensor(([1, 2, 3], [4, 5, 6])), "2->3"),
        (lambda: oc.tensor(oc.batch([1, 2], [3, 4], [5, 6])), "3|2"),
        (lambda: oc.tensor(oc.batch(oc.batch((1, 2)))), "1,1|2->"),
        (lambda: oc.tensor([[[1], [2]], [[3], [4]], [[5], [6]]]), "3,2,1"),
        (lambda: oc.tensor(np.ones((2, 3, 4))), "2,3,4"),
        (lambda: oc.tensor(np.ones((2, 3, 4)), batch_axes=1, input_axes=1), "2|4->3"),
        (lambda: oc.tensor(np.ones((2, 3, 4)), batch_axes=3), "2,3,4|"),
        (lambda: oc.tensor(np.ones((2, 3, 4)), input_axes=3), "2,3,4->"),
        (lambda: oc.tensor(np.ones((0, 3))), "0,3"),
        (lambda: oc.tensor(range(4)), "4"),
        (lambda: oc.param(o=[3], i=[4, 5], b=[2]), "2|4,5->3"),
        (lambda: oc.param(output=[3], input=[]), "3"),
        (lambda: oc.param(shape="32|28,28->10"), "32|28,28->10"),
        (lambda: oc.param(shape="28,28->10"), "28,28->10"),
        (lambda: oc.param(shape="row=28,28->10"), "row=28,28->10"),
        (lambda: oc.param(o=[3], square=True), "3->3"),
        (lambda: oc.param([[1.0, 2.0], [3.0, 4.0]]), "2,2"),
        (lambda: oc.param([(1.0, 2.0), (3.0, 4.0), (5.0, 6.0)]), "2->3"),
        (lambda: oc.param(np.ones((2, 3)), i=[3], o=[2]), "3->2"),
        (lambda: oc.placeholder("x", batch=[7], output=[("rgb", 3)], input=[]), "7|rgb=3"),
        (lambda: oc.tensor(2.0, units=("q",)), "q=1"),
        (lambda: oc.tensor([(1, 2, 3), (4, 5, 6)], units=("row", None)), "3->row=2"),
        (lambda: oc.arange(5), "5"),
        (lambda: oc.arange(0), "0"),
        (lambda: oc.full(2.0, output=[3], b=[], i=[]), "3"),
    ],
)
def test_rows_of_leaves(make: Callable[[], oc.Tensor], shape: str) -> None:
    assert str(make().shape) == shape


def test_memory_order_is_batch_output_input() -> None:
    assert oc.param(b=[2], i=[3, 4], o=[5]).dims == (2, 5, 3, 4)
    assert oc.tensor(np.ones((2, 3, 4)), batch_axes=1, input_axes=1).dims == (2, 3, 4)


def test_unsolved_rows_print_as_dots_and_printing_solves_nothing() -> None:
    w = oc.param("w", o=[3])
    assert w.known_shape == "...->3"
    assert repr(w) == "<w: ...->3 float32>"
    assert w.known_shape == "...->3"
    w @ oc.tensor([1.0, 2.0])
    assert str(w.shape) == "2->3"


def test_units_name_axes() -> None:
    x = oc.tensor(np.ones((5, 2, 3)), batch_axes=1, units=(None, "h", "rgb"))
    assert [(axis.size, axis.unit) for axis in x.shape.output] == [(2, "h"), (3, "rgb")]
    assert x.shape.batch[0].unit is None


def test_rows_of_a_parameter_are_inferred_from_use() -> None:
    x = oc.tensor(np.ones((5, 3, 4)), batch_axes=1, input_axes=1)
    w, b = oc.param(o=[2]), oc.param()
    (w @ x) + b
    assert w.dims == (2, 3)
    assert b.dims == (2, 4)


# --- types -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (lambda: oc.tensor([1, 2]), oc.float32),
        (lambda: oc.tensor(1), oc.float32),
        (lambda: oc.tensor([1, 2], dtype="int32"), oc.int32),
        (lambda: oc.tensor([1, 2], dtype=np.uint8), oc.uint8),
        (lambda: oc.tensor([1, 2], dtype=oc.bfloat16), oc.bfloat16),
        (lambda: oc.tensor([2**63], dtype="uint64"), oc.uint64),
        (lambda: oc.tensor(np.ones(2)), oc.float64),
        (lambda: oc.tensor(np.ones(2, "float16")), oc.float16),
        (lambda: oc.tensor(np.ones(2, ml_dtypes.bfloat16)), oc.bfloat16),
        (lambda: oc.tensor(np.ones(2, ml_dtypes.float8_e4m3fn)), oc.float8_e4m3fn),
        (lambda: oc.tensor(np.ones(2, "int8")), oc.int8),
        (lambda: oc.tensor(np.ones(2, "int16")), oc.int16),
        (lambda: oc.tensor(np.ones(2, np.longdouble)), oc.float64),
        (lambda: oc.tensor(np.ones(2, ">f4")), oc.float32),
        (lambda: oc.tensor(np.array([True])), oc.bool),
        (lambda: oc.tensor([1, 2], grad=True), oc.float32),
        (lambda: oc.tensor(np.array([1, 2]), grad=True), oc.float32),
        (lambda: oc.param(o=[2]), oc.float32),
        (lambda: oc.param(np.ones(2, "float16")), oc.float16),
        (lambda: oc.param(np.ones(2), dtype="float32"), oc.float32),
        (lambda: oc.param([1.0], dtype="bfloat16"), oc.bfloat16),
        (lambda: oc.placeholder(dtype="int64"), oc.int64),
        (lambda: oc.node("n", dtype="float64"), oc.float64),
        (lambda: oc.arange(3, dtype="float32"), oc.float32),
    ],
)
def test_types_are_kept_and_literals_are_weak(make: Callable[[], oc.Tensor], dtype: Any) -> None:
    assert make().dtype is dtype


@pytest.mark.parametrize(
    ("left", "right", "dtype"),
    [
        (np.ones(2, "float16"), 2.5, oc.float16),
        (np.ones(2, "float16"), np.float64(2.5), oc.float16),
        (np.ones(2, "float64"), np.ones(2, "float32"), oc.float64),
        (np.ones(2, "float16"), np.ones(2, ml_dtypes.bfloat16), oc.float32),
        (np.ones(2, "int32"), np.ones(2, "float16"), oc.float16),
        (np.ones(2, "int32"), np.ones(2, "int64"), oc.int64),
        (np.ones(2, "int32"), 2, oc.int32),
    ],
)
def test_numbers_take_the_type_of_their_partner(left: Any, right: Any, dtype: Any) -> None:
    assert (oc.tensor(left) * right).dtype is dtype
    assert (right * oc.tensor(left)).dtype is dtype


# --- contents --------------------------------------------------------------------------------------------------------


def test_literals_are_laid_out_by_kind_of_bracket(oracle: Any) -> None:
    blocks = oc.tensor(oc.batch([(1, 2, 3), (4, 5, 6)], [(7, 8, 9), (10, 11, 12)]))
    assert oracle(blocks + 0).tolist() == np.arange(1.0, 13).reshape(2, 2, 3).tolist()
    columns = oc.tensor(([1, 2, 3], [4, 5, 6]))  # input axis outside: memory has the output axis first
    assert oracle(columns + 0).tolist() == [[1, 4], [2, 5], [3, 6]]


def test_arrays_of_any_layout(oracle: Any) -> None:
    base = np.arange(24, dtype="float32").reshape(4, 6)
    for view in (base[::2, ::-1], base.T, np.broadcast_to(base[0], (3, 6)), base.astype(">f4")):
        assert np.array_equal(oracle(oc.tensor(view) + 0), view)


def test_arrays_are_copied(oracle: Any) -> None:
    a = np.array([1.0, 2.0])
    x = oc.tensor(a)
    a[0] = 5
    assert oracle(x + 0).tolist() == [1, 2]
    a.setflags(write=False)
    assert oracle(oc.tensor(a) + 0).tolist() == [5, 2]


def test_non_finite_literals_are_numbers(oracle: Any) -> None:
    result = oracle(oc.tensor([float("nan"), float("inf"), -float("inf")]) * 1)
    assert np.isnan(result[0])
    assert result[1:].tolist() == [np.inf, -np.inf]


def test_objects_with_dlpack_or_array_interface_are_data(oracle: Any) -> None:
    class Exporter:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array([1.0, 2.0])

    class Dlpack:
        array = np.array([3.0, 4.0], "float32")

        def __dlpack__(self, **kw: Any) -> Any:
            return self.array.__dlpack__(**kw)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    assert oracle(oc.tensor(Exporter()) + 0).tolist() == [1, 2]
    assert oracle(oc.tensor(Dlpack()) + 0).tolist() == [3, 4]


def test_initial_values_of_parameters(oracle: Any) -> None:
    assert oracle(oc.param(0.5, o=[2]) + 0).tolist() == [0.5, 0.5]
    assert oracle(oc.param([1.0, 2.0]) + 0).tolist() == [1, 2]
    assert oracle(oc.param("w", oc.arange(3)) + 0).tolist() == [0, 1, 2]
    assert oracle(oc.param("w", 2.0 * oc.arange(3) + 1.0) + 0).tolist() == [1, 3, 5]
    assert oracle(oc.param("w", oc.init(lambda i, j: 10 * i + j), o=[2, 2], i=[]) + 0).tolist() == [[0, 1], [10, 11]]
    drawn = oracle(oc.param(o=[1000]) + 0)
    assert drawn.min() >= -0.25
    assert drawn.max() < 0.25
    assert abs(drawn.mean()) < 0.02


def test_an_initial_expression_is_not_part_of_forward(listing: Any) -> None:
    w = oc.param("w", 2.0 * oc.uniform(output=[3]) - 1.0)
    t = (w * 3.0).with_label("t")
    assert listing(t.forward) == ["t[o0] =: w[o0] * 3    over o0<3"]
    assert listing(t.init_params)[-1].startswith("w[")


def test_data_with_grad_is_a_parameter() -> None:
    x = oc.tensor([1.0, 2.0], grad=True, label="x")
    assert x.is_parameter
    assert list((x * 2).params) == ["x"]


def test_a_number_is_a_constant_in_code(listing: Any) -> None:
    k = oc.tensor(3)
    t = (oc.placeholder("x", o=[2]) * k).with_label("t")
    assert listing(t.forward) == ["t[o0] =: x[o0] * 3    over o0<2"]


def test_forward_stores_a_number(listing: Any) -> None:
    assert listing(oc.tensor(3, label="k").forward) == ["k =: 3"]
    assert listing(oc.full(2.5, output=[2], label="f").forward) == ["f[i0] =: 2.5    over i0<2"]


def test_a_symbol_in_an_expression_is_a_number(oracle: Any) -> None:
    n = oc.symbol("n", 0, 10)
    assert oracle(oc.tensor([1.0, 2.0]) * n, n=7).tolist() == [7, 14]
    assert oracle(n * 2 + n, n=3) == 9


# --- refusals --------------------------------------------------------------------------------------------------------


def check_error(error: type[Exception], message: str, call: Callable[[], object]) -> None:
    with pytest.raises(error) as caught:
        call()
    first, *details = str(caught.value).splitlines()
    assert first == message
    assert type(caught.value) is error
    assert not details or error in (oc.ShapeError, oc.EinsumSyntaxError)


NO_TYPE = f" is not a data type of tensors; there are {DTYPE_NAMES}"
ROUND = " do not all fit {}; round or clip them first"
ODD = "an array of {} cannot become a tensor: its elements must be real numbers"
EMPTY = "an empty literal does not determine its sizes; give an array of the intended shape"
AXIS = "an axis is a size"


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        # types
        (oc.DtypeError, f"'int4'{NO_TYPE}", lambda: oc.tensor([1], dtype="int4")),
        (oc.DtypeError, f"'nope'{NO_TYPE}", lambda: oc.param("w", dtype="nope")),
        (oc.DtypeError, f"3{NO_TYPE}", lambda: oc.placeholder(dtype=3)),
        (oc.DtypeError, f"<class 'object'>{NO_TYPE}", lambda: oc.tensor([1], dtype=object)),
        (oc.DtypeError, f"values of float64{ROUND.format('int32')}", lambda: oc.tensor([1.5], dtype="int32")),
        (oc.DtypeError, f"values of int64{ROUND.format('uint8')}", lambda: oc.tensor([300], dtype="uint8")),
        (oc.DtypeError, ODD.format("complex128"), lambda: oc.tensor(np.array([1j]))),
        (oc.DtypeError, ODD.format("complex128"), lambda: oc.tensor(1j)),
        (oc.DtypeError, ODD.format("<U3"), lambda: oc.tensor("abc")),
        (oc.DtypeError, ODD.format("|S3"), lambda: oc.tensor(b"abc")),
        (oc.DtypeError, ODD.format("object"), lambda: oc.tensor(None)),
        (oc.DtypeError, ODD.format("object"), lambda: oc.tensor(np.array([{}, []], object))),
        (oc.DtypeError, ODD.format("object"), lambda: oc.tensor({1: 2})),
        (oc.DtypeError, ODD.format("datetime64[s]"), lambda: oc.tensor(np.array(["2020"], "M8[s]"))),
        (
            oc.DtypeError,
            "True and False are not numbers here; write 1.0 and 0.0, or give an array of bools",
            lambda: oc.param("w", True),
        ),
        (
            oc.DtypeError,
            "a parameter must have a float type, not int32; convert the value, or give `dtype=`",
            lambda: oc.param("w", dtype="int32"),
        ),
        (
            oc.DtypeError,
            "a parameter must have a float type, not int64; convert the value, or give `dtype=`",
            lambda: oc.param("w", np.array([1, 2])),
        ),
        (oc.DtypeError, "oc.full takes a number, not 'a'", lambda: oc.full("a")),
        (oc.DtypeError, "oc.full takes a number, not True", lambda: oc.full(True)),
        # literals
        (oc.DataError, EMPTY, lambda: oc.tensor([])),
        (oc.DataError, EMPTY, lambda: oc.tensor([[], []])),
        (oc.DataError, EMPTY, lambda: oc.param("w", ())),
        (
            oc.DataError,
            "a literal is ragged: 2 stands where an output axis of 1 is expected",
            lambda: oc.tensor([[1], 2]),
        ),
        (
            oc.DataError,
            "a literal is ragged or mixed: an output axis of 1 stands beside an output axis of 2",
            lambda: oc.tensor([[1, 2], [3]]),
        ),
        (
            oc.DataError,
            "a literal is ragged or mixed: an output axis of 2 stands beside an input axis of 2",
            lambda: oc.tensor([(1, 2), [3, 4]]),
        ),
        (
            oc.DataError,
            "batch axes of a literal must be outside its output and input axes",
            lambda: oc.tensor([oc.batch(1, 2)]),
        ),
        (oc.DataError, "a literal contains numbers at its innermost level; [2] is not a number",
         lambda: oc.tensor([1, [2]])),
        (
            oc.DataError,
            "a literal contains numbers at its innermost level; True is not a number",
            lambda: oc.tensor([1, True]),
        ),
        (oc.DataError, "a literal contains numbers at its innermost level; None is not a number",
         lambda: oc.tensor([None])),
        (oc.DataError, "a literal contains numbers at its innermost level; 'a' is not a number",
         lambda: oc.param(["a"])),
        (oc.DataError, "a literal contains numbers at its innermost level; 1j is not a number",
         lambda: oc.tensor([1j])),
        (oc.DataError, "a literal contains integers beyond 64 bits", lambda: oc.tensor([10**30])),
        (
            oc.CodeError,
            "the nesting of a literal determines its axes; `batch_axes` and `input_axes` are for arrays",
            lambda: oc.tensor([1], batch_axes=1),
        ),
        (oc.DataError, "2 units are given for the 1 axes of (1,)", lambda: oc.tensor([1], units=("a", "b"))),
        (oc.DataError, "2 units are given for the 1 axes of (1,)", lambda: oc.tensor(1, units=("a", "b"))),
        # arrays
        (
            oc.DataError,
            "3 batch and 0 input axes are requested of an array of 2 axes, (2, 3)",
            lambda: oc.tensor(np.ones((2, 3)), batch_axes=3),
        ),
        (oc.CodeError, "`batch_axes` is a number of axes, not -1", lambda: oc.tensor(np.ones(2), batch_axes=-1)),
        (oc.CodeError, "`input_axes` is a number of axes, not True", lambda: oc.tensor(np.ones(2), input_axes=True)),
        (
            oc.DataError,
            "1 units are given for the 2 axes of (2, 3)",
            lambda: oc.tensor(np.ones((2, 3)), units=("h",)),
        ),
        (
            oc.ShapeError,
            "the initial value of `w` has the output sizes [2], but output=[3] is given",
            lambda: oc.param("w", [1, 2], o=[3]),
        ),
        # rows
        (oc.CodeError, "the output row is given twice, as `output=` and as `o=`", lambda: oc.param(output=[3], o=[3])),
        (
            oc.CodeError,
            "`output=` takes a list of sizes, such as [3], or of (unit, size) pairs; not 3",
            lambda: oc.param(o=3),
        ),
        (
            oc.CodeError,
            "`shape=` gives all rows at once; leave out the others",
            lambda: oc.param(shape="3->2", o=[2]),
        ),
        (
            oc.CodeError,
            "`shape=` holds sizes only, as in '32|784->128'; not 'a->b'",
            lambda: oc.param(shape="a->b"),
        ),
        (oc.ShapeError, "output axis 1 of `w` is -1: a size cannot be negative", lambda: oc.param("w", o=[-1]).dims),
        (oc.ShapeError, f"output axis 2 of `w` is 1.5: {AXIS}", lambda: oc.param("w", o=[1, 1.5]).dims),
        (oc.ShapeError, f"input axis 1 of `w` is True: {AXIS}", lambda: oc.param("w", i=[True]).dims),
        (oc.ShapeError, f"batch axis 1 of `w` is None: {AXIS}", lambda: oc.param("w", b=[None]).dims),
        (oc.ShapeError, f"output axis 1 of `w` is (3, 'rgb'): {AXIS}", lambda: oc.param("w", o=[(3, "rgb")]).dims),
        (oc.ShapeError, "output axis 1 of `w` has the unit '': a unit must be a word",
         lambda: oc.param("w", o=[("", 3)])),
        # names, initializers, symbols
        (
            oc.CodeError,
            "oc.param takes a label and an initial value; the label must be a string, not 1",
            lambda: oc.param(1, 2),
        ),
        (oc.CodeError, "a label must be a string, not 3", lambda: oc.placeholder(3)),
        (oc.CodeError, "a label must be a string, not 3", lambda: oc.node(3)),
        (
            oc.ArgumentError,
            ("oc.full has no argument `nope=`: its keywords are value=, batch=, input=, output=, b=, i=, o=, shape=, "
             "dtype=, label="),
            lambda: oc.full(2, nope=3),
        ),
        (oc.DataError, "oc.arange takes the number of its elements, at most 2**31, not -1", lambda: oc.arange(-1)),
        (oc.DataError, "oc.arange takes the number of its elements, at most 2**31, not 2.0", lambda: oc.arange(2.0)),
        (oc.CodeError, "oc.init takes a function of index arrays, not 3", lambda: oc.init(3)),
        (
            oc.ArgumentError,
            "oc.init calls its function with an index array for each axis, here 2: too many positional arguments",
            lambda: oc.init(lambda i: i, o=[2, 3]).numpy(),
        ),
        (
            oc.ArgumentError,
            "oc.init calls its function with an index array for each axis, here 1: too many positional arguments",
            lambda: oc.init(type("Plain", (), {}), o=[3]).numpy(),
        ),
        (
            oc.DataError,
            "the function of oc.init returned array({}, dtype=object), not numbers",
            lambda: oc.init(lambda i: {}, o=[3]).numpy(),
        ),
        (oc.CodeError, "symbol `n` has an empty range: 5 <= n < 5", lambda: oc.symbol("n", 5, 5)),
        (
            oc.CodeError,
            "the name of a symbol must be a plain identifier, which calls use as a keyword; not 'n m'",
            lambda: oc.symbol("n m", 0, 5),
        ),
        (
            oc.CodeError,
            "the bounds of symbol `n` are integers, not 0.0 and 5",
            lambda: oc.symbol("n", 0.0, 5),
        ),
    ],
)
def test_errors_of_leaves(
    error: type[Exception], message: str, call: Callable[[], object]
) -> None:
    check_error(error, message, call)


def test_a_product_of_sizes_that_no_memory_holds_is_refused_and_the_session_goes_on(oracle: Any) -> None:
    with pytest.raises(oc.ShapeError, match=re.escape("more than any memory can hold")):
        _ = oc.param("w", o=[2**40, 2**40], i=[]).dims
    assert oracle(oc.tensor([1.0]) + 1).tolist() == [2]


@pytest.mark.parametrize("huge", [10**400, -(10**400)], ids=["large", "small"])
@pytest.mark.parametrize(
    "make", [oc.tensor, oc.param, oc.full, lambda n: oc.tensor([n, 1.0]), lambda n: oc.tensor([1.0]) * n]
)
def test_a_number_that_no_float_holds_is_refused(make: Callable[[Any], object], huge: int) -> None:
    with pytest.raises(oc.OcannlError):
        make(huge)


@pytest.mark.parametrize("value", [True, False, np.True_])
def test_truth_values_are_no_numbers(value: object) -> None:
    for make in (oc.tensor, oc.param, oc.full, lambda v: oc.tensor([v]), lambda v: oc.tensor([1.0]) + v):
        with pytest.raises((oc.DtypeError, oc.DataError)):
            make(value)


def test_numpy_scalars_of_python_type_count_as_numbers() -> None:
    assert oc.tensor(np.float64(3)).dtype is oc.float32
    assert (oc.tensor([1.0]) * np.float64(3)).dtype is oc.float32


def test_the_initial_value_of_a_node_is_checked_at_creation() -> None:
    for wrong in ("a", None, True, [1.0]):
        with pytest.raises(oc.OcannlError):
            oc.node("n", init=wrong)


@pytest.mark.parametrize("wrong", ["for", "None", "1n", "n.m", None])
def test_a_symbol_has_a_name_that_a_call_can_use(wrong: Any) -> None:
    with pytest.raises(oc.CodeError):
        oc.symbol(wrong, 0, 3)


def test_bounds_of_a_symbol_are_integers() -> None:
    with pytest.raises(oc.CodeError):
        oc.symbol("n", True, 5)
    assert oc.symbol("n", np.int64(0), np.int64(5)).hi == 4


# --- axes inferred from a count --------------------------------------------------------------------------------------


def test_axes_inferred_from_the_number_of_elements(oracle: Any) -> None:
    x = oc.tensor(np.arange(12.0), shape="infer")
    y = oc.einsum("...|a,b => ...|b,a", x, a=3)
    assert (x.dims, y.dims) == ((3, 4), (4, 3))
    np.testing.assert_array_equal(oracle(y), np.arange(12.0).reshape(3, 4).T)


def test_a_file_fixes_the_number_of_elements(oracle: Any, tmp_path: Any) -> None:
    path = tmp_path / "numbers.bin"
    np.arange(6, dtype="float32").tofile(path)
    table = oc.from_file(path, "float32") + oc.tensor(np.zeros((2, 3), "float32"))
    np.testing.assert_array_equal(oracle(table), np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("use", [lambda x: x + oc.tensor(np.zeros(5)), lambda x: oc.einsum("a,b => a", x, a=5)])
def test_a_count_that_does_not_divide_is_refused(use: Any) -> None:
    with pytest.raises(oc.ShapeError, match="12"):
        use(oc.tensor(np.arange(12.0), shape="infer")).dims  # noqa: B018


@pytest.mark.parametrize("wrong", ["nowhere.bin", None, 3.5])
def test_a_file_that_cannot_be_mapped_is_refused(wrong: Any, tmp_path: Any) -> None:
    with pytest.raises(oc.DataError, match="cannot be read as float32"):
        oc.from_file(tmp_path / wrong if isinstance(wrong, str) else wrong, "float32")


def test_shape_infer_stands_alone() -> None:
    for more in ({"batch_axes": 1}, {"grad": True}, {"units": ["a"]}):
        with pytest.raises(oc.CodeError, match="stands alone"):
            oc.tensor(np.arange(3.0), shape="infer", **more)
    with pytest.raises(oc.CodeError, match="the shape is that of the array"):
        oc.tensor(np.arange(3.0), shape="3")


@pytest.mark.parametrize("axes", [64, 65])
def test_arrays_have_at_most_64_axes(axes):
    x = oc.einsum(f"a => {'a' * axes}", np.ones(1, np.float32))
    if axes == 64:
        assert x.dims == (1,) * 64
        return
    with pytest.raises(oc.ShapeError, match="would have 65 axes, and an array has at most 64"):
        x.dims  # noqa: B018
