"""Emits straight-line vector code for all lanes of a vectorized loop.

Uniform subexpressions are computed as scalars and broadcast where they are combined with vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ocannl.codegen import Document
from ocannl.codegen.uniformity import Varying
from ocannl.ir.affine import Affine, Cond
from ocannl.ir.loops import (
    Body,
    Comment,
    Const,
    Expr,
    For,
    IndexValue,
    Let,
    Load,
    MemorySpace,
    Ref,
    Store,
    Update,
    Var,
    When,
)
from ocannl.ir.name_mangling import identifier
from ocannl.ir.precision import Precision, int64
from ocannl_backend_llvm.arithmetic import apply
from ocannl_backend_llvm.builder import MANGLED_TYPES, Builder
from ocannl_backend_llvm.convert import convert
from ocannl_backend_llvm.interleaved_stores import interleave, split_at_runs
from ocannl_backend_llvm.scalar import ScalarCode
from ocannl_backend_llvm.types import LLVM_TYPES

REDUCIBLE = frozenset({"add", "mul", "max", "min"})  # reduced by halving vectors; others combine lanes serially
SHUFFLED_STRIDES = range(2, 5)  # accessed by a contiguous load and a shuffle instead of a gather


class VectorBuilder(Builder):
    """Emits vector instructions. Types are element types; operands are vectors or literals."""

    __slots__ = ("width",)

    def __init__(self, b: Builder, width: int) -> None:
        super().__init__(b.module, b.doc, b._numbers)
        self.width = width

    def type(self, element_type: str) -> str:
        return f"<{self.width} x {element_type}>"

    def mangled(self, element_type: str) -> str:
        return f"v{self.width}{MANGLED_TYPES[element_type]}"

    def at(self, doc: Document) -> VectorBuilder:
        return VectorBuilder(super().at(doc), self.width)

    def any_lane(self, truth: str) -> str:
        full = f"llvm.vector.reduce.or.v{self.width}i1"
        self.module.declare(full, "i1", (self.type("i1"),))
        return self.assign(f"call i1 @{full}({self.type('i1')} {truth})")

    def operand(self, type_: str, value: str) -> str:
        if value.startswith(("%", "<", "splat")):
            return value
        return f"splat ({type_} {value})"

    def call(self, result: str, helper: str, type_: str, *operands: str) -> str:
        """Calls a scalar helper function per lane."""
        lanes = (
            self.assign(f"call {result} @{helper}({', '.join(f'{type_} {x}' for x in arguments)})")
            for arguments in zip(*(self.extract_lanes(type_, x) for x in operands), strict=True)
        )
        return self.insert_lanes(result, list(lanes))

    def extract_lanes(self, type_: str, value: str) -> list[str]:
        """The elements of a vector."""
        if not value.startswith(("%", "<")):
            return [value] * self.width
        return [self.assign(f"extractelement {self.type(type_)} {value}, i64 {n}") for n in range(self.width)]

    def insert_lanes(self, type_: str, values: list[str]) -> str:
        """Builds a vector from its elements."""
        vector = "poison"
        for n, value in enumerate(values):
            vector = self.assign(f"insertelement {self.type(type_)} {vector}, {type_} {value}, i64 {n}")
        return vector

    def shuffle(self, type_: str, length: int, value: str, lanes: range, width: int) -> str:
        """Selects `width` lanes of a vector of `length` elements."""
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        vector = f"<{length} x {type_}>"
        return self.assign(f"shufflevector {vector} {value}, {vector} poison, <{width} x i32> <{mask}>")


class VectorCode(ScalarCode):
    """Emits all iterations of a vectorized loop at once; `scalar` emits uniform code."""

    def __init__(self, scalar: ScalarCode, loop: For) -> None:
        first, last = loop.lo.constant, loop.hi.constant
        assert first is not None and last is not None
        self.builder = VectorBuilder(scalar.b, last + 1 - first)
        super().__init__(self.builder, scalar.indices, scalar.allocas)
        self.scalar = scalar
        self.sym = loop.sym
        self.varies = Varying(loop.sym, self.names)
        self.width = self.builder.width
        self.flow = scalar.flow
        scalar.indices.bind(loop.sym, first)  # scalar addresses and indices refer to the first lane

    def block(self, body: Body) -> None:
        for part in split_at_runs(body, self.sym):
            if isinstance(part, tuple):
                self.store_interleaved(part)
            else:
                self.statement(part)

    def statement(self, stmt: object) -> None:
        match stmt:
            case Store():
                self.scatter(stmt.ref, self.value(stmt.value), stmt.nontemporal)
            case Update():
                self.update(stmt)
            case Let(name, value):
                if self.varies(value):
                    self.names[name] = self.value(value)
                else:
                    self.scalar.define(name, value)
            case Comment():
                pass

    def splat(self, type_: str, value: str) -> str:
        """Broadcasts a scalar to all lanes."""
        if not value.startswith("%"):
            return value
        builder, key = self.scalar.b, (type_, value, self.width)
        if key not in builder.splats:
            vector = self.builder.type(type_)
            inserted = builder.assign(f"insertelement {vector} poison, {type_} {value}, i64 0")
            zeros = f"<{self.width} x i32> zeroinitializer"
            builder.splats[key] = builder.assign(f"shufflevector {vector} {inserted}, {vector} poison, {zeros}", "all")
        return builder.splats[key]

    # ------------------------------------------------------------------------------------------------------------ cells

    def gather(self, ref: Ref) -> str:
        """Loads the cells of all lanes."""
        type_, stride, width = LLVM_TYPES[ref.buf.precision], ref.stride(self.sym), self.width
        stem, align = identifier(ref.buf.name), ref.buf.precision.nbytes
        first = self.scalar.address(ref)
        if abs(stride) == 1 or stride in SHUFFLED_STRIDES:
            length = abs(stride) * (width - 1) + 1
            if stride < 0:
                first = self._offset_address(type_, first, 1 - width)
            vector = self.b.assign(f"load <{length} x {type_}>, ptr {first}, align {align}", stem)
            if stride == 1:
                return vector
            lanes = range(width - 1, -1, -1) if stride < 0 else range(0, length, stride)
            return self.builder.shuffle(type_, length, vector, lanes, width)
        vector_type, full = self._masked_intrinsic("gather", type_, type_)
        pointers = self._lane_addresses(type_, first, stride)
        return self.b.assign(
            f"call {vector_type} @{full}({pointers}, i32 {align}, {self._full_mask()}, {vector_type} poison)", stem
        )

    def scatter(self, ref: Ref, value: str, nontemporal: bool = False) -> None:
        type_, stride, b, align = (
            LLVM_TYPES[ref.buf.precision],
            ref.stride(self.sym),
            self.builder,
            ref.buf.precision.nbytes,
        )
        first = self.scalar.address(ref)
        if stride == 1:
            attributes = b.module.nontemporal(align * self.width) if nontemporal else f"align {align}"
            b.line(f"store {b.type(type_)} {b.operand(type_, value)}, ptr {first}, {attributes}")
            return
        vector_type, full = self._masked_intrinsic("scatter", type_, "void")
        pointers = self._lane_addresses(type_, first, stride)
        b.line(
            f"call void @{full}({vector_type} {b.operand(type_, value)}, {pointers}, i32 {align}, {self._full_mask()})"
        )

    def store_interleaved(self, run: Sequence[Store]) -> None:
        """Writes adjacent cells of each lane, which fill one interval in all lanes, as whole vectors."""
        ref, width = run[0].ref, self.width
        type_, align = LLVM_TYPES[ref.buf.precision], ref.buf.precision.nbytes
        values = [self.builder.operand(type_, self.value(stmt.value)) for stmt in run]
        first = self.scalar.address(ref)
        for n, vector in enumerate(interleave(self.builder, type_, width, values)):
            at = self._offset_address(type_, first, n * width)
            self.b.line(f"store {self.builder.type(type_)} {vector}, ptr {at}, align {align}")

    def _masked_intrinsic(self, name: str, element_type: str, result: str) -> tuple[str, str]:
        """The vector type and the masked gather or scatter intrinsic."""
        b, w = self.builder, self.width
        vector_type, full = b.type(element_type), f"llvm.masked.{name}.v{w}{MANGLED_TYPES[element_type]}.v{w}p0"
        pointers, mask = f"<{w} x ptr>", f"<{w} x i1>"
        operands = (pointers, "i32", mask, vector_type) if name == "gather" else (vector_type, pointers, "i32", mask)
        b.module.declare(full, vector_type if result != "void" else result, operands)
        return vector_type, full

    def _lane_addresses(self, type_: str, first: str, stride: int) -> str:
        steps = ", ".join(f"i64 {lane * stride}" for lane in range(self.width))
        cells = self.b.assign(
            f"getelementptr inbounds {type_}, ptr {first}, {self.builder.type('i64')} <{steps}>", "cells"
        )
        return f"<{self.width} x ptr> {cells}"

    def _full_mask(self) -> str:
        return f"<{self.width} x i1> splat (i1 true)"

    def _offset_address(self, type_: str, first: str, offset: int) -> str:
        return self.b.assign(f"getelementptr inbounds {type_}, ptr {first}, i64 {offset}", "at") if offset else first

    def update(self, stmt: Update) -> None:
        if stmt.ref.stride(self.sym):
            self.scatter(stmt.ref, self.updated_value(stmt, self.gather(stmt.ref)))
            return
        for name, kind in self._lane_totals(stmt):
            self.scalar.names[LANE_TOTAL] = name
            self.scalar.update(Update(stmt.ref, stmt.op, Var(LANE_TOTAL, kind), stmt.origin))

    def updated_value(self, stmt: Update, old: str) -> str:
        """The new value of an updated cell. If lanes leave out a term, their condition selects between the new and the
        old value: the mask becomes a part of the operation, while a masked term takes an instruction of its own."""
        match stmt.value:
            case When(cond, term, Const(value)) if self._may_keep(stmt, cond, value):
                new = self.updated_value(replace(stmt, value=term), old)
                return self.builder.select(self.condition(cond), LLVM_TYPES[stmt.ref.buf.precision], new, old)
        return super().updated_value(stmt, old)

    def _may_keep(self, stmt: Update, cond: Cond, value: float) -> bool:
        """Whether a lane whose condition does not hold may keep the cell instead of updating it by the value. An
        accumulator is never -0.0, which adding 0 would turn into 0.0."""
        return self.sym in cond.syms and stmt.ref.buf.space is MemorySpace.LOCAL and value == stmt.op.neutral

    def _lane_totals(self, stmt: Update) -> Iterator[tuple[str, Precision]]:
        """The values that update a cell shared by all lanes: one, if lanes can be reduced, otherwise one per lane."""
        op, precision, width = stmt.op, stmt.ref.buf.precision, self.width
        type_, value = LLVM_TYPES[precision], self.value(stmt.value)
        if op.name not in REDUCIBLE or precision is not precision.arithmetic or width & (width - 1):
            yield from ((lane, precision) for lane in self.builder.extract_lanes(type_, value))
            return
        value = self.builder.operand(type_, value)
        while width > 2:
            half = VectorBuilder(self.b, width // 2)
            low, high = range(half.width), range(half.width, width)
            halves = [half.shuffle(type_, width, value, lanes, half.width) for lanes in (low, high)]
            value = apply(half, op, precision, (halves[0], halves[1]))
            width = half.width
        final_lanes = [
            self.b.assign(f"extractelement <{width} x {type_}> {value}, i64 {n}", "end") for n in range(width)
        ]
        yield (
            (apply(self.scalar.b, op, precision, (final_lanes[0], final_lanes[1])) if width == 2 else final_lanes[0]),
            precision,
        )

    # ------------------------------------------------------------------------------------------------------ expressions

    def value(self, expr: Expr) -> str:
        if not self.varies(expr):
            return self.splat(LLVM_TYPES[expr.precision], self.scalar.value(expr))
        match expr:
            case Load(ref):
                return self.gather(ref)
            case IndexValue(index, precision):
                return convert(self.builder, self.index(index), int64, precision)
            case _:
                return super().value(expr)

    def index(self, index: Affine) -> str:
        """The indices of all lanes, as a vector of i64."""
        first, step = self.indices.affine(index), index.coef(self.sym)
        start = first if isinstance(first, int) else 0
        steps = f"<{', '.join(f'i64 {start + lane * step}' for lane in range(self.width))}>"
        return steps if isinstance(first, int) else self.builder.op("add", "i64", self.splat("i64", first), steps)

    def widened(self, expr: Expr, work: Precision) -> str:
        if not self.varies(expr):
            return self.splat(LLVM_TYPES[work], self.scalar.widened(expr, work))
        return super().widened(expr, work)

    def pair(self, low: Expr, high: Expr) -> str:
        if not self.varies(low) and not self.varies(high):
            return self.splat("i32", self.scalar.pair(low, high))
        return super().pair(low, high)

    def truth(self, expr: Expr) -> str:
        if not self.varies(expr):
            return self.splat("i1", self.scalar.truth(expr))
        return super().truth(expr)

    def when(self, cond: Cond, on_true: Expr, on_false: Expr) -> str:
        if self.sym not in cond.syms:
            return super().when(cond, on_true, on_false)
        return self.builder.select(
            self.condition(cond), LLVM_TYPES[on_true.precision], self.value(on_true), self.value(on_false)
        )

    def condition(self, cond: Cond) -> str:
        """The condition in each lane, as a vector of i1."""
        b, test = self.builder, "true"
        for indices, relation in ((cond.ge0, "sge"), (cond.eq0, "eq")):
            for index in indices:
                holds = b.test(f"icmp {relation}", "i64", self._lane_index(index), "0")
                test = holds if test == "true" else b.op("and", "i1", test, holds)
        return test

    def _lane_index(self, index: Affine) -> str:
        if self.sym in index.syms:
            return self.index(index)
        uniform = self.indices.affine(index)
        return self.splat("i64", str(uniform))


LANE_TOTAL = "total of lanes"  # not an identifier, hence never a name of the program
