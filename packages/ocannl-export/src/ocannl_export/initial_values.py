"""How `init` fills the arrays of an exported program."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocannl.base.errors import UninitializedError
from ocannl.ir.precision import Precision
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core.random import RandomInitializer, Stream, refuse_integers, significand_bits, stream_key
from ocannl.runtime.context import Context


@dataclass(frozen=True, slots=True)
class Zeros:
    """The cells are zero."""


@dataclass(frozen=True, slots=True)
class Filled:
    """All cells have one value, a scalar of NumPy."""

    value: np.generic


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """The values are part of the program."""

    values: np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Drawn:
    """Numbers from the stream of a parameter (see `ocannl.lang.core.random`): uniform in [low, low + span), or normal
    with mean `low` and standard deviation `span`. `key` are the numbers of the stream's key that do not depend on the
    seed."""

    key: tuple[int, int]
    ordinal: int
    normal: bool
    low: float
    span: float


@dataclass(frozen=True, slots=True)
class StreamKey:
    """The key and the ordinal of a stream, for numbers that the program draws."""

    key: tuple[int, int]
    ordinal: int


Initial = Zeros | Filled | Embedded | Drawn | StreamKey


@dataclass(frozen=True, slots=True, eq=False)
class InitialValues:
    """Initial values of arrays: with `is_fresh` those of a new context, otherwise those that the context holds.

    `computed` are the parameters that the program computes in `init`; with `has_inputs`, inputs have their values.
    """

    ctx: Context
    is_fresh: bool
    computed: Set[TNode]
    has_inputs: bool

    def of(self, node: TNode) -> Initial:
        """The initial value of a node. Keys of random streams always follow the seed of `init`.

        Raises: UninitializedError for a parameter without a value.
        """
        contents = node.contents
        if isinstance(contents, Stream):
            contents.array((), node.precision, 0)  # which assigns the stream
            path, ordinal = contents.stream()
            return StreamKey(_key(path), ordinal)
        if self.is_fresh and isinstance(contents, RandomInitializer):
            refuse_integers(node.precision)
            distribution, (path, ordinal) = contents.distribution, contents.stream()
            factor = 1.0 if distribution.factor is None else distribution.factor()
            low, span = distribution.low * factor, distribution.span * factor
            return Drawn(_key(path), ordinal, distribution.normal, low, span)
        if self.is_fresh and contents is not None:
            return _stored(_contents(node), node)
        if node in self.computed or (self.is_fresh and node.role not in (Role.PARAMETER, Role.PLACEHOLDER)):
            return Zeros()
        if self.ctx.is_initialized(node):
            return _stored(self.ctx.get(node), node)
        if node.role is Role.PARAMETER:
            raise UninitializedError(
                f"`{node.path or node.label}` has no value to export: run ctx.init(...) before, or give a model with"
                " this parameter to oc.export(..., init=...), so that the exported `init` draws new values"
            )
        return Zeros() if contents is None else _stored(_contents(node), node)


def _contents(node: TNode) -> np.ndarray[Any, Any]:
    assert node.contents is not None
    return np.broadcast_to(np.asarray(node.contents.array(node.dims, node.precision, 0)), node.dims)


def _stored(values: np.ndarray[Any, Any], node: TNode) -> Initial:
    array = np.ascontiguousarray(values, node.precision.numpy)
    if not array.size:
        return Zeros()
    raw = array.reshape(-1).view(np.uint8).reshape(array.size, -1)
    if (raw == raw[0]).all():
        return Filled(array.reshape(-1)[0]) if raw[0].any() else Zeros()
    return Embedded(array)


def _key(path: str) -> tuple[int, int]:
    parts = stream_key(0, path)
    return int(parts[2]), int(parts[3])


def random_bits(precision: Precision, normal: bool) -> int:
    """The random bits of a number: those of the significand, at least 24 for the Box-Muller transform."""
    bits = significand_bits(precision)
    return max(bits, 24) if normal else bits
