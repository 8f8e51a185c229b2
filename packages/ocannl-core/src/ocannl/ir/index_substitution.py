"""Substitution of symbols in the indices of code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import (
    Assign,
    Call,
    Comp,
    Conditional,
    Convert,
    Index,
    IndirectIndex,
    LabeledBlock,
    Loop,
    ParallelForm,
    Piece,
    Read,
    Seq,
    Value,
)

Values = Mapping[Sym, Affine]


def substitute(code: Comp, values: Values) -> Comp:
    """Replaces symbols of enclosing loops, or static symbols, by index expressions."""
    match code:
        case ParallelForm(items, sequential=sequential):
            parallel = tuple([substitute(item, values) for item in items])
            return replace(code, items=parallel, sequential=substitute(sequential, values))
        case Seq(items):
            return Seq(tuple([substitute(item, values) for item in items]))
        case LabeledBlock(text, body):
            return LabeledBlock(text, substitute(body, values))
        case Loop(_, body) | Conditional(_, body):
            new = replace(code, body=substitute(body, values))
            return replace(new, condition=_value(new.condition, values)) if isinstance(new, Conditional) else new
        case Assign():
            return replace(code, pieces=tuple([_piece(piece, values) for piece in code.pieces]))
        case _:
            return code


def _piece(piece: Piece, values: Values) -> Piece:
    return replace(
        piece,
        indices=_indices(piece.indices, values),
        value=_value(piece.value, values),
        when=piece.when.substitute(values),
        indirect=tuple([IndirectIndex(pick.sym, _value(pick.value, values)) for pick in piece.indirect]),
    )


def _value(value: Value, values: Values) -> Value:
    match value:
        case Read():
            return replace(value, indices=_indices(value.indices, values))
        case Index(index):
            return Index(index.substitute(values))
        case Call(op, args):
            return Call(op, tuple([_value(argument, values) for argument in args]))
        case Convert(inner, precision):
            return Convert(_value(inner, values), precision)
        case _:
            return value


def _indices(indices: tuple[Affine, ...], values: Values) -> tuple[Affine, ...]:
    return tuple([index.substitute(values) for index in indices])
