"""Register transposes of tiles (rows of vectors): which accesses need one, and its shuffle network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ocannl.ir.accesses import always_in_bounds
from ocannl.ir.affine import Sym
from ocannl.ir.loops import Expr, Load, Ref, When
from ocannl.ir.walk import children


@dataclass(frozen=True, slots=True)
class TransposedAccess:
    """Accesses of a register tile whose rows are indexed by `row` and whose lanes are indexed by `lane`."""

    row: Sym
    lane: Sym

    def is_transposed(self, ref: Ref) -> bool:
        """Whether the access is contiguous along the rows and strided along the lanes."""
        return abs(ref.stride(self.lane)) > 1 and ref.stride(self.row) == 1

    def hoistable_reads(self, value: Expr) -> list[Ref]:
        """The transposed reads that are safe to hoist out of guards."""
        return list(dict.fromkeys(ref for ref in _safe_reads(value) if self.is_transposed(ref)))


def transpose_network(size: int, width: int) -> Iterator[tuple[int, list[int], list[int]]]:
    """The log2(size)-step butterfly network that transposes square tiles of `size` rows in vectors of `width` lanes.

    Yields for each step the distance between the two rows that are exchanged, and the shuffle masks that produce the
    new first and second row; masks count the lanes of the second row after those of the first.
    """
    for step in (1 << n for n in range(size.bit_length() - 1)):
        above = [width + x - step if x & step else x for x in range(width)]
        below = [width + x if x & step else x + step for x in range(width)]
        yield step, above, below


def _safe_reads(expr: Expr, unconditional: bool = True) -> Iterator[Ref]:
    match expr:
        case Load(ref):
            if unconditional or always_in_bounds(ref):
                yield ref
        case _:
            for operand in children(expr):
                yield from _safe_reads(operand, unconditional and not isinstance(expr, When))  # type: ignore[arg-type]
