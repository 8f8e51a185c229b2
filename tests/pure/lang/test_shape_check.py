"""Shape checking without data: `oc.infer` and `oc.shape_of`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import ocannl as oc


@pytest.mark.parametrize(
    ("spec", "shapes", "names", "result"),
    [
        ("ij; jk => ik", ("2,3", "3,4"), {}, "2,4"),
        ("ij; jk => ik", ((2, 3), [3, 4]), {}, "2,4"),
        ("...|i; i->h,d => ...|h,d", ("5|12", "12->3,4"), {}, "5|3,4"),
        ("...|2*h<+wh,2*w<+ww,c => ...|h,w,c", ("8|28,28,3",), {"wh": 2, "ww": 2}, "8|14,14,3"),
        ("2*o=+k; k => o", ((28,), (3,)), {}, "14"),
        ("a; b => a^b", ("2", "3"), {}, "5"),
        ("a^b => b", ("7",), {"a": 2}, "5"),
        ("(h d) => h, d", (np.zeros(12),), {"h": 3}, "3,4"),
        ("ij => ji", (oc.placeholder("x", b=[], i=[], o=[2, 3]),), {}, "3,2"),
        ("ij => ji", ((("rgb", 3), 4),), {}, "4,rgb=3"),
        ("n|i->j => n|j->i", ("2|row=4->rgb=3",), {}, "2|rgb=3->row=4"),
        ("...|i,j => ...|j,i", ("...|row = 1, 2",), {}, "2,row=1"),
        ("...|d => ...|", ("32|784",), {}, "32|"),
        ("ij =>", ((2, 3),), {}, ""),
    ],
)
def test_result_shape_of_a_spec(spec: str, shapes: tuple[Any, ...], names: dict[str, Any], result: str) -> None:
    assert str(oc.infer(spec, *shapes, **names)) == result


def test_size_capture() -> None:
    n = oc.Dim("n")
    assert oc.infer("o<+k; k => o", (10,), (3,), o=n).dims == (8,)
    assert int(n) == 8


@oc.op
def perceptron(x, *, hidden, out):
    w1, b1, w2 = oc.param("w1", o=[hidden]), oc.param("b1"), oc.param("w2", o=[out])
    return w2 @ oc.relu(w1 @ x + b1)


class Two(NamedTuple):
    """A named tuple of results."""

    value: Any
    transposed: Any


@pytest.mark.parametrize(
    ("function", "shapes", "result"),
    [
        (perceptron(hidden=128, out=10), ("32|784",), "32|10"),
        (oc.relu, ("3",), "3"),
        (oc.gelu, ((2, 3),), "2,3"),
        (lambda a: a @ a, ("3->3",), "3->3"),
        (lambda a: oc.param("w", o=[3]) @ a, ("...|5",), "3"),
        (lambda a, b: (a + b, [a.sum()]), ("3", (3,)), ("3", [""])),
        (lambda a: {"value": a, "mean": a.mean("...|d => ...|0")}, ("4|3",), {"value": "4|3", "mean": "4|1"}),
        (lambda a: Two(a, a.T), ("2->3",), Two("2->3", "3->2")),
        (lambda a: a, (np.zeros((2, 3)),), "2,3"),
        (lambda: oc.tensor([1.0, 2.0]), (), "2"),
    ],
)
def test_result_shape_of_a_function(function: Any, shapes: tuple[Any, ...], result: Any) -> None:
    def texts(result: Any) -> Any:
        match result:
            case dict():
                return {name: texts(shape) for name, shape in result.items()}
            case Two():
                return Two(*map(texts, result))
            case tuple() | list():
                return type(result)(map(texts, result))
            case _:
                return str(result)

    assert texts(oc.shape_of(function, *shapes)) == result


def test_keyword_arguments_are_passed_on() -> None:
    assert str(oc.shape_of(perceptron, "32|784", hidden=128, out=10)) == "32|10"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: oc.infer("i => i", 5), "5 is not a shape: write a string such as '32|784->10', or a tuple of sizes"),
        (lambda: oc.infer("i => i", "i"), "'i': a shape contains sizes, not names"),
        (lambda: oc.infer("ij => i", "2,..."), "'2,...': a row is given completely, or inferred, written as `...`"),
        (lambda: oc.infer("i => i", (-3,)), "output axis 1 of `operand 1` is -3: a size cannot be negative"),
        (
            lambda: oc.infer("i; i => i", (2,), (3,)),
            "output axis 1 of `operand 1` is 2, but output axis 1 of `oper",
        ),
        (
            lambda: oc.shape_of(lambda a, b: a + b, "2", "3"),
            "output axis 1 of `input 1` is 2, but output axis 1 of",
        ),
        (lambda: oc.shape_of(lambda a: None, "3"), "the function returned None instead of a tensor"),
        (lambda: oc.shape_of(lambda a: (a, 3.0), "3"), "the function returned 3.0 instead of a tensor"),
        (
            lambda: oc.shape_of(lambda a, b: a, "3"),
            "oc.shape_of cannot call the function with 1 tensor: missing a required argument: 'b'",
        ),
        (
            lambda: oc.shape_of(lambda a: a, "3", "4"),
            "oc.shape_of cannot call the function with 2 tensors: too many positional arguments",
        ),
        (
            lambda: oc.shape_of(lambda a: a, "3", width=2),
            "oc.shape_of cannot call the function with 1 tensor: got an unexpected keyword argument 'width'",
        ),
        (lambda: oc.shape_of("ij => ji", "2,3"), "oc.shape_of takes a function of tensors, not 'ij => ji'"),
        (
            lambda: oc.shape_of(perceptron(hidden=3, out=4)),
            "`perceptron(x, *, hidden, out)`: missing a required",
        ),
        (
            lambda: oc.shape_of(lambda a: oc.param("w") @ a, "5"),
            "you forgot a hidden dimension: nothing says what the",
        ),
    ],
)
def test_errors(call: Any, message: str) -> None:
    with pytest.raises(oc.OcannlError) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_errors_inside_the_function_are_kept() -> None:
    def fail(x: oc.Tensor) -> oc.Tensor:
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        oc.shape_of(fail, "3")
