"""Straight-line code for all lanes at once: the same instructions, of vectors.

What is the same in every lane is computed once, as a number, and becomes a vector where it meets one.
"""

from __future__ import annotations

from collections.abc import Iterator

from ocannl.codegen import Document
from ocannl.codegen.varying import Varying
from ocannl.ir.index import Affine, Cond
from ocannl.ir.loops import Body, Comment, Expr, For, Idx, Let, Load, Ref, Store, Update, Var
from ocannl.ir.names import identifier
from ocannl.ir.precision import Precision, int64
from ocannl_backend_llvm.arith import apply
from ocannl_backend_llvm.build import MANGLED, Builder
from ocannl_backend_llvm.convert import convert
from ocannl_backend_llvm.scalar import Straight
from ocannl_backend_llvm.types import HELD

FOLDED = frozenset({"add", "mul", "max", "min"})  # halves of a vector are combined; other lanes one by one
SPREAD = range(2, 5)  # so many elements apart, cells come as one vector of which every so manieth lane is taken


class Wide(Builder):
    """Writes instructions of vectors. Types are those of the lanes; operands are vectors, or literals."""

    __slots__ = ("width",)

    def __init__(self, b: Builder, width: int) -> None:
        super().__init__(b.module, b.doc, b._numbers)
        self.width = width

    def type(self, of: str) -> str:
        return f"<{self.width} x {of}>"

    def mangled(self, of: str) -> str:
        return f"v{self.width}{MANGLED[of]}"

    def at(self, doc: Document) -> Wide:
        return Wide(super().at(doc), self.width)

    def any(self, truth: str) -> str:
        full = f"llvm.vector.reduce.or.v{self.width}i1"
        self.module.declare(full, "i1", (self.type("i1"),))
        return self.let(f"call i1 @{full}({self.type('i1')} {truth})")

    def operand(self, type_: str, value: str) -> str:
        if value.startswith(("%", "<", "splat")):
            return value
        return f"splat ({type_} {value})"

    def call(self, result: str, helper: str, type_: str, *operands: str) -> str:
        """Helper functions know numbers only."""
        lanes = (
            self.let(f"call {result} @{helper}({', '.join(f'{type_} {x}' for x in each)})")
            for each in zip(*(self.lanes(type_, x) for x in operands), strict=True)
        )
        return self.gathered(result, list(lanes))

    def lanes(self, type_: str, value: str) -> list[str]:
        """The numbers of a vector."""
        if not value.startswith(("%", "<")):
            return [value] * self.width
        return [self.let(f"extractelement {self.type(type_)} {value}, i64 {n}") for n in range(self.width)]

    def gathered(self, type_: str, values: list[str]) -> str:
        """The vector of numbers."""
        vector = "poison"
        for n, value in enumerate(values):
            vector = self.let(f"insertelement {self.type(type_)} {vector}, {type_} {value}, i64 {n}")
        return vector

    def shuffled(self, type_: str, length: int, value: str, lanes: range, width: int) -> str:
        """Some lanes of a vector of that length, as a vector of that width."""
        picked = ", ".join(f"i32 {lane}" for lane in lanes)
        vector = f"<{length} x {type_}>"
        return self.let(f"shufflevector {vector} {value}, {vector} poison, <{width} x i32> <{picked}>")


