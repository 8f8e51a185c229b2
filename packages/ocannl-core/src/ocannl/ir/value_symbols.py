"""Symbols on which the value of a formula depends, before lowering."""

from __future__ import annotations

from collections.abc import Iterator

from ocannl.ir.affine import Sym
from ocannl.ir.assign import Call, Convert, Index, Read, Value


def value_symbols(value: Value) -> Iterator[Sym]:
    """The symbols of the cells that are read, and those whose values are numbers in the formula."""
    match value:
        case Read(_, indices): yield from (sym for index in indices for sym in index.syms)
        case Index(index): yield from index.syms
        case Call(_, args): yield from (sym for arg in args for sym in value_symbols(arg))
        case Convert(inner): yield from value_symbols(inner)
        case _: pass
