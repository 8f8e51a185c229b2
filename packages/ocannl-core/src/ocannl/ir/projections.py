"""How one operation walks its tensors: loops, and for each tensor the cell that an iteration touches.

Projections are derived for one operation at a time, with symbols of its own. A loop that the result's index does not
mention is a reduction; nothing else declares one.
"""

from __future__ import annotations

from dataclasses import dataclass

from ocannl.ir.index import Affine, Sym

Indices = tuple[Affine, ...]


@dataclass(frozen=True, slots=True)
class Projection:
    """One box of iterations. An operand that takes no part in it (another part of a concatenation) has None.

    Indices are in memory order and may leave the array (padded windows): readers guard, see `Read.outside`.
    """

    loops: tuple[Sym, ...]
    result: Indices
    operands: tuple[Indices | None, ...]


@dataclass(frozen=True, slots=True)
class Projections:
    """The boxes of an operation, in the order of its parts; one, unless something is concatenated.

    Gradients permute the roles of the tensors and keep the loops.
    """

    pieces: tuple[Projection, ...]
    result_dims: tuple[int, ...]
    operand_dims: tuple[tuple[int, ...], ...]

    def tensor(self, slot: int) -> tuple[tuple[Indices | None, ...], tuple[int, ...]]:
        """Indices per piece and dims of a tensor of the operation: 0 is the result, n the n-th operand."""
        if slot == 0:
            return tuple(p.result for p in self.pieces), self.result_dims
        return tuple(p.operands[slot - 1] for p in self.pieces), self.operand_dims[slot - 1]
