"""Host calls: statements of a computation that are Python functions on NumPy arrays.

No pass and no backend processes host calls: the runtime executes them between the native parts of a routine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocannl.ir.tnode import TNode

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class DeferredArray:
    """An array that a function writes to memory of its caller: `write` fills an array, in memory order, of this shape
    and type. Large results need no copy."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    write: Callable[[Array], None]

    def array(self) -> Array:
        array = np.empty(self.shape, self.dtype)
        self.write(array)
        return array


@dataclass(frozen=True, slots=True)
class HostCall:
    """`outputs <- function(*inputs)`, on the arrays of whole nodes in memory order.

    Inputs that are numbers are passed as arrays without axes. The function returns an array or a `DeferredArray` of the
    shape of the output, or a sequence of these if the call has several outputs. Results whose output is None are
    discarded.
    """

    name: str
    function: Callable[..., Any]
    inputs: tuple[TNode | float, ...]
    outputs: tuple[TNode | None, ...]
    label: str = ""  # of the tensor whose code this is
    where: str = ""  # file and line

    @property
    def read(self) -> tuple[TNode, ...]:
        return tuple(dict.fromkeys(n for n in self.inputs if isinstance(n, TNode)))

    @property
    def written(self) -> tuple[TNode, ...]:
        return tuple(dict.fromkeys(n for n in self.outputs if n is not None))

    @property
    def nodes(self) -> tuple[TNode, ...]:
        """All nodes of the call: those read, then those written."""
        return tuple(dict.fromkeys((*self.read, *self.written)))

    def __str__(self) -> str:
        return f"host call `{self.name}`"

    def arguments(self, arrays: Callable[[TNode], Array]) -> list[Array]:
        """The arguments of the function, given the arrays of nodes."""
        return [arrays(n) if isinstance(n, TNode) else np.asarray(n) for n in self.inputs]

    def results(self, returned: object) -> list[tuple[TNode, Array | DeferredArray]]:
        """The written nodes, each with its value. Raises: ValueError when the function returned something else."""
        values: list[object] = [returned]
        if len(self.outputs) > 1:
            if not isinstance(returned, tuple | list) or len(returned) != len(self.outputs):
                raise ValueError(f"it must return {len(self.outputs)} arrays, not {_kind(returned)}")
            values = list(returned)
        pairs: list[tuple[TNode, Array | DeferredArray]] = []
        for node, value in zip(self.outputs, values, strict=True):
            if node is None:
                continue
            array = value if isinstance(value, DeferredArray) else np.asarray(value)
            if array.shape != node.dims:
                sizes = f"the sizes {node.dims} for `{node.label}`"
                raise ValueError(f"it must return an array of {sizes}, not {_kind(value)}")
            if not np.can_cast(array.dtype, node.precision.numpy, "same_kind") and array.dtype.kind not in "biuf":
                raise ValueError(f"`{node.label}` is of type {node.precision}, which cannot hold {array.dtype}")
            pairs.append((node, array))
        return pairs


def _kind(value: object) -> str:
    if isinstance(value, np.ndarray | DeferredArray):
        return f"one of the sizes {value.shape}"
    return f"{len(value)} values" if isinstance(value, tuple | list) else repr(value)[:80]