class Lanes(Straight):
    """The code of all iterations of a loop over lanes; `one` is that of what they share."""

    def __init__(self, one: Straight, loop: For) -> None:
        first, last = loop.lo.constant, loop.hi.constant
        assert first is not None and last is not None
        self.wide = Wide(one.b, last + 1 - first)
        super().__init__(self.wide, one.indices, one.allocas)
        self.one = one
        self.sym = loop.sym
        self.varies = Varying(loop.sym, self.names)
        self.width = self.wide.width
        self.flow = one.flow
        one.indices.bind(loop.sym, first)  # cells and indices are those of the first lane

    def block(self, body: Body) -> None:
        for stmt in body:
            self.statement(stmt)

    def statement(self, stmt: object) -> None:
        match stmt:
            case Store():
                self.scatter(stmt.ref, self.value(stmt.value), stmt.streamed)
            case Update():
                self.update(stmt)
            case Let(name, value):
                if self.varies(value):
                    self.names[name] = self.value(value)
                else:
                    self.one.define(name, value)
            case Comment():
                pass

    def splat(self, type_: str, value: str) -> str:
        """A number in all lanes."""
        if not value.startswith("%"):
            return value
        one, key = self.one.b, (type_, value, self.width)
        if key not in one.splats:
            vector = self.wide.type(type_)
            first = one.let(f"insertelement {vector} poison, {type_} {value}, i64 0")
            zeros = f"<{self.width} x i32> zeroinitializer"
            one.splats[key] = one.let(f"shufflevector {vector} {first}, {vector} poison, {zeros}", "all")
        return one.splats[key]

    # ------------------------------------------------------------------------------------------------------------ cells

    def gather(self, ref: Ref) -> str:
        """The cells of all lanes."""
        held, stride, width = HELD[ref.buf.precision], ref.stride(self.sym), self.width
        stem, align = identifier(ref.buf.name), ref.buf.precision.nbytes
        first = self.one.place(ref)
        if abs(stride) == 1 or stride in SPREAD:
            length = abs(stride) * (width - 1) + 1
            if stride < 0:
                first = self._at(held, first, 1 - width)
            vector = self.b.let(f"load <{length} x {held}>, ptr {first}, align {align}", stem)
            if stride == 1:
                return vector
            picked = range(width - 1, -1, -1) if stride < 0 else range(0, length, stride)
            return self.wide.shuffled(held, length, vector, picked, width)
        type_, full = self._strided("gather", held, held)
        pointers = self._cells(held, first, stride)
        return self.b.let(f"call {type_} @{full}({pointers}, i32 {align}, {self._all()}, {type_} poison)", stem)

    def scatter(self, ref: Ref, value: str, streamed: bool = False) -> None:
        held, stride, b, align = HELD[ref.buf.precision], ref.stride(self.sym), self.wide, ref.buf.precision.nbytes
        first = self.one.place(ref)
        if stride == 1:
            if streamed:
                b.module.define("!streamed", "!streamed = !{!0}\n!0 = !{i32 1}\n")
            how = f"align {align * self.width}, !nontemporal !0" if streamed else f"align {align}"
            b.line(f"store {b.type(held)} {b.operand(held, value)}, ptr {first}, {how}")
            return
        type_, full = self._strided("scatter", held, "void")
        pointers = self._cells(held, first, stride)
        b.line(f"call void @{full}({type_} {b.operand(held, value)}, {pointers}, i32 {align}, {self._all()})")

    def _strided(self, name: str, held: str, result: str) -> tuple[str, str]:
        """The type of the lanes and the intrinsic that reads or writes cells anywhere."""
        b, w = self.wide, self.width
        type_, full = b.type(held), f"llvm.masked.{name}.v{w}{MANGLED[held]}.v{w}p0"
        pointers, mask = f"<{w} x ptr>", f"<{w} x i1>"
        operands = (pointers, "i32", mask, type_) if name == "gather" else (type_, pointers, "i32", mask)
        b.module.declare(full, type_ if result != "void" else result, operands)
        return type_, full

    def _cells(self, held: str, first: str, stride: int) -> str:
        steps = ", ".join(f"i64 {lane * stride}" for lane in range(self.width))
        cells = self.b.let(f"getelementptr inbounds {held}, ptr {first}, {self.wide.type('i64')} <{steps}>", "cells")
        return f"<{self.width} x ptr> {cells}"

    def _all(self) -> str:
        return f"<{self.width} x i1> splat (i1 true)"

    def _at(self, held: str, first: str, offset: int) -> str:
        return self.b.let(f"getelementptr inbounds {held}, ptr {first}, i64 {offset}", "at") if offset else first

    def update(self, stmt: Update) -> None:
        if stmt.ref.stride(self.sym):
            self.scatter(stmt.ref, self.updated(stmt, self.gather(stmt.ref)))
            return
        for name, kind in self._totals(stmt):
            self.one.names[TOTAL] = name
            self.one.update(Update(stmt.ref, stmt.op, Var(TOTAL, kind), stmt.origin))

    def _totals(self, stmt: Update) -> Iterator[tuple[str, Precision]]:
        """What a cell is updated by that all lanes update: one number where halves can be combined."""
        op, precision, width = stmt.op, stmt.ref.buf.precision, self.width
        held, value = HELD[precision], self.value(stmt.value)
        if op.name not in FOLDED or precision is not precision.arithmetic or width & (width - 1):
            yield from ((lane, precision) for lane in self.wide.lanes(held, value))
            return
        value = self.wide.operand(held, value)
        while width > 2:
            half = Wide(self.b, width // 2)
            low, high = range(half.width), range(half.width, width)
            parts = [half.shuffled(held, width, value, lanes, half.width) for lanes in (low, high)]
            value = apply(half, op, precision, (parts[0], parts[1]))
            width = half.width
        ends = [self.b.let(f"extractelement <{width} x {held}> {value}, i64 {n}", "end") for n in range(width)]
        yield (apply(self.one.b, op, precision, (ends[0], ends[1])) if width == 2 else ends[0]), precision

    # ------------------------------------------------------------------------------------------------------ expressions

    def value(self, expr: Expr) -> str:
        if not self.varies(expr):
            return self.splat(HELD[expr.precision], self.one.value(expr))
        match expr:
            case Load(ref):
                return self.gather(ref)
            case Idx(index, precision):
                return convert(self.wide, self.index(index), int64, precision)
            case _:
                return super().value(expr)

    def index(self, index: Affine) -> str:
        """The index of each lane."""
        first, step = self.indices.affine(index), index.coef(self.sym)
        start = first if isinstance(first, int) else 0
        steps = f"<{', '.join(f'i64 {start + lane * step}' for lane in range(self.width))}>"
        return steps if isinstance(first, int) else self.wide.op("add", "i64", self.splat("i64", first), steps)

    def widened(self, expr: Expr, work: Precision) -> str:
        if not self.varies(expr):
            return self.splat(HELD[work], self.one.widened(expr, work))
        return super().widened(expr, work)

    def truth(self, expr: Expr) -> str:
        if not self.varies(expr):
            return self.splat("i1", self.one.truth(expr))
        return super().truth(expr)

    def when(self, cond: Cond, then: Expr, orelse: Expr) -> str:
        if self.sym not in cond.syms:
            return super().when(cond, then, orelse)
        return self.wide.select(self.condition(cond), HELD[then.precision], self.value(then), self.value(orelse))

    def condition(self, cond: Cond) -> str:
        """Of each lane."""
        b, test = self.wide, "true"
        for facts, relation in ((cond.ge0, "sge"), (cond.eq0, "eq")):
            for fact in facts:
                holds = b.test(f"icmp {relation}", "i64", self._each(fact), "0")
                test = holds if test == "true" else b.op("and", "i1", test, holds)
        return test

    def _each(self, fact: Affine) -> str:
        if self.sym in fact.syms:
            return self.index(fact)
        same = self.indices.affine(fact)
        return self.splat("i64", str(same))


TOTAL = "total of lanes"  # no name that a program can hold
