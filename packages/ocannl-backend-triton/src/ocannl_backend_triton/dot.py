"""Products of matrices, as an emitter writes them.

    for k_start in range(0, 300, BLOCK_k):
        k = k_start + tl.arange(0, BLOCK_k)[None, :]             along the columns of the left factor
        k_2 = k_start + tl.arange(0, BLOCK_k)[:, None]           along the rows of the right one
        acc = tl.dot(tl.load(a + 300 * i + k), tl.load(b + 40 * k_2 + j), acc, input_precision="ieee")
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ocannl.codegen.numbers import is_narrow
from ocannl.ir.index import Cond, Sym
from ocannl.ir.loops import Cast, Expr, Load, Update
from ocannl.ir.precision import bfloat16
from ocannl_backend_triton.axes import Axis
from ocannl_backend_triton.products import Product
from ocannl_backend_triton.scope import Guard, Index
from ocannl_backend_triton.values import Value

if TYPE_CHECKING:
    from ocannl_backend_triton.emit import Emitter

NEAR = 8  # rows of tiles that are taken together


@dataclass(frozen=True, slots=True)
class Factor:
    """One side of a product: `index` is what the symbol that is summed is there, `other` the one that it knows nothing
    of."""

    value: Expr
    sym: Sym
    index: Index
    size: str
    edge: tuple[Guard, ...]
    other: Sym
    is_narrow: bool


def products(emitter: Emitter, axis: Axis, product: Product) -> None:
    """A loop over blocks of a sum, for each of which matrices are multiplied."""
    size = emitter.scope.constant(f"BLOCK_{axis.sym.name}", axis.block)
    if axis.count == 1:
        _block(emitter, axis, product, str(axis.sym.lo) if axis.sym.lo else "", size)
        return
    start = emitter.turn(axis, size)
    with emitter.scope.deeper(), emitter.hazards.loop(axis.loop.body):
        _block(emitter, axis, product, start, size)


def _block(emitter: Emitter, axis: Axis, product: Product, start: str, size: str) -> None:
    emitter.factors = tuple([
        _factor(emitter, axis, value, place, other.sym, start, size)
        for value, place, other in ((product.left, 1, product.columns), (product.right, 0, product.rows))
    ])
    emitter.statements(axis.loop.body)
    emitter.factors = ()


def _factor(emitter: Emitter, axis: Axis, value: Expr, place: int, other: Sym, start: str, size: str) -> Factor:
    columns = emitter.scope.arange(size, place)
    name = emitter.scope.let(axis.sym.name, f"{start} + {columns}" if start else columns)
    emitter.scope.syms[axis.sym] = index = Index(name, frozenset((place,)))
    edge = emitter.edge(axis, place)
    narrow = is_narrow(value.precision) or emitter.products == "bfloat16"
    return Factor(value, axis.sym, index, size, edge, other, narrow)


def add(emitter: Emitter, update: Update) -> None:
    """What is added to a sum, for a block of its terms."""
    left, right = (_matrix(emitter, factor) for factor in emitter.factors)
    name = emitter.memory.load(update.ref).text
    how = "" if emitter.factors[0].is_narrow else f', input_precision="{emitter.products}"'
    emitter.line(f"{name} = tl.dot({left}, {right}, {name}{how})")


def _matrix(emitter: Emitter, factor: Factor) -> str:
    """A factor as a block, zero where it is not meant."""
    scope, operations = emitter.scope, emitter.operations
    scope.syms[factor.sym] = factor.index
    facts = [Cond((fact,)) for cond in emitter.conds for fact in cond.ge0]
    facts += [Cond((), (fact,)) for cond in emitter.conds for fact in cond.eq0]
    guards = [*factor.edge, *(scope.guard(fact) for fact in facts if factor.other not in fact.syms)]
    (place,) = factor.index.axes
    with scope.along(place, factor.size), scope.guarded(*guards):
        value = operations.typed(emitter.value(factor.value))
        if emitter.products == "bfloat16":
            value = operations.cast(value, bfloat16)
        mask = scope.mask(guards)
        if mask is not None and not _is_masked(factor.value, guards):
            zero = operations.typed(operations.number(0, value.precision)).text
            value = Value(f"tl.where({mask.text}, {value.text}, {zero})", value.precision, value.axes | mask.axes)
        return scope.spread(value, frozenset((0, 1))).text


def _is_masked(value: Expr, guards: Sequence[Guard]) -> bool:
    """Whether it is a number that is only loaded where all of these hold."""
    while isinstance(value, Cast):
        value = value.value
    return isinstance(value, Load) and all(any(g.syms & set(at.syms) for at in value.ref.at) for g in guards)


def near(emitter: Emitter) -> None:
    """Programs that run at the same time take tiles that share rows and columns: so many rows of tiles, column by
    column."""
    tiles = [axis for axis in emitter.layout.grid if axis.block > 1]
    if not emitter.layout.products or len(tiles) != 2 or tiles != emitter.layout.grid[-2:]:
        return
    rows, columns = tiles
    if rows.count < 2 * NEAR or columns.count < 2:
        return
    let = emitter.scope.let
    tile = let("tile", f"tl.program_id(0) % {rows.count * columns.count}")
    first = let("first", f"{tile} // {NEAR * columns.count} * {NEAR}")
    high = let("high", f"tl.minimum({rows.count} - {first}, {NEAR})")
    within = let("within", f"{tile} % {NEAR * columns.count}")
    emitter.blocks[rows.sym] = let("row", f"{first} + {within} % {high}")
    emitter.blocks[columns.sym] = let("column", f"{within} // {high}")
