"""Emits straight-line code for register tiles (rows of vectors).

Accesses that are contiguous across the rows and strided across the lanes load or store vectors across the rows, which
are transposed in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial

from ocannl.codegen import Document
from ocannl.codegen.numbers import next_power_of_two
from ocannl.codegen.register_transpose import TransposedAccess, transpose_network
from ocannl.ir.accesses import alias_class
from ocannl.ir.loops import For, Let, Load, MemorySpace, Ref, Stmt, Store, Update
from ocannl.ir.name_mangling import identifier
from ocannl_backend_llvm.builder import FULL_WIDTH_VECTORS, MANGLED_TYPES, Builder, Module
from ocannl_backend_llvm.interleaved_stores import split_at_runs
from ocannl_backend_llvm.scalar import ScalarCode
from ocannl_backend_llvm.types import LLVM_TYPES
from ocannl_backend_llvm.vector import VectorBuilder, VectorCode

ROWS, CELLS = ("%rows", "%apart"), ("%cells", "%step")
HELPER_PARAMS = "ptr noalias %rows, i64 %apart, ptr noalias %cells, i64 %step"
"""Parameters of helper functions: rows (vectors, `%apart` elements apart), and cells that are contiguous across rows
and `%step` elements apart across lanes."""


class TileEmitter:
    """Emits a vectorized loop inside an unrolled loop over rows; each statement is executed in all rows before the next
    one. `scalar` emits uniform code."""

    def __init__(self, scalar: ScalarCode, row_loop: For, lane_loop: For) -> None:
        first, last = row_loop.lo.constant, row_loop.hi.constant
        assert first is not None and last is not None
        self.scalar, self.sym, self.first = scalar, row_loop.sym, first
        self.rows: list[_TileRow] = []
        for _ in range(first, last + 1):
            row_scalar = copy(scalar)
            row_scalar.names = dict(scalar.names)
            self.rows.append(_TileRow(row_scalar, lane_loop))
        self.access = TransposedAccess(row_loop.sym, lane_loop.sym)
        self.builder = self.rows[0].builder
        for part in split_at_runs(lane_loop.body, lane_loop.sym):
            if isinstance(part, tuple):
                self.store_interleaved(part)
            else:
                self.statement(part)

    def statement(self, stmt: Stmt) -> None:
        if isinstance(stmt, Store) and isinstance(stmt.value, Load) and self.try_transposed_copy(stmt, stmt.value.ref):
            return
        reads = self.access.hoistable_reads(stmt.value) if isinstance(stmt, Let | Store | Update) else ()
        arrays = {ref: self.gather(ref) for ref in reads}
        rows = self.allocate_rows(stmt.ref) if isinstance(stmt, Store) and self.access.is_transposed(stmt.ref) else ""
        for n, row in enumerate(self.rows):
            self.scalar.indices.bind(self.sym, self.first + n)
            row.loaded = {ref: (array, n) for ref, array in arrays.items()}
            if isinstance(stmt, Store) and rows:
                type_ = LLVM_TYPES[stmt.value.precision]
                value = self.builder.operand(type_, row.value(stmt.value))
                address = _row_address(self.builder, type_, rows, n)
                self.scalar.b.line(f"store {self.builder.type(type_)} {value}, ptr {address}")
            else:
                row.statement(stmt)
        if isinstance(stmt, Store) and rows:
            self.scatter(stmt.ref, rows)

    def store_interleaved(self, run: Sequence[Store]) -> None:
        """Executes stores that fill one interval in all lanes, see `interleaved_stores`."""
        reads = dict.fromkeys(ref for stmt in run for ref in self.access.hoistable_reads(stmt.value))
        arrays = {ref: self.gather(ref) for ref in reads}
        for n, row in enumerate(self.rows):
            self.scalar.indices.bind(self.sym, self.first + n)
            row.loaded = {ref: (array, n) for ref, array in arrays.items()}
            row.store_interleaved(run)

    def try_transposed_copy(self, stmt: Store, source: Ref) -> bool:
        """Emits a copy between a transposed and a contiguous access as one call, if its target and `source` are such.
        Register arrays are excluded, because passing their address would force them into memory."""
        target, row, lane = stmt.ref, self.access.row, self.access.lane
        streamed_bytes = target.buf.precision.nbytes * self.builder.width if stmt.nontemporal else 0
        load_helper = partial(_load_helper, streamed_bytes=streamed_bytes)
        if (
            MemorySpace.LOCAL in (target.buf.space, source.buf.space)
            or target.buf.precision is not source.buf.precision
        ):
            return False
        if alias_class(target.buf) == alias_class(source.buf):
            return False
        for define_helper, transposed, contiguous in ((load_helper, source, target), (_store_helper, target, source)):
            if self.access.is_transposed(transposed) and contiguous.stride(lane) == 1:
                self.call_transpose(define_helper, transposed, self.address(contiguous), contiguous.stride(row))
                return True
        return False

    def gather(self, ref: Ref) -> str:
        """Loads the cells, transposed, into an array with a vector per row."""
        rows = self.allocate_rows(ref)
        self.call_transpose(_load_helper, ref, rows, next_power_of_two(self.builder.width))
        return rows

    def scatter(self, ref: Ref, rows: str) -> None:
        self.call_transpose(_store_helper, ref, rows, next_power_of_two(self.builder.width))

    def call_transpose(
        self, define_helper: Callable[[Module, str, int, int], str], ref: Ref, rows: str, row_stride: int
    ) -> None:
        """Calls a helper that copies between the cells and rows `row_stride` elements apart."""
        name = define_helper(self.scalar.b.module, LLVM_TYPES[ref.buf.precision], len(self.rows), self.builder.width)
        cells = f"ptr {self.address(ref)}, i64 {ref.stride(self.access.lane)}"
        self.scalar.b.line(f"call void @{name}(ptr {rows}, i64 {row_stride}, {cells})")

    def allocate_rows(self, ref: Ref) -> str:
        """Allocates a vector per row; their stride is the number of lanes rounded up to a power of two."""
        name = f"%{self.scalar.b.fresh(identifier(ref.buf.name))}"
        row_type = self.builder.type(LLVM_TYPES[ref.buf.precision])
        self.scalar.allocas.line(f"  {name} = alloca [{len(self.rows)} x {row_type}]")
        return name

    def address(self, ref: Ref) -> str:
        """The address of the cell of the first row and lane."""
        self.scalar.indices.bind(self.sym, self.first)
        return self.scalar.address(ref)


class _TileRow(VectorCode):
    """Emits one row; `loaded` maps cells that were loaded transposed to an array and a row of it."""

    loaded: dict[Ref, tuple[str, int]]

    def gather(self, ref: Ref) -> str:
        if ref not in self.loaded:
            return super().gather(ref)
        type_ = LLVM_TYPES[ref.buf.precision]
        address = _row_address(self.builder, type_, *self.loaded[ref])
        return self.builder.assign(f"load {self.builder.type(type_)}, ptr {address}", "row")


def _row_address(builder: VectorBuilder, type_: str, array: str, n: int) -> str:
    return builder.assign(f"getelementptr inbounds {builder.type(type_)}, ptr {array}, i64 {n}", "at")


def _store_helper(module: Module, type_: str, count: int, width: int) -> str:
    """Defines the function that stores `count` rows to cells that are contiguous across the rows."""

    def body(b: Builder) -> None:
        addresses = _strided_addresses(b, type_, *ROWS, count)
        rows = [b.assign(f"load <{width} x {type_}>, ptr {at}, align 1") for at in addresses]
        columns = transpose_vectors(b, width, type_, rows)
        for at, column in zip(_strided_addresses(b, type_, *CELLS, width), columns, strict=True):
            b.line(f"store <{count} x {type_}> {column}, ptr {at}, align 1")

    return _helper(module, f"ocannl-put.{count}.v{width}{MANGLED_TYPES[type_]}", body)


def _load_helper(module: Module, type_: str, count: int, width: int, streamed_bytes: int = 0) -> str:
    """Defines the function that loads such cells into `count` rows; with `streamed_bytes`, the size of a row, past the
    caches."""

    def body(b: Builder) -> None:
        addresses = _strided_addresses(b, type_, *CELLS, width)
        columns = [b.assign(f"load <{count} x {type_}>, ptr {at}, align 1") for at in addresses]
        rows = transpose_vectors(b, count, type_, columns)
        attributes = module.nontemporal(streamed_bytes) if streamed_bytes else "align 1"
        for at, row in zip(_strided_addresses(b, type_, *ROWS, count), rows, strict=True):
            b.line(f"store <{width} x {type_}> {row}, ptr {at}, {attributes}")

    stem = "ocannl-stream" if streamed_bytes else "ocannl-take"
    return _helper(module, f"{stem}.{count}.v{width}{MANGLED_TYPES[type_]}", body)


def _helper(module: Module, name: str, body: Callable[[Builder], None]) -> str:
    if not module.has(name):
        doc = Document()
        doc.line(f"define void @{name}({HELPER_PARAMS}) nounwind noinline {FULL_WIDTH_VECTORS} {{")
        body(Builder(module, doc))
        doc.line("  ret void")
        doc.line("}")
        module.define(name, doc.text())
    return name


def _strided_addresses(b: Builder, type_: str, array: str, step: str, count: int) -> list[str]:
    offsets = [b.assign(f"mul nsw i64 {step}, {n}") for n in range(count)]
    return [b.assign(f"getelementptr inbounds {type_}, ptr {array}, i64 {offset}", "at") for offset in offsets]


def transpose_vectors(b: Builder, lanes: int, type_: str, vectors: list[str]) -> list[str]:
    """Transposes vectors of `lanes` elements (see `transpose_network`)."""
    count, size = len(vectors), next_power_of_two(len(vectors))
    width = -(-lanes // size) * size

    def shuffle(length: int, left: str, right: str, lanes: Sequence[int]) -> str:
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        vector = f"<{length} x {type_}>"
        return b.assign(f"shufflevector {vector} {left}, {vector} {right}, <{len(lanes)} x i32> <{mask}>")

    padded = (*range(lanes), *[0] * (width - lanes))
    rows = vectors if width == lanes else [shuffle(lanes, x, "poison", padded) for x in vectors]
    rows = [*rows, *["poison"] * (size - count)]
    for step, above, below in transpose_network(size, width):
        for n in range(size):
            if n & step == 0 and rows[n] != "poison":
                left, right = rows[n], rows[n + step]
                rows[n], rows[n + step] = (shuffle(width, left, right, mask) for mask in (above, below))
    if width == count:
        return rows[:lanes]
    starts = (lane // size * size for lane in range(lanes))
    return [shuffle(width, rows[n % size], "poison", range(x, x + count)) for n, x in enumerate(starts)]
