"""Operators whose results have sizes that depend on values, and operators of strings.

They are evaluated by the reference implementation of ONNX while importing. Their inputs therefore have to be constant;
a function of a model compiles them for the values of the inputs of the model that decide them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ocannl_onnx.call import NodeCall
from ocannl_onnx.registry import operator
from ocannl_onnx.values import StaticArray, Value

STATIC = "an array, known while importing"
RESTRICTION = ("the inputs have to be constant, or inputs of the model",)


def static_only(call: NodeCall) -> tuple[Value, ...]:
    """Raises: NeedsConstant; UnsupportedModel where the reference implementation has refused constant inputs."""
    for position in range(len(call)):
        if call.has(position):
            call.constant(position)
    call.refuse("the reference implementation of ONNX cannot evaluate it for these inputs")


OPERATORS: dict[str, tuple[str, ...]] = {
    "": ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"),
    "ai.onnx.ml": ("LabelEncoder",),
}
for domain, names in OPERATORS.items():
    operator(*names, domain=domain, spelling=STATIC, restrictions=RESTRICTION)(static_only)


Evaluate = Callable[[NodeCall], tuple[np.ndarray, ...]]


def _arrays(evaluate: Evaluate) -> Callable[[NodeCall], tuple[Value, ...]]:
    return lambda call: tuple(StaticArray(array, call.node.operator) for array in evaluate(call))


def _nonzero(call: NodeCall) -> tuple[np.ndarray, ...]:
    x = np.atleast_1d(call.constant(0))
    return (np.array(np.nonzero(x), np.int64).reshape(x.ndim, -1),)
