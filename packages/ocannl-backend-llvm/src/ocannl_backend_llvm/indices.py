"""Affine indices as instructions.

A sum runs from the outermost loop inwards, and each partial sum stands, once, at the head of the body of the loop that
determines it: what an inner loop repeats is an addition, whatever the index.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ocannl.codegen import Document
from ocannl.ir.index import Affine, Bound, Cond, Sym
from ocannl.ir.loops import Ref
from ocannl_backend_llvm.build import Builder


@dataclass(slots=True)
class _Scope:
    """The body of a loop, or of the function: its head, and the sums that stand there already."""

    head: Builder
    sums: dict[tuple[object, ...], str] = field(default_factory=dict)


class Indices:
    """The symbols in scope, and arithmetic on them. A value is an i64 operand, or a number if it is always that one."""

    __slots__ = ("_b", "_doc", "_offsets", "_scopes", "_values")

    def __init__(self, b: Builder, doc: Document) -> None:
        self._b = b
        self._doc = doc
        self._offsets: dict[int, tuple[Ref, Affine]] = {}  # by identity: unrolled code is that of the same cells
        self._scopes: list[_Scope] = []
        self._values: dict[Sym, tuple[int, str | int]] = {}  # and how many loops determine it
        self._open()

    def _open(self) -> None:
        self._scopes.append(_Scope(self._b.at(self._doc.section())))

    def bind(self, sym: Sym, value: str | int) -> None:
        """A symbol that no open loop changes."""
        self._values[sym] = (0, value)

    def enter(self, sym: Sym, value: str) -> None:
        """The head of the body of a loop: here, in the document."""
        self._values[sym] = (len(self._scopes), value)
        self._open()

    def leave(self) -> None:
        self._scopes.pop()

    def affine(self, index: Affine) -> str | int:
        return self._sum(index.terms, index.const)

    def _sum(self, parts: Iterable[tuple[int, Sym]], const: int) -> str | int:
        terms: list[tuple[int, str, int]] = []
        for coef, sym in parts:
            depth, value = self._values[sym]
            if isinstance(value, int):
                const += coef * value
            else:
                terms.append((depth, value, coef))
        if not terms:
            return const
        key: tuple[object, ...] = ()
        total = ""
        for depth, value, coef in sorted(terms):
            scope = self._scopes[depth]
            sign, size = ("sub", -coef) if total and coef < 0 else ("add", coef)
            term = value if size == 1 else _once(scope, (value, size), f"mul nsw i64 {value}, {size}")
            key = (*key, value, coef)
            total = _once(scope, key, f"{sign} nsw i64 {total}, {term}") if total else term
        return _once(scope, (*key, const), f"add nsw i64 {total}, {const}") if const else total

    def offset(self, ref: Ref) -> str | int:
        """Of the cell, in elements."""
        if id(ref) not in self._offsets:
            self._offsets[id(ref)] = ref, _offset(ref)
        offset = self._offsets[id(ref)][1]
        return self._sum(offset.terms, offset.const)

    def condition(self, cond: Cond) -> str:
        """An i1."""
        b, test = self._b, "true"
        for facts, relation in ((cond.ge0, "sge"), (cond.eq0, "eq")):
            for fact in facts:
                at = self.affine(fact)
                if not isinstance(at, int):
                    holds = b.let(f"icmp {relation} i64 {at}, 0", "if")
                    test = holds if test == "true" else b.let(f"and i1 {test}, {holds}", "if")
                elif at < 0 or (relation == "eq" and at):
                    return "false"
        return test

    def first(self, bound: Bound) -> str | int:
        """Where a counter starts."""
        return self._extreme(bound, lower=True)

    def limit(self, bound: Bound) -> str | int:
        """The first value that is too large for it."""
        return self._extreme(bound, lower=False)

    def _extreme(self, bound: Bound, lower: bool) -> str | int:
        numbers: list[int] = []
        operands: list[str] = []
        for index, div in bound.of:
            # ceil(i / d) is floor((i + d - 1) / d), and floor(i / d) + 1 is floor((i + d) / d)
            at = self._sum(index.terms, index.const + (div - 1 if lower else div))
            if isinstance(at, int):
                numbers.append(at // div)
            else:
                operands.append(self._floor(at, div))
        if numbers:
            number = max(numbers) if lower else min(numbers)
            if not operands:
                return number
            operands.append(str(number))
        result = operands[0]
        for operand in operands[1:]:
            result = self._b.intrinsic("smax" if lower else "smin", "i64", result, operand)
        return result

    def _floor(self, operand: str, div: int) -> str:
        """A quotient rounded down."""
        b = self._b
        if div & (div - 1) == 0:
            return b.op("ashr", "i64", operand, str(div.bit_length() - 1)) if div > 1 else operand
        quotient = b.op("sdiv", "i64", operand, str(div))
        rest = b.op("srem", "i64", operand, str(div))
        below = b.cast("sext", b.let(f"icmp slt i64 {rest}, 0"), "i1", "i64")
        return b.op("add", "i64", quotient, below)


def _offset(ref: Ref) -> Affine:
    places = list(zip(ref.at, ref.buf.strides, strict=True))
    const = sum([at.const * stride for at, stride in places])
    return Affine.sum([(coef * stride, sym) for at, stride in places for coef, sym in at.terms], const)


def _once(scope: _Scope, key: tuple[object, ...], instruction: str) -> str:
    found = scope.sums.get(key)
    if found is None:
        found = scope.sums[key] = scope.head.let(instruction, "ix")
    return found
