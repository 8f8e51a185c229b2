"""Symbols on which the value of an expression, or the effect of a statement, depends."""

from __future__ import annotations

from ocannl.ir.affine import Sym
from ocannl.ir.loops import BindIndex, Body, For, If, IndexValue, Load, Prefetch, ReadClock, Store, Update, When
from ocannl.ir.walk import Node, walk


def mentioned_symbols(node: Node) -> tuple[Sym, ...]:
    """The symbols of the indices, bounds and condition of a node itself, not of its children and not the symbol that it
    binds, in order of first mention."""
    match node:
        case Load(ref) | Store(ref) | Update(ref) | Prefetch(ref) | ReadClock(ref):
            return ref.syms
        case IndexValue(index):
            return index.syms
        case If(cond) | When(cond):
            return cond.syms
        case For(_, lo, hi):
            return (*lo.syms, *hi.syms)
        case _:
            return ()


def free_symbols(node: Node | Body) -> set[Sym]:
    """The symbols that a node or its descendants mention, without those that its loops and `BindIndex` bind."""
    free: set[Sym] = set()
    bound: set[Sym] = set()
    for descendant in walk(node):
        free.update(mentioned_symbols(descendant))
        if isinstance(descendant, For | BindIndex):
            bound.add(descendant.sym)
    return free - bound
