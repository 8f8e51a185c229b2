"""Products of matrices of bfloat16 with float32 sums, for processors with instructions for tiles or pairs.

    tensorized for r in 0..32:
      for c in 0..32:
        local acc: f32
        acc = 0
        for k in 0..64:
          acc += f32(x[r, 2*k]) * f32(w[k, c, 0]) + f32(x[r, 2*k+1]) * f32(w[k, c, 1])
        sums[r, c] = acc

The factors of a pair of terms are adjacent in memory, and so are the pairs of successive columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ocannl.ir.affine import Sym
from ocannl.ir.loops import (
    AccessMode,
    Buf,
    Const,
    For,
    Load,
    Local,
    MemorySpace,
    Mode,
    Ref,
    Stmt,
    Store,
    Update,
    is_full,
    loop,
)
from ocannl.ir.ops import ADD
from ocannl.ir.pair_dots import dot_of_pairs, factors_of_dot
from ocannl.ir.precision import bfloat16, float32

TILE_ROWS = 16  # of the left operand and of the sums
TILE_COLUMNS = 16  # of the sums
TILE_PAIRS = 16  # of terms: pairs in a row of the left operand, rows of the right one
MAX_ROWS = 2 * TILE_ROWS
MAX_COLUMNS = 2 * TILE_COLUMNS


@dataclass(frozen=True, slots=True)
class TileProduct:
    """`sums[row, column]` is the sum of `left * right` over `loops`.

    Attributes:
        sums: The cell of the result, of float32; columns are adjacent.
        left: The first factor of a pair on the left, of bfloat16; it does not depend on the column.
        right: The first factor of a pair on the right, of bfloat16; it does not depend on the row.
        row: The loop over 1 to `MAX_ROWS` rows.
        column: The loop over `TILE_COLUMNS` or `MAX_COLUMNS` columns.
        loops: The reduction loops; the innermost is over pairs, whose number is a multiple of `TILE_PAIRS`.
    """

    sums: Ref
    left: Ref
    right: Ref
    row: Sym
    column: Sym
    loops: tuple[For, ...]

    @property
    def pair(self) -> Sym:
        return self.loops[-1].sym

    @property
    def is_valid(self) -> bool:
        """Whether tiles can be loaded and stored, row by row, as the instructions do."""
        counted = (self.row, self.column, self.pair)
        precisions = [ref.buf.precision for ref in (self.sums, self.left, self.right)]
        return (
            precisions == [float32, bfloat16, bfloat16]
            and all(map(is_full, self.loops)) and not any(sym.lo for sym in counted)
            and 1 <= self.row.extent <= MAX_ROWS and self.column.extent in (TILE_COLUMNS, MAX_COLUMNS)
            and self.pair.extent > 0 and self.pair.extent % TILE_PAIRS == 0
            and all(map(_second_of_pair, (self.left, self.right)))
            and self.left.stride(self.pair) == 2 and not self.left.stride(self.column)
            and self.right.stride(self.column) == 2 and not self.right.stride(self.row)
            and self.sums.stride(self.column) == 1 and not any(self.sums.stride(outer.sym) for outer in self.loops)
        )  # fmt: skip

    def stmt(self, acc: str) -> For:
        """Returns the loops, with the name of the accumulator."""
        total = Ref(Buf(acc, float32, (), (), MemorySpace.LOCAL, AccessMode.TEMP), ())
        x, y = self.left, self.right
        u, v = map(_second_of_pair, (x, y))
        assert u is not None and v is not None
        body: tuple[Stmt, ...] = (Update(total, ADD, dot_of_pairs((Load(x), Load(y), Load(u), Load(v)))),)
        for old in reversed(self.loops):
            body = (For(old.sym, old.lo, old.hi, body, origin=old.origin),)
        body = (Local(total.buf), Store(total, Const(0.0, float32)), *body, Store(self.sums, Load(total)))
        return loop(self.row, (loop(self.column, body),), mode=Mode.TENSORIZED)


def _second_of_pair(ref: Ref) -> Ref | None:
    """Returns the next cell in memory along the axis with unit stride; None if there is no such axis."""
    sizes = enumerate(zip(ref.buf.shape, ref.buf.strides, strict=True))
    axis = next((axis for axis, (size, stride) in sizes if stride == 1 and size > 1), None)
    if axis is None:
        return None
    return Ref(ref.buf, (*ref.indices[:axis], ref.indices[axis] + 1, *ref.indices[axis + 1 :]))


def tile_product(stmt: Stmt) -> TileProduct | None:
    """Returns the product that `TileProduct.stmt` has built; None for other statements."""
    match stmt:
        case For(
            mode=Mode.TENSORIZED,
            body=(
                For(body=(Local(acc), Store(_, Const(0.0)), For() as nest, Store(sums, Load(Ref(total))))) as inner,
            ),
        ) if total is acc and is_full(stmt) and is_full(inner):
            pass
        case _:
            return None
    loops: list[For] = []
    term: Stmt = nest
    while isinstance(term, For) and len(term.body) == 1:
        loops.append(replace(term, body=()))
        (term,) = term.body
    factors = _pair_factors(term, acc)
    if factors is None:
        return None
    product = TileProduct(sums, *factors, stmt.sym, inner.sym, tuple(loops))
    return product if product.is_valid else None


def _pair_factors(stmt: Stmt, acc: Buf) -> tuple[Ref, Ref] | None:
    """Returns the first factors of the dot product of pairs that the statement adds to `acc`."""
    if not isinstance(stmt, Update) or stmt.op is not ADD or stmt.ref.buf is not acc:
        return None
    match factors_of_dot(stmt.value):
        case (Load(x), Load(y), Load(u), Load(v)) if (_second_of_pair(x), _second_of_pair(y)) == (u, v):
            return x, y
        case _:
            return None
