"""Arguments are compared with annotations, and unfit ones are named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any, Literal, Protocol

import numpy as np
import pytest

from ocannl.base.annotations import fits, readable
from ocannl.base.errors import ArgumentError
from ocannl.base.traceback_filtering import checked


class Shaped(Protocol):
    shape: tuple[int, ...]


@pytest.mark.parametrize(
    ("value", "kind", "does_fit"),
    [
        (3, int, True), (np.int64(3), int, True), (True, int, False), (1, float, True), ("1", float, False),
        (None, int | None, True), ((0.9, 0.999), tuple[float, float], True), ((0.9,), tuple[float, float], False),
        (0.9, tuple[float, float], False), ([1], Sequence[int], True), ({}, Mapping[str, int], True),
        (len, Callable[..., Any], True), (3, Callable[..., Any], False), ("a", Literal["a", "b"], True),
        ("c", Literal["a", "b"], False), (3, Shaped, True),
    ],
)  # fmt: skip
def test_values_and_annotations(value: Any, kind: Any, does_fit: bool) -> None:
    assert fits(value, kind) is does_fit


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (float | Callable[..., Any] | None, "a number, a function or None"),
        (tuple[float, float], "a pair of numbers"),
        (Literal["a", "b"], "one of 'a', 'b'"),
        (ArgumentError, "an ArgumentError"),
    ],
)
def test_annotations_in_words(kind: Any, text: str) -> None:
    assert readable(kind) == text


def test_checked_functions_refuse_unfit_arguments() -> None:
    @checked
    def scaled(x: float, *rest: float, name: str = "s") -> float:
        return x * sum(rest)

    @checked
    def total(xs: Sequence[float]) -> float:
        return sum(xs)

    assert scaled(2.0, 3, name="t") == 6.0
    assert total([1.0, 2]) == 3.0
    for call, part in {
        lambda: scaled("a"): "`x` is a number, not 'a'",
        lambda: scaled(1.0, "b"): "`rest` is a number, not 'b'",
        lambda: scaled(1.0, nane="b"): "no argument `nane=`: did you mean `name=`?",
        lambda: scaled(): "missing a required argument: 'x'",
        lambda: scaled("a" * 1000): "...",
        lambda: scaled(Parameter.empty): "`x` is a number, not <class 'inspect._empty'>",
        lambda: total([1.0, "b"]): "`xs` is a list",
    }.items():
        with pytest.raises(ArgumentError) as caught:
            call()
        assert part in str(caught.value)
        assert len(str(caught.value)) < 200
