"""Emits products of tiles by the instructions of AVX512-BF16, on processors without AMX.

The sums of a few rows stay in vector registers during the whole reduction. Each step loads the pairs of a row of the
right operand, and broadcasts a pair of each row of the left one. `vdpbf16ps` adds their dot products to the sums, and
flushes subnormal numbers to zero.
"""

from __future__ import annotations

from math import ceil

from ocannl.ir.tile_products import TILE_COLUMNS, TILE_PAIRS, TileProduct
from ocannl_backend_llvm.builder import Builder
from ocannl_backend_llvm.pair_dots import bfloat16_dot
from ocannl_backend_llvm.scalar import ScalarCode
from ocannl_backend_llvm.tile_loops import LoopEmitter, emit_reduction

MAX_REGISTER_ROWS = 8  # with one or two vectors of sums, whose number covers the latency of an instruction
UNROLLED_PAIRS = 4
SUM_VECTOR, PAIR_VECTOR = f"<{TILE_COLUMNS} x float>", f"<{TILE_COLUMNS} x i32>"
assert TILE_PAIRS % UNROLLED_PAIRS == 0


def emit_by_dots(code: ScalarCode, product: TileProduct, emit_loop: LoopEmitter) -> None:
    """Emits the product, in groups of rows of nearly equal size."""
    rows = product.row.extent
    size = ceil(rows / ceil(rows / MAX_REGISTER_ROWS))
    groups, remainder = divmod(rows, size)

    def emit_rows() -> None:
        _RegisterRows(code, product, size).emit(emit_loop)

    if groups == 1:
        code.indices.bind(product.row, 0)
        emit_rows()
    else:
        emit_loop(product.row, 0, groups * size, size, emit_rows)
    if remainder:
        code.indices.bind(product.row, groups * size)
        _RegisterRows(code, product, remainder).emit(emit_loop)


class _RegisterRows:
    """A group of rows, from the value of the product's row symbol."""

    def __init__(self, code: ScalarCode, product: TileProduct, rows: int) -> None:
        self.code, self.product = code, product
        self.vectors = range(product.column.extent // TILE_COLUMNS)
        self.sums = {(m, n): f"%{code.b.fresh('sums')}" for m in range(rows) for n in self.vectors}

    def emit(self, emit_loop: LoopEmitter) -> None:
        code, product = self.code, self.product
        b = code.b
        code.indices.bind(product.column, 0)
        for register in self.sums.values():
            code.allocas.line(f"  {register} = alloca {SUM_VECTOR}")
            b.line(f"store {SUM_VECTOR} zeroinitializer, ptr {register}")
        emit_reduction(product.loops, UNROLLED_PAIRS, emit_loop, self.add_pairs)
        cell, row_stride = code.address(product.sums), product.sums.stride(product.row)
        for (m, n), register in self.sums.items():
            total = b.assign(f"load {SUM_VECTOR}, ptr {register}", "total")
            target = _offset(b, "float", cell, m * row_stride + n * TILE_COLUMNS)
            b.line(f"store {SUM_VECTOR} {total}, ptr {target}, align 4")

    def add_pairs(self) -> None:
        """Adds the products of the next pairs of terms to all sums."""
        code, product = self.code, self.product
        b = code.b
        left, right = code.address(product.left), code.address(product.right)
        row_stride, pair_stride = product.left.stride(product.row), product.right.stride(product.pair)
        for pair in range(UNROLLED_PAIRS):
            cells = [_offset(b, "i16", right, pair * pair_stride + 2 * n * TILE_COLUMNS) for n in self.vectors]
            pairs = [b.assign(f"load {PAIR_VECTOR}, ptr {cell}, align 2", "right") for cell in cells]
            for (m, n), register in self.sums.items():
                if n == 0:
                    factors = _broadcast(b, _offset(b, "i16", left, m * row_stride + 2 * pair))
                total = b.assign(f"load {SUM_VECTOR}, ptr {register}", "total")
                total = bfloat16_dot(b, total, (factors, pairs[n]), TILE_COLUMNS)
                b.line(f"store {SUM_VECTOR} {total}, ptr {register}")


def _offset(b: Builder, type_: str, pointer: str, elements: int) -> str:
    return b.assign(f"getelementptr {type_}, ptr {pointer}, i64 {elements}", "cell") if elements else pointer


def _broadcast(b: Builder, cell: str) -> str:
    """Loads a pair into all lanes."""
    word = b.assign(f"load i32, ptr {cell}, align 2", "left")
    lane = b.assign(f"insertelement {PAIR_VECTOR} poison, i32 {word}, i64 0")
    lanes = f"<{TILE_COLUMNS} x i32> zeroinitializer"
    return b.assign(f"shufflevector {PAIR_VECTOR} {lane}, {PAIR_VECTOR} poison, {lanes}", "left")
