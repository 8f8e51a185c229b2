"""What backends ask of planes of lanes, which are turned in registers: which cells, and which lanes change places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ocannl.ir.index import Sym
from ocannl.ir.loops import Expr, Load, Ref, When
from ocannl.ir.touch import is_there
from ocannl.ir.walk import children


@dataclass(frozen=True, slots=True)
class Turning:
    """Rows that `row` counts, of lanes that `lane` counts."""

    row: Sym
    lane: Sym

    def turns(self, ref: Ref) -> bool:
        """Whether the cells lie side by side along the rows, and apart along the lanes."""
        return abs(ref.stride(self.lane)) > 1 and ref.stride(self.row) == 1

    def read(self, value: Expr) -> list[Ref]:
        """Such cells that are there to be read whatever holds."""
        return list(dict.fromkeys(ref for ref in _safe(value) if self.turns(ref)))


def square(rows: int) -> int:
    """The power of two that so many rows fit into."""
    return 1 << (rows - 1).bit_length()


def exchanges(size: int, width: int) -> Iterator[tuple[int, list[int], list[int]]]:
    """How squares of so many lanes are turned: what lies above the diagonal changes places with what lies below it,
    first of single lanes, then of pairs, and so on. For each step, which is how far apart two rows are, the lanes of
    both that the first of them has afterwards, and the second; lanes of the second come after those of the first."""
    for step in (1 << n for n in range(size.bit_length() - 1)):
        above = [width + x - step if x & step else x for x in range(width)]
        below = [width + x if x & step else x + step for x in range(width)]
        yield step, above, below


def _safe(expr: Expr, certain: bool = True) -> Iterator[Ref]:
    match expr:
        case Load(ref):
            if certain or is_there(ref):
                yield ref
        case _:
            for part in children(expr):
                yield from _safe(part, certain and not isinstance(expr, When))  # type: ignore[arg-type]
