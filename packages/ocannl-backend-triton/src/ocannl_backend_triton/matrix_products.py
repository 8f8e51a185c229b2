"""Matrix products: sums of products whose factors share only the reduction loop, computed by `tl.dot`.

    for i, j:
      local acc = 0
      for k:
        acc += a[i, k] * b[k, j]          left: depends on i, right: depends on j
      y[i, j] = acc
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ocannl.codegen.numbers import is_narrow
from ocannl.ir.affine import Cond, Sym
from ocannl.ir.free_symbols import free_symbols
from ocannl.ir.loops import (
    Apply,
    Body,
    Buf,
    Cast,
    Comment,
    Expr,
    For,
    If,
    Load,
    Local,
    MemorySpace,
    Update,
    Var,
    is_full,
)
from ocannl.ir.ops import ADD, BY_NAME
from ocannl.ir.precision import bfloat16, float32
from ocannl.ir.walk import walk
from ocannl_backend_triton.float8 import FORMATS8
from ocannl_backend_triton.loop_analysis import bound_quotients, is_uniform_in_block

MUL = BY_NAME["mul"]
MAX_ROW_TILE = 64  # rows per program where the columns are a loop inside the program
MAX_INNER_BLOCK = 256  # columns per program there
MIN_EXTENT = 8  # of each of the three loops; smaller products do not pay


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """`update` adds `left * right` in each iteration of `reduction_loop`, over a tile of `rows` and `columns`.

    Factors of one narrow float type are multiplied in that type (8-bit floats in bfloat16): products are exact in the
    float32 accumulator.
    """

    rows: For
    columns: For
    reduction_loop: For
    left: Expr
    right: Expr
    update: Update

    @property
    def has_register_left(self) -> bool:
        """Whether the left factor is a row in registers, held entirely by each program."""
        return any(isinstance(node, Load) and node.ref.buf.space is MemorySpace.LOCAL for node in walk(self.left))


@dataclass(frozen=True, slots=True)
class _Reduction:
    outer: tuple[For, ...]  # enclosing loops inside the parallel ones
    loops: tuple[For, ...]
    cond: Cond
    update: Update


def match_products(chain: Sequence[For], body: Body) -> tuple[MatrixProduct, ...]:
    """The matrix products among the reductions of the body.

    Prefers tiles over two parallel loops; otherwise the columns are a loop inside the program, as in attention.
    """
    parallel = frozenset(loop.sym for loop in chain)
    reductions = list(_reductions(body))
    best: tuple[MatrixProduct, ...] = ()
    best_size = 0
    for rows in chain:
        for columns in chain:
            size = rows.sym.extent * columns.sym.extent
            if size <= best_size:
                continue
            matches = [
                _match_product(reduction, parallel, rows, columns) for reduction in reductions if not reduction.outer
            ]
            products = tuple([product for product in matches if product is not None])
            if products:
                best, best_size = products, size
    if best:
        return best
    for rows in chain:
        compatible = [
            reduction
            for reduction in reductions
            if all(_has_uniform_bounds(loop, rows.sym) for loop in reduction.outer)
        ]
        matches = [
            _match_product(reduction, parallel, rows, reduction.outer[-1])
            for reduction in compatible
            if _fits_single_block(reduction.outer[-1:])
        ]
        products = tuple([product for product in matches if product is not None])
        best = max(best, products, key=len)
    return best


def _fits_single_block(loops: Sequence[For]) -> bool:
    """Whether one block covers the outermost of the loops."""
    return bool(loops) and is_full(loops[0]) and loops[0].sym.extent <= MAX_INNER_BLOCK


def _has_uniform_bounds(loop: For, rows: Sym) -> bool:
    """Whether all rows of a tile have the same loop bounds."""
    quotients = bound_quotients(loop)
    return loop.step == 1 and all(is_uniform_in_block(index, div, rows, MAX_ROW_TILE) for index, div in quotients)


def _reductions(
    body: Body, outer: tuple[For, ...] = (), registers: frozenset[Buf] = frozenset()
) -> Iterator[_Reduction]:
    """Perfect nests around an update of a local scalar."""
    registers = registers | {stmt.buf for stmt in body if isinstance(stmt, Local) and not stmt.buf.shape}
    for stmt in body:
        loops: list[For] = []
        cond = Cond()
        inner: Body = (stmt,)
        while len(inner) == 1:
            match inner[0]:
                case For() as loop:
                    loops.append(loop)
                    inner = tuple([nested for nested in loop.body if not isinstance(nested, Comment)])
                case If(guard, guarded_body, ()):
                    cond = cond & guard
                    inner = guarded_body
                case Update(ref, op) as update if ref.buf in registers and op is ADD and all(map(is_full, loops)):
                    yield _Reduction(outer, tuple(loops), cond, update)
                    break
                case _:
                    break
        if len(inner) > 1:
            yield from _reductions(inner, (*outer, *loops), registers)


def _match_product(reduction: _Reduction, parallel: frozenset[Sym], rows: For, columns: For) -> MatrixProduct | None:
    match reduction.update.value:
        case Apply(op, (first, second)) if op is MUL and reduction.update.value.precision is float32:
            for left, right in ((first, second), (second, first)):
                product = _match_operand_order(reduction, parallel, rows, columns, left, right)
                if product is not None:
                    return product
    return None


def _match_operand_order(
    reduction: _Reduction, parallel: frozenset[Sym], rows: For, columns: For, left: Expr, right: Expr
) -> MatrixProduct | None:  # fmt: skip
    """The product, if `left` depends on the rows and `right` on the columns, and not the other way round."""
    left_symbols, right_symbols = varying_symbols(left, parallel), varying_symbols(right, parallel)
    if columns.sym in left_symbols or rows.sym in right_symbols:
        return None
    if rows.sym not in left_symbols or columns.sym not in right_symbols:
        return None
    conditions = (*reduction.cond.ge0, *reduction.cond.eq0)
    if any({rows.sym, columns.sym} <= set(fact.syms) for fact in conditions):
        return None
    shared_loops = [loop for loop in reduction.loops if loop.sym in left_symbols & right_symbols]
    if not shared_loops or min(s.extent for s in (rows.sym, columns.sym, shared_loops[0].sym)) < MIN_EXTENT:
        return None
    k_loop = max(shared_loops, key=lambda loop: loop.sym.extent)
    factors = [node for factor in (left, right) for node in walk(factor)]
    if any(isinstance(node, Var) or _is_register_load(node, k_loop.sym) for node in factors):
        return None
    match left, right:
        case Cast(Load() as a), Cast(Load() as b) if a.precision is b.precision and is_narrow(a.precision):
            is_native = a.precision not in FORMATS8
            left, right = (a, b) if is_native else (Cast(a, bfloat16), Cast(b, bfloat16))
    return MatrixProduct(rows, columns, k_loop, left, right, reduction.update)


def _is_register_load(node: object, reduction_symbol: Sym) -> bool:
    """Whether a node loads from registers, except from a row indexed by the reduction symbol."""
    if not isinstance(node, Load) or node.ref.buf.space is not MemorySpace.LOCAL:
        return False
    return [at.only_sym for at in node.ref.indices] != [reduction_symbol]


def varying_symbols(value: Expr, parallel: frozenset[Sym]) -> set[Sym]:
    """Symbols with which the value varies; local arrays vary with every parallel loop."""
    is_local = any(isinstance(node, Load) and node.ref.buf.space is MemorySpace.LOCAL for node in walk(value))
    return free_symbols(value) | (parallel if is_local else frozenset())
