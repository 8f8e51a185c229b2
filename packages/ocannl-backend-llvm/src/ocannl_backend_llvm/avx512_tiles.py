"""Emits products of tiles by the instructions of AVX512-BF16, on processors without AMX.

The sums of a few rows stay in vector registers. Each step loads the pairs of a row of the right operand, and broadcasts
a pair of each row of the left one. `vdpbf16ps` adds the products of a pair one after the other, and flushes subnormal
numbers to zero. After each block of terms, its sums are added to those in memory: a term takes part in one addition for
each following term of its block, and for each following block.
"""

from __future__ import annotations

from math import ceil, gcd

from ocannl.ir.affine import Affine
from ocannl.ir.tile_products import TILE_COLUMNS, TILE_PAIRS, TileProduct
from ocannl_backend_llvm.builder import Builder
from ocannl_backend_llvm.pair_dots import bfloat16_dot
from ocannl_backend_llvm.scalar import ScalarCode
from ocannl_backend_llvm.tile_loops import LoopEmitter, emit_reduction

SUM_REGISTERS = 16  # independent additions, which hide the latency of the instruction
MAX_BLOCK_PAIRS = 2 * TILE_PAIRS  # whose products are added up before their sum is added to those in memory
UNROLLED_PAIRS = 4
SUM_VECTOR, PAIR_VECTOR = f"<{TILE_COLUMNS} x float>", f"<{TILE_COLUMNS} x i32>"
assert TILE_PAIRS % UNROLLED_PAIRS == 0


def emit_dot_products(code: ScalarCode, product: TileProduct, emit_loop: LoopEmitter) -> None:
    """Emits the product as dot products of pairs, in groups of rows of nearly equal size."""
    rows, max_rows = product.row.extent, SUM_REGISTERS * TILE_COLUMNS // product.column.extent
    size = ceil(rows / ceil(rows / max_rows))
    groups, remainder = divmod(rows, size)

    def emit_rows() -> None:
        _RegisterRows(code, product, size, emit_loop).emit()

    if groups == 1:
        code.indices.bind(product.row, 0)
        emit_rows()
    else:
        emit_loop(product.row, 0, groups * size, size, emit_rows)
    if remainder:
        code.indices.bind(product.row, groups * size)
        _RegisterRows(code, product, remainder, emit_loop).emit()


class _RegisterRows:
    """A group of rows, from the value of the product's row symbol."""

    def __init__(self, code: ScalarCode, product: TileProduct, rows: int, emit_loop: LoopEmitter) -> None:
        self.code, self.product, self.emit_loop = code, product, emit_loop
        self.vectors = range(product.column.extent // TILE_COLUMNS)
        self.sums = {(m, n): f"%{code.b.fresh('sums')}" for m in range(rows) for n in self.vectors}
        self.block_pairs = gcd(product.pair.extent, MAX_BLOCK_PAIRS)
        self.has_blocks = len(product.loops) > 1 or product.pair.extent > self.block_pairs

    def emit(self) -> None:
        self.code.indices.bind(self.product.column, 0)
        for register in self.sums.values():
            self.code.allocas.line(f"  {register} = alloca {SUM_VECTOR}")
        if self.has_blocks:
            for cell in self.cells().values():
                self.code.b.line(f"store {SUM_VECTOR} zeroinitializer, ptr {cell}, align 4")
        emit_reduction(self.product.loops, self.block_pairs, self.emit_loop, self.add_block)

    def cells(self) -> dict[tuple[int, int], str]:
        """Returns the addresses of the vectors of sums in memory."""
        code, sums = self.code, self.product.sums
        first, row_stride = code.address(sums), sums.stride(self.product.row)
        return {(m, n): _offset(code.b, "float", first, m * row_stride + n * TILE_COLUMNS) for m, n in self.sums}

    def add_block(self) -> None:
        """Adds up the products of a block of pairs."""
        b, pair = self.code.b, self.product.pair
        for register in self.sums.values():
            b.line(f"store {SUM_VECTOR} zeroinitializer, ptr {register}")
        first = self.code.indices.affine(Affine.of(pair))
        size = self.block_pairs
        limit = first + size if isinstance(first, int) else b.assign(f"add nsw i64 {first}, {size}", "limit")
        self.emit_loop(pair, first, limit, UNROLLED_PAIRS, self.add_pairs)
        for position, cell in self.cells().items():
            total = b.assign(f"load {SUM_VECTOR}, ptr {self.sums[position]}", "total")
            if self.has_blocks:
                before = b.assign(f"load {SUM_VECTOR}, ptr {cell}, align 4", "before")
                total = b.assign(f"fadd {SUM_VECTOR} {before}, {total}", "total")
            b.line(f"store {SUM_VECTOR} {total}, ptr {cell}, align 4")

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
