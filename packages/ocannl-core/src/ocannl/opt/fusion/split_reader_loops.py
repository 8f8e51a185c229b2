"""Splits loops that read an array whose axes are merged into the loops that write it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ocannl.ir.affine import Affine, Bound, Sym
from ocannl.ir.loops import For, If, Ref, Stmt, Store, Update, is_full
from ocannl.ir.name_mangling import Namer
from ocannl.opt.analysis.nests import PerfectNest, covering_loops, loads, nest_of
from ocannl.opt.analysis.substitution import substitute

Terms = list[tuple[int, Sym]]


def has_merged_axes(nest: PerfectNest) -> bool:
    """Whether the nest computes all cells of an array that has an axis over which several of its loops run."""
    leaf, loops = nest.leaf, nest.loops
    merges = isinstance(leaf, Store) and any(len(index.terms) > 1 for index in leaf.ref.indices)
    return merges and covering_loops(leaf.ref, loops) == {loop.sym for loop in loops}


def digits_of(index: Affine) -> Terms:
    """The terms of a merged index, the innermost first."""
    return sorted(index.terms, key=lambda term: (term[0], term[1].lo, term[1].hi))


def merges_equally(written: Ref, read: Ref) -> bool:
    """Whether the read merges loops of the same ranges where the write merges loops."""
    pairs = zip(written.indices, read.indices, strict=True)
    return all(len(index.terms) < 2 or _form(index) == _form(at) for index, at in pairs)


def _form(index: Affine) -> tuple[object, ...]:
    return index.const, *((coef, sym.lo, sym.hi) for coef, sym in digits_of(index))


def split_loops(written: Ref, reader: Stmt, names: Namer) -> Stmt | None:
    """Returns the nest with each of its loops over a merged axis replaced by loops over the digits. None if it reads
    the array in another way, or only a part of the axis.

    The axes of `t[8*i+j]` are merged:

        for n in 0..32:                  for i_2 in 0..4:
          y[n] = t[n] + x[n]               for j_2 in 0..8:
                                 ==>         y[j_2+8*i_2] = t[j_2+8*i_2] + x[j_2+8*i_2]
    """
    nest = nest_of(reader)
    if nest is None:
        return None
    merged: dict[Sym, Affine] = {}
    loops = {loop.sym for loop in nest.loops if is_full(loop)}
    for read in loads(nest.leaf.value):
        if read.buf is not written.buf:
            continue
        for index, at in zip(written.indices, read.indices, strict=True):
            if len(index.terms) > 1 and _form(index) != _form(at):
                sym = at.only_sym
                if sym not in loops or (sym.lo, sym.hi) != index.range():
                    return None
                if merged.setdefault(sym, index) is not index:
                    return None
    digits = {sym: _new_symbols(index, names) for sym, index in merged.items()}
    return _with_loops(reader, digits, {sym: Affine.sum(digits[sym], index.const) for sym, index in merged.items()})


def _new_symbols(index: Affine, names: Namer) -> Terms:
    """The terms of a merged index with new symbols, the outermost first."""
    return [(coef, Sym(names(sym.name), sym.lo, sym.hi)) for coef, sym in reversed(digits_of(index))]


def _with_loops(stmt: Stmt, digits: Mapping[Sym, Terms], values: Mapping[Sym, Affine]) -> Stmt:
    match stmt:
        case For(sym, lo, hi, (inner,)):
            body = _with_loops(inner, digits, values)
            for _, digit in reversed(digits.get(sym, [])):
                body = For(digit, Bound.lower(digit.lo), Bound.upper(digit.hi + 1), (body,), origin=stmt.origin)
            if sym in digits:
                return body
            return replace(stmt, lo=lo.substitute(values), hi=hi.substitute(values), body=(body,))
        case If(cond, (inner,)):
            return If(cond.substitute(values), (_with_loops(inner, digits, values),))
        case Store(ref, value) | Update(ref, _, value):
            return replace(stmt, ref=ref.substitute(values), value=substitute(value, values))
    return stmt
