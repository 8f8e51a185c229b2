"""A row of a table of operations beside PyTorch, and the shapes of operands that rows share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")
F = torch.nn.functional

Shapes = tuple[tuple[int, ...], ...]  # of the operands

FLOATS = "float32 float64 float16 bfloat16"
INTEGERS = "int32 int64 uint8"
NUMBERS = f"{FLOATS} int32 int64"

UNARY: tuple[Shapes, ...] = (((3, 5),), ((1, 7),), ((),), ((2, 0),))
BINARY: tuple[Shapes, ...] = (
    ((3, 5), (5,)), ((4, 1), (1, 7)), ((), (3,)), ((2, 1, 3), (4, 1)), ((0, 3), (3,)), ((3, 0), (1,)),
)  # fmt: skip
SAME: tuple[Shapes, ...] = (((3, 5), (3, 5)), ((1,), (1,)), ((2, 0), (2, 0)))
TERNARY: tuple[Shapes, ...] = (((3, 4), (3, 4), (4,)), ((3, 1), (1, 5), ()), ((0, 2), (2,), (2,)))
MATRIX: tuple[Shapes, ...] = (((3, 5),), ((5, 1),), ((1, 4),), ((0, 3),), ((3, 0),))
FILLED = MATRIX[:3]  # PyTorch refuses the largest of no cells
VECTOR: tuple[Shapes, ...] = (((5,),), ((1,),), ((0,),))
SQUARE: tuple[Shapes, ...] = (((4, 4),), ((1, 1),), ((0, 0),))
IDS = np.array([2, 0, 3])
PADDED = np.array([2, -100, 0, 3])
INFINITE = (np.inf, -np.inf)


@dataclass(frozen=True)
class Row:
    """One function in both languages; the first word of its name is the operation that it is here for.

    shapes      of the operands, each tried
    kinds       types of the operands, each tried
    low, high   where the numbers lie
    smooth      has a gradient
    but         odd numbers, such as kinks, at which the two differ; None for all of them
    ties        of equal numbers both take the same, or as much of each
    """

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    shapes: tuple[Shapes, ...] = ((),)
    kinds: str = FLOATS
    low: float = -2.0
    high: float = 2.0
    smooth: bool = True
    but: tuple[float, ...] | None = ()
    ties: bool = True
