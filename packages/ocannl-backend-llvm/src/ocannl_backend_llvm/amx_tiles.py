"""Emits products of tiles by the instructions of Intel AMX.

A tile register holds 16 rows of 64 bytes. The sums of a block are in up to four registers, which stay there during the
whole reduction; each step loads up to two tiles of either operand and multiplies all pairs of them. `tdpbf16ps` adds
the products of the first terms of all pairs, and those of the second terms, to 0, and both sums to the tile. It flushes
subnormal numbers to zero.
"""

from __future__ import annotations

from math import ceil

from ocannl.ir.affine import Sym
from ocannl.ir.loops import Ref
from ocannl.ir.tile_products import TILE_COLUMNS, TILE_PAIRS, TILE_ROWS, TileProduct
from ocannl_backend_llvm.builder import Builder, Module
from ocannl_backend_llvm.scalar import ScalarCode
from ocannl_backend_llvm.tile_loops import LoopEmitter, emit_reduction

ROW_BYTES = 64
SUMS, LEFT, RIGHT = 0, 4, 6  # the first registers of the sums, row by row, and of the operands


def emit_by_tiles(code: ScalarCode, product: TileProduct, emit_loop: LoopEmitter) -> None:
    """Emits the product, which configures the tile registers and releases them."""
    b = code.b
    row_tiles, column_tiles = ceil(product.row.extent / TILE_ROWS), product.column.extent // TILE_COLUMNS
    _call(b, "ldtilecfg", f"ptr @{_configuration(b.module, product.row.extent)}")
    sums = [(m, n, SUMS + 2 * m + n) for m in range(row_tiles) for n in range(column_tiles)]
    for _, _, register in sums:
        _call(b, "tilezero", f"i8 {register}")

    def transfer(operation: str, register: int, ref: Ref, first_row: int, first_column: int, step: Sym) -> None:
        code.indices.bind(product.row, first_row)
        code.indices.bind(product.column, first_column)
        stride = ref.stride(step) * ref.buf.precision.nbytes
        _call(b, operation, f"i8 {register}", f"ptr {code.address(ref)}", f"i64 {stride}")

    def step() -> None:
        for m in range(row_tiles):
            transfer("tileloadd64", LEFT + m, product.left, m * TILE_ROWS, 0, product.row)
        for n in range(column_tiles):
            transfer("tileloadd64", RIGHT + n, product.right, 0, n * TILE_COLUMNS, product.pair)
        for m, n, register in sums:
            _call(b, "tdpbf16ps", f"i8 {register}", f"i8 {LEFT + m}", f"i8 {RIGHT + n}")

    emit_reduction(product.loops, TILE_PAIRS, emit_loop, step)
    for m, n, register in sums:
        transfer("tilestored64", register, product.sums, m * TILE_ROWS, n * TILE_COLUMNS, product.row)
    _call(b, "tilerelease")


def _call(b: Builder, instruction: str, *args: str) -> None:
    name = f"llvm.x86.{instruction}"
    b.module.declare(name, "void", tuple([arg.partition(" ")[0] for arg in args]))
    b.line(f"call void @{name}({', '.join(args)})")


def _configuration(module: Module, rows: int) -> str:
    """Returns the name of a constant with the sizes of all registers, for blocks of a number of rows."""
    tile_rows = min(rows, TILE_ROWS), max(0, rows - TILE_ROWS)
    sizes = [tile_rows[0], tile_rows[0], tile_rows[1], tile_rows[1], *tile_rows, TILE_PAIRS, TILE_PAIRS]
    data = bytearray(64)
    data[0] = 1  # the palette
    for register, size in enumerate(sizes):
        if size:
            data[16 + 2 * register] = ROW_BYTES
            data[48 + register] = size
    name = f"ocannl.tiles.{rows}"
    text = "".join(f"\\{byte:02X}" for byte in data)
    module.define(name, f'@{name} = private unnamed_addr constant [64 x i8] c"{text}", align 64\n')
    return name
