"""Emits affine indices, with common subexpression elimination and loop-invariant code motion.

Terms are summed from the outermost loop inwards, and each partial sum is computed once, at the head of the body of the
loop that determines it, so that inner loops compute one addition per index.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ocannl.codegen import Document
from ocannl.ir.affine import Affine, Bound, Cond, Sym
from ocannl.ir.loops import Ref
from ocannl_backend_llvm.builder import Builder


@dataclass(slots=True)
class _Scope:
    """The body of a loop or of the function: a builder for its head, and the partial sums computed there."""

    head: Builder
    sums: dict[tuple[object, ...], str] = field(default_factory=dict)


class Indices:
    """The symbols in scope, and arithmetic on them. A value is an i64 operand, or an int if it is constant."""

    __slots__ = ("_b", "_doc", "_offsets", "_scopes", "_values")

    def __init__(self, b: Builder, doc: Document) -> None:
        self._b = b
        self._doc = doc
        self._offsets: dict[int, tuple[Ref, Affine]] = {}  # by identity, since unrolled code repeats the same `Ref`
        self._scopes: list[_Scope] = []
        self._values: dict[
            Sym, tuple[int, str | int]
        ] = {}  # depth of the loop that determines the value, and the value
        self._open()

    def _open(self) -> None:
        self._scopes.append(_Scope(self._b.at(self._doc.section())))

    def bind(self, sym: Sym, value: str | int) -> None:
        """Binds a symbol to a value that is invariant in all open loops."""
        self._values[sym] = (0, value)

    def enter(self, sym: Sym, value: str) -> None:
        """Enters the body of a loop; its head is at the current position of the document."""
        self._values[sym] = (len(self._scopes), value)
        self._open()

    def leave(self) -> None:
        self._scopes.pop()

    def affine(self, index: Affine) -> str | int:
        return self._sum(index.terms, index.const)

    def _sum(self, linear_terms: Iterable[tuple[int, Sym]], const: int) -> str | int:
        terms: list[tuple[int, str, int]] = []
        for coef, sym in linear_terms:
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
            sign, magnitude = ("sub", -coef) if total and coef < 0 else ("add", coef)
            term = value if magnitude == 1 else _reuse(scope, (value, magnitude), f"mul nsw i64 {value}, {magnitude}")
            key = (*key, value, coef)
            total = _reuse(scope, key, f"{sign} nsw i64 {total}, {term}") if total else term
        return _reuse(scope, (*key, const), f"add nsw i64 {total}, {const}") if const else total

    def element_offset(self, ref: Ref) -> str | int:
        """The offset of a cell, in elements."""
        if id(ref) not in self._offsets:
            self._offsets[id(ref)] = ref, ref.address
        offset = self._offsets[id(ref)][1]
        return self._sum(offset.terms, offset.const)

    def condition(self, cond: Cond) -> str:
        """The condition as an i1."""
        b, test = self._b, "true"
        for indices, relation in ((cond.ge0, "sge"), (cond.eq0, "eq")):
            for index in indices:
                value = self.affine(index)
                if not isinstance(value, int):
                    holds = b.assign(f"icmp {relation} i64 {value}, 0", "if")
                    test = holds if test == "true" else b.assign(f"and i1 {test}, {holds}", "if")
                elif value < 0 or (relation == "eq" and value):
                    return "false"
        return test

    def first(self, bound: Bound) -> str | int:
        """The initial value of a loop counter."""
        return self._extreme(bound, lower=True)

    def limit(self, bound: Bound) -> str | int:
        """The exclusive upper bound of a loop counter."""
        return self._extreme(bound, lower=False)

    def _extreme(self, bound: Bound, lower: bool) -> str | int:
        numbers: list[int] = []
        operands: list[str] = []
        for index, div in bound.quotients:
            # ceil(i / d) is floor((i + d - 1) / d), and floor(i / d) + 1 is floor((i + d) / d)
            value = self._sum(index.terms, index.const + (div - 1 if lower else div))
            if isinstance(value, int):
                numbers.append(value // div)
            else:
                operands.append(self._floor(value, div))
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
        """Floor division by a positive constant; strength-reduced to a shift for powers of two."""
        b = self._b
        if div & (div - 1) == 0:
            return b.op("ashr", "i64", operand, str(div.bit_length() - 1)) if div > 1 else operand
        quotient = b.op("sdiv", "i64", operand, str(div))
        remainder = b.op("srem", "i64", operand, str(div))
        below = b.cast("sext", b.assign(f"icmp slt i64 {remainder}, 0"), "i1", "i64")
        return b.op("add", "i64", quotient, below)


def _reuse(scope: _Scope, key: tuple[object, ...], instruction: str) -> str:
    value = scope.sums.get(key)
    if value is None:
        value = scope.sums[key] = scope.head.assign(instruction, "ix")
    return value
