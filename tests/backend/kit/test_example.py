"""What the example backend prints: the guide to writing a backend shows it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import ocannl as oc


def row_sums() -> oc.Tensor:
    x = oc.placeholder("x", batch=[3], output=[2])
    return oc.einsum("b|a => a", x).with_label("y")


def window() -> oc.Tensor:
    picture, kernel = oc.placeholder("picture", output=[9]), oc.placeholder("kernel", output=[3])
    return oc.einsum("2*o<+k; k => o", picture, kernel).with_label("edges")


@pytest.mark.parametrize("make", [row_sums, window], ids=lambda make: make.__name__)
def test_example(golden: Callable[[str], None], make: Callable[[], oc.Tensor]) -> None:
    with oc.settings(cache=False):
        routine = oc.Context("example").compile(make().forward, name=make.__name__)
    golden(routine.source())
