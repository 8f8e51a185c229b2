"""Operators whose results have sizes that depend on values, and operators of strings.

They are evaluated while importing, so their inputs have to be constant. A function of a model compiles them for the
values of the inputs of the model that decide them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ocannl as oc
from ocannl_onnx.call import NodeCall
from ocannl_onnx.element_types import element_name, precision_of
from ocannl_onnx.registry import operator
from ocannl_onnx.values import Array, StaticArray, Value

STATIC = "an array, known while importing"
RESTRICTION = ("the inputs have to be constant, or inputs of the model",)


def static_only(call: NodeCall) -> tuple[Value, ...]:
    """Raises: NeedsConstant; UnsupportedModel where the reference implementation has refused constant inputs."""
    for position in range(len(call)):
        if call.has(position):
            call.constant(position)
    call.refuse("the reference implementation of ONNX cannot evaluate it for these inputs")


OPERATORS: dict[str, tuple[str, ...]] = {
    "": ("StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer", "MelWeightMatrix"),
    "ai.onnx.ml": ("LabelEncoder",),
}
for domain, names in OPERATORS.items():
    operator(*names, domain=domain, spelling=STATIC, restrictions=RESTRICTION)(static_only)


Evaluate = Callable[[NodeCall], tuple[Array, ...]]


def _nonzero(call: NodeCall) -> tuple[Array, ...]:
    x = call.constant(0)
    return (np.array(np.nonzero(np.atleast_1d(x)), np.int64).reshape(x.ndim or 1, -1),)


def _unique(call: NodeCall) -> tuple[Array, ...]:
    x = call.constant(0)
    x, axis = (x, call.axis()) if "axis" in call.node.attributes else (x.reshape(-1), 0)
    _, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not call.attribute("sorted", 1):
        order = np.argsort(first)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    values = np.take(x, first, axis)
    return values, *(np.asarray(numbers, np.int64) for numbers in (first, inverse, counts))


def _non_max_suppression(call: NodeCall) -> tuple[Array, ...]:
    """The indices (batch, class, box) of boxes in the order of their scores that overlap no selected box before."""
    boxes, scores = call.constant(0), call.constant(1)
    limit, overlap, threshold = (
        call.constant(n).reshape(-1)[0] if call.has(n) else default for n, default in ((2, 0), (3, 0.0), (4, -np.inf))
    )
    call.require(0 <= overlap <= 1, f"a limit {overlap} of the overlap")
    corners = _centered(boxes) if call.attribute("center_point_box", 0) else _ordered(boxes)
    selected: list[tuple[int, int, int]] = []
    for batch, group in np.ndindex(*scores.shape[:2]):
        of_group = scores[batch, group]
        order = np.argsort(-of_group, kind="stable")
        order = order[of_group[order] > threshold] if call.has(4) else order
        chosen: list[int] = []
        for box in order:
            if len(chosen) >= limit:
                break
            if not _overlaps(corners[batch], box, chosen, overlap):
                chosen.append(int(box))
        selected.extend((batch, group, box) for box in chosen)
    return (np.array(selected, np.int64).reshape(-1, 3),)


def _ordered(boxes: Array) -> Array:
    """Boxes from any two opposite corners: the lower corner first."""
    pairs = boxes.reshape(*boxes.shape[:-1], 2, 2)
    return np.concatenate([pairs.min(-2), pairs.max(-2)], -1)


def _centered(boxes: Array) -> Array:
    """Boxes from their centers and sizes."""
    half = boxes[..., 2:] / 2
    return np.concatenate([boxes[..., :2] - half, boxes[..., :2] + half], -1)


def _overlaps(corners: Array, box: int, chosen: list[int], limit: float) -> bool:
    """Whether the intersection of a box with a chosen one is more than a part of their union."""
    if not chosen:
        return False
    candidate, selected = corners[box], corners[chosen]
    sides = np.minimum(candidate[2:], selected[:, 2:]) - np.maximum(candidate[:2], selected[:, :2])
    intersection = np.where((sides > 0).all(-1), sides.prod(-1), 0)
    areas = (selected[:, 2:] - selected[:, :2]).prod(-1)
    area = (candidate[2:] - candidate[:2]).prod()
    union = area + areas - intersection
    is_valid = (intersection > 0) & (area > 0) & (areas > 0) & (union > 0)
    return bool((intersection[is_valid] / union[is_valid] > limit).any())


EVALUATED: dict[str, Evaluate] = {
    "NonMaxSuppression": _non_max_suppression,
    "NonZero": _nonzero,
    "Unique": _unique,
}


def _arrays(evaluate: Evaluate) -> Callable[[NodeCall], tuple[Value, ...]]:
    return lambda call: tuple(StaticArray(array, call.node.operator) for array in evaluate(call))


for name, evaluate in EVALUATED.items():
    operator(name, spelling=STATIC, restrictions=RESTRICTION, folds=False)(_arrays(evaluate))


@operator(
    "BitCast",
    spelling="oc.cast(x, dtype) of integers; otherwise an array, known while importing",
    restrictions=("floating-point numbers have to be constant, or inputs of the model",),
    folds=False,
)
def bit_cast(call: NodeCall) -> Value:
    """The same bits as numbers of another type of the same width; casts of integers wrap around."""
    target: Any = precision_of(call.attribute("to"))
    call.require(target is not None, f"the type {element_name(call.attribute('to'))}")
    source, result = np.dtype(call.dtype(0).numpy), np.dtype(target.numpy)
    call.require(source.itemsize == result.itemsize, f"{source} and {result} differ in width")
    if call.static(0) is None and source.kind in "iub" and result.kind in "iu":
        return oc.cast(call.tensor(0), target)
    return StaticArray(np.ascontiguousarray(call.constant(0)).view(result).reshape(call.shape(0)), "bits")
