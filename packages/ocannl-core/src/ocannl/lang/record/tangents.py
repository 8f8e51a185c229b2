"""Forward-mode differentiation of code: every assignment to a node is accompanied by that of the node's tangent.

A tangent is the directional derivative of a value, for given tangents of the inputs. Code may write gradients: then the
tangents of the gradients are products of second derivatives with the direction (Pearlmutter 1994).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import replace
from typing import Any, cast

from ocannl.base.errors import CodeError
from ocannl.ir.assign import (
    Assign,
    Call,
    Comp,
    Conditional,
    Convert,
    LabeledBlock,
    Loop,
    Number,
    Piece,
    Read,
    Seq,
    Value,
    assigns,
    host_calls,
)
from ocannl.ir.ops import ADD, BY_NAME, MUL, Op
from ocannl.ir.precision import Precision, float64
from ocannl.ir.projections import is_injective, is_surjective
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core.derivatives import DERIVATIVES
from ocannl.lang.core.fill import fill
from ocannl.lang.core.symbolic_terms import Term, apply, with_constants_in

SELECTIONS = (BY_NAME["max"], BY_NAME["min"])
SUMS = (None, ADD, BY_NAME["sub"])


class Differentiation:
    """The forward-mode derivative of one piece of code.

    `inputs` are the nodes with given tangents, `constants` the nodes whose tangent is zero by definition. Tangents are
    nodes that `tangent_of` returns; `writes` tells which primal assignments are part of the result.
    """

    def __init__(
        self,
        code: Comp,
        inputs: Set[TNode],
        constants: Set[TNode],
        tangent_of: Callable[[TNode], TNode],
        writes: Callable[[TNode], bool] = lambda node: True,
    ) -> None:
        self.code, self.inputs, self.constants, self.writes = code, inputs, constants, writes
        self.tangents: dict[TNode, TNode] = {node: tangent_of(node) for node in inputs}
        statements = [*assigns(code)]
        size = -1
        while size != len(self.tangents):  # a fixpoint, since bodies of loops are executed several times
            size = len(self.tangents)
            for statement in statements:
                if self._depends(statement):
                    self.tangents.setdefault(statement.lhs, tangent_of(statement.lhs))
        for call in host_calls(code):
            has_floats = any(node.precision.is_float for node in call.written)
            if has_floats and any(node in self.tangents for node in call.read):
                raise CodeError(f"oc.jvp does not differentiate the {call} of `{call.label}`, a Python function")

    def _depends(self, statement: Assign) -> bool:
        lhs = statement.lhs
        if lhs in self.tangents or lhs in self.constants or not lhs.precision.is_float:
            return False
        return any(self.tangent(piece.value) is not None for piece in statement.pieces)

    def differentiated(self) -> Comp:
        """The code, with the assignments of tangents."""
        initialized = [
            fill(tangent, node.dims, Number(0.0), statement.origin)
            for node, tangent, statement in self._first_uses()
            if node not in self.inputs and not _overwrites(statement, node)
        ]
        return Seq((*initialized, self._differentiated(self.code)))

    def _first_uses(self) -> Iterator[tuple[TNode, TNode, Assign]]:
        """The nodes with tangents, each with the first statement that mentions the node."""
        seen: set[TNode] = set()
        for statement in assigns(self.code):
            for node in (statement.lhs, *(read.node for piece in statement.pieces for read in piece.reads)):
                if node in self.tangents and node not in seen:
                    seen.add(node)
                    yield node, self.tangents[node], statement

    def _differentiated(self, code: Comp) -> Comp:
        match code:
            case Seq(items):
                return Seq(tuple(map(self._differentiated, items)))
            case LabeledBlock(text, body):
                return LabeledBlock(text, self._differentiated(body))
            case Loop() | Conditional():
                private = (*code.private, *(self.tangents[node] for node in code.private if node in self.tangents))
                return replace(code, body=self._differentiated(code.body), private=private)
            case Assign():
                return Seq(tuple(self._assignments(code)))
            case _:
                return code

    def _assignments(self, a: Assign) -> Iterator[Assign]:
        tangent, primal = self.tangents.get(a.lhs), [a] if self.writes(a.lhs) else []
        if tangent is None:
            yield from primal
        elif a.accum in SUMS:
            yield from self._linear(a, tangent)
            yield from primal
        elif a.accum in SELECTIONS or a.accum is MUL:
            assert a.accum is not None
            pieces, saved = self._with_saved_value(a, tangent)
            yield from saved
            yield from primal
            yield from (self._product if a.accum is MUL else self._selection)(a, tangent, pieces)
        else:
            assert a.accum is not None
            yield self._update(a, tangent, a.accum)
            yield from primal

    def _linear(self, a: Assign, tangent: TNode) -> Iterator[Assign]:
        """A store or a sum. The tangent of a sum of products is one sum for each factor, as in a matrix product."""
        values = [self.tangent(piece.value) for piece in a.pieces]
        if a.accum is not None and not a.clear and all(value is None for value in values):
            return
        if a.accum is not None and len(values) == 1 and values[0] is not None:
            for n, term in enumerate(_terms(values[0])):
                piece = _with_value(a.pieces[0], term, tangent)
                yield replace(a, lhs=tangent, clear=a.clear and n == 0, pieces=(piece,))
            return
        pieces = (_with_value(p, value or Number(0.0), tangent) for p, value in zip(a.pieces, values, strict=True))
        yield replace(a, lhs=tangent, pieces=tuple(pieces))

    def _update(self, a: Assign, tangent: TNode, accum: Op) -> Assign:
        """`lhs <- accum(lhs, value)`, at most once for each cell."""
        pieces = []
        for p in a.pieces:
            if len(a.pieces) > 1 or not is_injective(p.indices, p.loops):
                several = f"`={accum.name}` of several values in one cell of `{a.lhs.label}`"
                raise CodeError(f"oc.jvp does not differentiate {several}")
            old: Value = Number(accum.neutral or 0.0) if a.clear else Read(a.lhs, p.indices)
            value = self.tangent(Call(accum, (old, p.value)))
            pieces.append(_with_value(p, value or Number(0.0), tangent))
        return Assign(tangent, None, True, tuple(pieces), a.origin)

    def _with_saved_value(self, a: Assign, tangent: TNode) -> tuple[list[Piece], list[Assign]]:
        """The pieces with the previous value of the target as a node of its own, and the assignment that saves it.

        Unless the target is cleared, its previous value is one more operand of the reduction.
        """
        if a.clear and all(read.node is not a.lhs for p in a.pieces for read in p.reads):
            return [*a.pieces], []
        old = _local(a, "before", a.lhs.precision)
        self.tangents[old] = tangent
        save = fill(old, a.lhs.dims, Number(0.0), a.origin)
        (every_cell,) = save.pieces
        save = replace(save, pieces=(replace(every_cell, value=Read(a.lhs, every_cell.indices)),))
        pieces = [replace(p, value=_renamed(p.value, a.lhs, old)) for p in a.pieces]
        if not a.clear:
            pieces.append(replace(every_cell, value=Read(old, every_cell.indices)))
        return pieces, [save]

    def _selection(self, a: Assign, tangent: TNode, pieces: list[Piece]) -> Iterator[Assign]:
        """A maximum or minimum: the mean of the tangents of the values that attain it."""
        ties = _local(a, "ties", a.lhs.precision.arithmetic)
        attains = [apply("eq", _term(Convert(p.value, a.lhs.precision)), _read(a.lhs, p)) for p in pieces]
        counted = [_with_value(p, _value(x), ties) for p, x in zip(pieces, attains, strict=True)]
        yield Assign(ties, ADD, True, tuple(counted), a.origin)
        shares = [
            apply("where", x, _term(self.tangent(p.value) or Number(0.0)) / _read(ties, p), 0.0)
            for p, x in zip(pieces, attains, strict=True)
        ]
        yield _sum(a, tangent, pieces, shares)

    def _product(self, a: Assign, tangent: TNode, pieces: list[Piece]) -> Iterator[Assign]:
        """A product: the tangent of each factor times all other factors, which are a quotient unless it is singular."""
        kind = a.lhs.precision.arithmetic
        singular, invertible = _local(a, "singular", kind), _local(a, "invertible", kind)
        is_invertible = [apply("eq", _term(p.value) / _term(p.value), 1.0) for p in pieces]
        counts = [apply("where", x, 0.0, 1.0) for x in is_invertible]
        yield _sum(a, singular, pieces, counts)
        factors = [apply("where", x, _term(p.value), 1.0) for p, x in zip(pieces, is_invertible, strict=True)]
        yield replace(_sum(a, invertible, pieces, factors), accum=MUL)
        terms = []
        for p, x in zip(pieces, is_invertible, strict=True):
            product = _read(a.lhs, p)
            cofactors = apply("where", apply("eq", _read(singular, p), 1.0), _read(invertible, p), product)
            cofactor = apply("where", x, product / _term(p.value), cofactors)
            terms.append(cofactor * _term(self.tangent(p.value) or Number(0.0)))
        yield _sum(a, tangent, pieces, terms)

    def tangent(self, value: Value) -> Value | None:
        """The tangent of a formula; None if it is zero."""
        match value:
            case Read(node, merge=False) if node in self.tangents:
                return replace(value, node=self.tangents[node], outside=None if value.outside is None else 0.0)
            case Convert(inner, kind) if kind.is_float:
                tangent = self.tangent(inner)
                return None if tangent is None else Convert(tangent, kind)
            case Call(op, args):
                operands = [_term(arg) for arg in args]
                terms = [
                    rule(_term(tangent), _term(value), *operands)
                    for rule, arg in zip(DERIVATIVES.get(op.name, ()), args, strict=False)
                    if rule is not None and (tangent := self.tangent(arg)) is not None
                ]
                return _value(sum(terms[1:], terms[0])) if terms else None
            case _:
                return None


def _overwrites(a: Assign, node: TNode) -> bool:
    """Whether a statement replaces the values of all cells of a node."""
    if a.lhs is not node or any(read.node is node for p in a.pieces for read in p.reads):
        return False
    if a.accum is not None:
        return a.clear
    return any(p.when.is_true and not p.indirect and is_surjective(p.indices, p.loops, node.dims) for p in a.pieces)


def _terms(value: Value) -> list[Value]:
    """The terms of a sum."""
    if isinstance(value, Call) and value.op is ADD:
        return [term for arg in value.args for term in _terms(arg)]
    return [value]


def _sum(a: Assign, target: TNode, pieces: list[Piece], terms: list[Term]) -> Assign:
    written = (_with_value(p, _value(term), target) for p, term in zip(pieces, terms, strict=True))
    return Assign(target, ADD, True, tuple(written), a.origin)


def _local(a: Assign, name: str, kind: Precision) -> TNode:
    return TNode(f"{a.lhs.label}.{name}", Role.RESULT, lambda: a.lhs.dims, lambda: kind, where=a.lhs.where)


def _with_value(piece: Piece, value: Value, target: TNode) -> Piece:
    return replace(piece, value=with_constants_in(float64, value) if target.precision is float64 else value)


def _read(node: TNode, piece: Piece) -> Term:
    return _term(Read(node, piece.indices))


def _renamed(value: Value, node: TNode, new: TNode) -> Value:
    match value:
        case Read() if value.node is node:
            return replace(value, node=new)
        case Call(op, args):
            return Call(op, tuple(_renamed(arg, node, new) for arg in args))
        case Convert(inner, kind):
            return Convert(_renamed(inner, node, new), kind)
        case _:
            return value


def _term(value: Value) -> Term:
    """A value as a term: derivatives are written for trees, which have the same inner nodes."""
    return Term(cast("Any", value))


def _value(term: Term) -> Value:
    return cast("Value", term.tree)
