"""The assignment that fills a node with one value."""

from __future__ import annotations

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import Assign, Origin, Piece, Value
from ocannl.ir.tnode import TNode


def fill(node: TNode, dims: tuple[int, ...], value: Value, origin: Origin) -> Assign:
    loops = tuple(Sym(f"i{n}", 0, size - 1) for n, size in enumerate(dims) if size != 1)
    remaining = iter(loops)
    indices = tuple(Affine() if size == 1 else Affine.of(next(remaining)) for size in dims)
    return Assign(node, None, True, (Piece(loops, indices, value),), origin)
