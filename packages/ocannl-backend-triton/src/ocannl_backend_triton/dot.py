"""Emission of matrix products with `tl.dot`.

    for k_start in range(0, 300, BLOCK_k):
        k = k_start + tl.arange(0, BLOCK_k)[None, :]             along the columns of the left operand
        k_2 = k_start + tl.arange(0, BLOCK_k)[:, None]           along the rows of the right operand
        acc = tl.dot(tl.load(a + 300 * i + k), tl.load(b + 40 * k_2 + j), acc, input_precision="ieee")
"""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.codegen.numbers import is_narrow
from ocannl.ir.affine import Cond, Sym
from ocannl.ir.loops import Cast, Expr, Load, Update
from ocannl.ir.precision import bfloat16
from ocannl_backend_triton.emitter_protocol import DotOperand, StatementEmitter
from ocannl_backend_triton.loop_mapping import BlockAxis
from ocannl_backend_triton.matrix_products import MatrixProduct
from ocannl_backend_triton.scope import Guard, IndexText
from ocannl_backend_triton.values import BlockValue

GROUP_SIZE_M = 8  # rows of tiles per group of programs


def emit_product(emitter: StatementEmitter, axis: BlockAxis, product: MatrixProduct) -> None:
    """A serial loop over blocks of the reduction loop, with one `tl.dot` per block and product."""
    size = emitter.scope.constant(f"BLOCK_{axis.sym.name}", axis.block_size)
    if axis.num_blocks == 1:
        _emit_k_block(emitter, axis, product, str(axis.sym.lo) if axis.sym.lo else "", size)
        return
    start = emitter.block_loop_header(axis, size)
    with emitter.scope.indented(), emitter.hazards.loop(axis.loop.body):
        _emit_k_block(emitter, axis, product, start, size)


def _emit_k_block(emitter: StatementEmitter, axis: BlockAxis, product: MatrixProduct, start: str, size: str) -> None:
    emitter.dot_operands = tuple([
        _dot_operand(emitter, axis, value, position, independent.sym, start, size)
        for value, position, independent in ((product.left, 1, product.columns), (product.right, 0, product.rows))
    ])
    emitter.statements(axis.loop.body)
    emitter.dot_operands = ()


def _dot_operand(
    emitter: StatementEmitter, axis: BlockAxis, value: Expr, position: int, independent: Sym, start: str, size: str
) -> DotOperand:
    columns = emitter.scope.arange(size, position)
    name = emitter.scope.let(axis.sym.name, f"{start} + {columns}" if start else columns)
    emitter.scope.syms[axis.sym] = index = IndexText(name, frozenset((position,)))
    boundary = emitter.boundary_guards(axis, position)
    narrow = is_narrow(value.precision) or emitter.input_precision == "bfloat16"
    return DotOperand(value, axis.sym, index, size, boundary, independent, narrow)


def emit_dot(emitter: StatementEmitter, update: Update) -> None:
    """Adds the product of one block of both operands to the accumulator."""
    left, right = (_operand_text(emitter, operand) for operand in emitter.dot_operands)
    name = emitter.memory.load(update.ref).text
    precision = "" if emitter.dot_operands[0].is_narrow else f', input_precision="{emitter.input_precision}"'
    emitter.line(f"{name} = tl.dot({left}, {right}, {name}{precision})")


def _operand_text(emitter: StatementEmitter, operand: DotOperand) -> str:
    """An operand as a block of two axes, zero where it is masked."""
    scope, operations = emitter.scope, emitter.operations
    scope.syms[operand.sym] = operand.index
    facts = [Cond((fact,)) for cond in emitter.dot_conditions for fact in cond.ge0]
    facts += [Cond((), (fact,)) for cond in emitter.dot_conditions for fact in cond.eq0]
    guards = [*operand.boundary, *(scope.guard(fact) for fact in facts if operand.independent_sym not in fact.syms)]
    (position,) = operand.index.axes
    with scope.along_axis(position, operand.size), scope.guarded(*guards):
        value = operations.with_type(emitter.value(operand.value))
        if emitter.input_precision == "bfloat16":
            value = operations.cast(value, bfloat16)
        mask = scope.mask(guards)
        if mask is not None and not _is_masked(operand.value, guards):
            zero = operations.with_type(operations.number(0, value.precision)).text
            value = BlockValue(f"tl.where({mask.text}, {value.text}, {zero})", value.precision, value.axes | mask.axes)
        return scope.broadcast(value, frozenset((0, 1))).text


def _is_masked(value: Expr, guards: Sequence[Guard]) -> bool:
    """Whether the value is a load that every guard masks."""
    while isinstance(value, Cast):
        value = value.value
    if not isinstance(value, Load):
        return False
    symbols = set(value.ref.syms)
    return all(guard.syms & symbols for guard in guards)


def group_programs(emitter: StatementEmitter) -> None:
    """Orders programs by groups of `GROUP_SIZE_M` rows of tiles, so that concurrent programs share operands in L2."""
    tiles = [axis for axis in emitter.layout.grid_axes if axis.block_size > 1]
    if not emitter.layout.products or len(tiles) != 2 or tiles != emitter.layout.grid_axes[-2:]:
        return
    rows, columns = tiles
    if rows.num_blocks < 2 * GROUP_SIZE_M or columns.num_blocks < 2:
        return
    let = emitter.scope.let
    tile = let("tile", f"tl.program_id(0) % {rows.num_blocks * columns.num_blocks}")
    first = let("first", f"{tile} // {GROUP_SIZE_M * columns.num_blocks} * {GROUP_SIZE_M}")
    high = let("high", f"tl.minimum({rows.num_blocks} - {first}, {GROUP_SIZE_M})")
    within = let("within", f"{tile} % {GROUP_SIZE_M * columns.num_blocks}")
    emitter.block_numbers[rows.sym] = let("row", f"{first} + {within} % {high}")
    emitter.block_numbers[columns.sym] = let("column", f"{within} // {high}")
