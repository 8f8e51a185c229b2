"""Functions from arrays to arrays: a model, compiled for each combination of sizes and types that it is called with."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError, ShapeError
from ocannl.base.spelling import sealed
from ocannl.base.traceback_filtering import checked, public_class
from ocannl.lang.api import Block, Tensor, no_grad, placeholder, training
from ocannl.lang.core import nested
from ocannl.lang.ops.primitives import PRIMITIVES
from ocannl.runtime.context import Context, default_context
from ocannl.runtime.inference_routines import compile_inference, is_outdated
from ocannl.runtime.routine import Routine

Array = np.ndarray[Any, Any]
_Sizes = tuple[list[int], list[int], list[int]]
"""Of the batch, input and output row."""

Key = tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]


@checked
def compile(
    model: Callable[..., Any] | Block,
    *,
    sizes: str | Sequence[str] | None = None,
    ctx: Context | None = None,
    limit: int = 8,
) -> CompiledFunction:
    """A function from arrays to arrays that computes a model in inference.

        scores_of = oc.compile(net, sizes="b|784", ctx=ctx)
        scores = scores_of(images)

    `model` is a block, or a function from tensors to tensors, or to a nested tuple, list or mapping of tensors.
    `sizes` is the shape of each operand, where names are sizes that differ from call to call, and equal names are equal
    sizes: `"b|784"`, or `["b, t|", "b|"]`. By default the first axis is a batch axis, and the others are output axes.

    The first call with arrays of some sizes and types compiles a routine; `limit` routines are kept, and the one that
    was not called for the longest time is dropped. Parameters without a value in the context are initialized; `ctx`
    defaults to the default context. Packed weights are kept from one call to the next: see the setting
    `precompute_weights`.
    Raises: CodeError for a limit below 1, and for sizes that are neither names nor integers.
    """
    if limit < 1:
        raise CodeError(f"`limit` of oc.compile is the number of routines to keep, at least 1, not {limit}")
    texts = None if sizes is None else [sizes] if isinstance(sizes, str) else list(sizes)
    shapes = None if texts is None else [_declared_rows(text) for text in texts]
    return CompiledFunction(model, shapes, default_context() if ctx is None else ctx, limit)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The declared axes of an operand: names and sizes, by row in the order of memory."""

    batch: Sequence[str]
    output: Sequence[str]
    input: Sequence[str]

    def __iter__(self) -> Iterator[Sequence[str]]:
        return iter((self.batch, self.output, self.input))


def _declared_rows(text: str) -> _Rows:
    """Parses `batch | input -> output`. Raises: CodeError unless all axes are names and sizes."""
    batch, _, rest = text.rpartition("|")
    input, _, output = rest.rpartition("->")
    rows = _Rows(*([axis.strip() for axis in row.split(",") if axis.strip()] for row in (batch, output, input)))
    if not all(axis.isidentifier() or axis.isdecimal() for row in rows for axis in row):
        raise CodeError(f'`sizes` of oc.compile are names and integers, as in "b, t|" or "b|784", not {text!r}')
    return rows


@dataclass(frozen=True, slots=True, eq=False)
class _Compiled:
    """A routine with the placeholders of its operands and the tensors of its results, in a structure."""

    routine: Routine | None
    operands: Sequence[Tensor]
    results: Sequence[Tensor]
    structure: Any


@public_class()
@sealed()
class CompiledFunction:
    """A model as a function from arrays to arrays, the result of `oc.compile`."""

    def __init__(self, model: Any, shapes: Sequence[_Rows] | None, ctx: Context, limit: int) -> None:
        self.ctx = ctx
        self.limit = limit
        self._model, self._shapes = model, shapes
        self._compiled: OrderedDict[Key, _Compiled] = OrderedDict()

    @property
    def sizes(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The sizes of the operands of each routine that is kept, those called last at the end."""
        return tuple(tuple(dims for dims, _ in key) for key in self._compiled)

    def __call__(self, *operands: object) -> Any:
        """The results of the model, NumPy arrays in the structure that the model returns.

        Raises: ShapeError for sizes that differ from those declared.
        """
        arrays = [np.asarray(operand) for operand in operands]
        key = tuple((array.shape, array.dtype) for array in arrays)
        with self.ctx.lock:
            compiled = self._compiled.get(key)
            if compiled is None or is_outdated(compiled.routine):
                compiled = self._compiled[key] = self._compile(arrays)
                while len(self._compiled) > self.limit:
                    self._compiled.popitem(last=False)
            self._compiled.move_to_end(key)
            for t, array in zip(compiled.operands, arrays, strict=True):
                self.ctx.set(t, array)
            if compiled.routine is not None:
                compiled.routine()
            return nested.rebuilt(compiled.structure, [self.ctx.get(t) for t in compiled.results])

    def _compile(self, arrays: Sequence[Array]) -> _Compiled:
        rows = self._rows(arrays)
        operands = [
            placeholder(f"operand_{number}", batch=batch, input=input, output=output, dtype=array.dtype)
            for number, (array, (batch, input, output)) in enumerate(zip(arrays, rows, strict=True))
        ]
        with training(False):
            structure = self._model(*operands)
            tensors = nested.leaves(structure)
            if not tensors or not all(isinstance(t, Tensor) for t in tensors):
                raise CodeError(f"the model of oc.compile returns tensors, not {structure!r}"[:200])
            with no_grad():
                results = [PRIMITIVES["id"](t).with_label(t.label) for t in tensors]  # placements of `t` do not change
            for t in results:
                self.ctx.init(t)
            routines = [compiled.routine for compiled in self._compiled.values()]
            name = getattr(self._model, "label", None) or "model"
            routine = compile_inference(self.ctx, results, name, routines)
        return _Compiled(routine, operands, results, structure)

    def _rows(self, arrays: Sequence[Array]) -> list[_Sizes]:
        """The rows of the operands. Raises: ShapeError for other sizes than those declared."""
        if self._shapes is None:
            return [(list(array.shape[:1]), [], list(array.shape[1:])) for array in arrays]
        if len(self._shapes) != len(arrays):
            raise ShapeError(f"the model is compiled for {len(self._shapes)} operands, and called with {len(arrays)}")
        known: dict[str, int] = {}
        return [
            _rows_of(shape, array, number, known)
            for number, (shape, array) in enumerate(zip(self._shapes, arrays, strict=True))
        ]


def _rows_of(declared: _Rows, array: Array, number: int, known: dict[str, int]) -> _Sizes:
    """The sizes of an array by row. `known` maps names to their sizes in the operands before."""
    axes = sum(map(len, declared))
    if axes != array.ndim:
        raise ShapeError(f"operand {number} is declared with {axes} axes, and the array has {array.shape}")
    sizes = iter(array.shape)
    batch, output, input = ([_checked_size(name, next(sizes), number, known) for name in row] for row in declared)
    return batch, input, output


def _checked_size(name: str, size: int, number: int, known: dict[str, int]) -> int:
    expected = int(name) if name.isdecimal() else known.setdefault(name, size)
    if size != expected:
        raise ShapeError(f"`{name}` of operand {number} is {size}, but {expected} is declared, or found before")
    return size
