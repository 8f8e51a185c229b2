"""Products of bfloat16 matrices that tiles compute, and the roles of their loops and operands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from math import prod

from ocannl.ir.affine import Sym
from ocannl.ir.capabilities import TileUnit
from ocannl.ir.loops import Buf, For, Ref, is_full
from ocannl.ir.precision import bfloat16, float32
from ocannl.ir.tile_products import MAX_COLUMNS, MAX_ROWS, TILE_COLUMNS, TILE_PAIRS, TILE_ROWS
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction
from ocannl.opt.idioms.form_pair_dots import factors_of_terms
from ocannl.opt.schedule.plan.register_tiles import imbalance_of_parts


@dataclass(frozen=True, slots=True)
class TileableProduct:
    """A group whose terms are products of `left`, which depends on `row`, and `right`, which depends on `column`; both
    depend on `term`. Further loops of the group and of its reduction are around these."""

    group: FusionGroup
    left: Ref
    right: Ref
    row: Sym
    column: Sym
    term: Sym

    @property
    def reduction(self) -> Reduction:
        return self.group.reductions[0]

    @property
    def syms(self) -> tuple[Sym, ...]:
        """The symbols of all loops."""
        return self.group.syms + self.reduction.syms

    @property
    def axes(self) -> tuple[Sym, Sym]:
        return self.row, self.column

    @property
    def axis_loops(self) -> tuple[For, For]:
        """The loops of the group over rows and columns."""
        by_sym = {old.sym: old for old in self.group.loops}
        return by_sym[self.row], by_sym[self.column]

    @property
    def outer_loops(self) -> tuple[For, ...]:
        """The parallel loops around blocks."""
        return tuple([old for old in self.group.loops if old.sym not in (self.row, self.column)])

    @property
    def reduction_loops(self) -> tuple[For, ...]:
        """The reduction loops around that over terms."""
        return tuple([old for old in self.reduction.loops if old.sym is not self.term])

    @property
    def is_row_outside(self) -> bool:
        """Whether the loop over blocks of rows is around that over blocks of columns: the longer axis is outside."""
        return self.row.extent >= self.column.extent

    @property
    def block_rows(self) -> int:
        """The number of rows in a block: those of two tiles, or of one if few blocks could be shared more equally."""
        rows = self.row.extent
        if not self.is_row_outside or self.outer_loops or not MAX_ROWS < rows < machine.MIN_OUTER_TRIPS * MAX_ROWS:
            return MAX_ROWS
        return min((MAX_ROWS, TILE_ROWS), key=lambda size: imbalance_of_parts(rows, size))

    @property
    def panel_columns(self) -> int:
        """Columns per panel of the right operand."""
        return tile_columns(self.column.extent)

    @property
    def padded_columns(self) -> int:
        """The number of columns that tiles compute."""
        full, rest = divmod(self.column.extent, self.panel_columns)
        return full * self.panel_columns + (tile_columns(rest) if rest else 0)

    @property
    def term_parts(self) -> int:
        """The number of sums that are added up along the loop over terms."""
        return -(-self.term.extent // machine.MAX_TILE_TERMS)

    @property
    def part_pairs(self) -> int:
        """The number of pairs of terms in such a sum, padded to whole tiles."""
        return TILE_PAIRS * -(-self.term.extent // (2 * TILE_PAIRS * self.term_parts))

    @property
    def padded_terms(self) -> int:
        """The number of terms in packed operands."""
        return 2 * self.part_pairs * self.term_parts

    @property
    def packs_left(self) -> bool:
        """Whether the left operand is packed; otherwise rows of tiles are read in place."""
        return self.left.stride(self.term) != 1 or self.padded_terms != self.term.extent

    @property
    def packed_operands(self) -> tuple[Ref, ...]:
        return (self.left, self.right) if self.packs_left else (self.right,)

    def packed_cells(self, ref: Ref) -> int:
        """The number of cells of an operand that is packed."""
        return int(self.cells(ref) * _padding(self, ref))

    def packed_bytes(self, ref: Ref) -> int:
        """The size of an operand that is packed."""
        return self.packed_cells(ref) * bfloat16.nbytes

    def cells(self, ref: Ref) -> int:
        """The number of iterations that read different cells of an operand."""
        return prod(sym.extent for sym in self.syms if sym in ref.syms)

    def inner_reduction_loops(self) -> tuple[For, ...]:
        """The reduction loops whose terms tiles add up, besides that over terms."""
        terms = 2 * self.part_pairs
        inner: tuple[For, ...] = ()
        for old in reversed(self.reduction_loops if self.term_parts == 1 else ()):
            terms *= old.sym.extent
            if terms > machine.MAX_TILE_TERMS:
                break
            inner = (old, *inner)
        return inner


def tile_columns(columns: int) -> int:
    """The columns of one or two tiles."""
    return TILE_COLUMNS if columns <= TILE_COLUMNS else MAX_COLUMNS


def tileable_product(
    group: FusionGroup,
    unit: TileUnit | None,
    weights: Collection[Buf] = (),
    may_pack: Callable[[TileableProduct], bool] = lambda product: True,
) -> TileableProduct | None:
    """Returns the product of bfloat16 matrices that a group computes, with the roles of operands that cost least; None
    if it is none, if it takes less time without packed operands, or if these may not be packed. Packing `weights` costs
    nothing."""
    if unit is None or len(group.reductions) != 1 or not group.cond.is_true:
        return None
    (reduction,) = group.reductions
    factors = factors_of_terms(reduction)
    if factors is None or not reduction.cond.is_true or not all(map(is_full, reduction.loops)):
        return None
    x, y = (factor.ref for factor in factors)
    if reduction.acc.precision is not float32 or (x.buf.precision, y.buf.precision) != (bfloat16, bfloat16):
        return None
    assigned = [_with_roles(group, left, right) for left, right in ((x, y), (y, x))]
    products = [
        product for product in assigned
        if product is not None and _fits_tiles(product, unit) and may_pack(product)
    ]  # fmt: skip
    costs = {product: _tile_cycles(product, unit, weights) for product in products}
    best = min(costs, key=costs.__getitem__, default=None)
    return best if best is not None and costs[best] <= _pair_cycles(group) else None


def _with_roles(group: FusionGroup, left: Ref, right: Ref) -> TileableProduct | None:
    (reduction,) = group.reductions
    rows, columns = (
        [sym for sym in group.syms if sym in operand.syms and sym not in factor.syms]
        for operand, factor in ((left, right), (right, left))
    )
    terms = [sym for sym in reduction.syms if sym in left.syms and sym in right.syms]
    if not (rows and columns and terms):
        return None
    row = max(rows, key=lambda sym: sym.extent)
    column = max(columns, key=lambda sym: (_is_contiguous(group, sym), sym.extent))
    term = max(terms, key=lambda sym: (left.stride(sym) == 1, sym.extent))
    return TileableProduct(group, left, right, row, column, term)


def _is_contiguous(group: FusionGroup, sym: Sym) -> bool:
    return all(ref.stride(sym) == 1 for ref in group.writes)


def _fits_tiles(product: TileableProduct, unit: TileUnit) -> bool:
    """Whether tiles are mostly full, sums have few parts, and packed operands are not much larger than their arrays."""
    row, column, term = product.row, product.column, product.term
    if row.extent < machine.MIN_TILE_ROWS or column.extent < TILE_COLUMNS or term.extent < machine.MIN_TILE_TERMS:
        return False
    parts = product.term_parts * prod(old.sym.extent for old in product.reduction_loops)
    parts //= prod(old.sym.extent for old in product.inner_reduction_loops())
    return (
        _padding(product, product.right) <= machine.MAX_TILE_PADDING
        and unit.additions + parts <= machine.MAX_ADDITIONS_PER_TERM
        and all(
            product.cells(ref) <= machine.MAX_TILE_OPERAND_GROWTH * ref.buf.size for ref in product.packed_operands
        )
    )  # fmt: skip


def _padding(product: TileableProduct, ref: Ref) -> float:
    """Returns the cells of a packed operand per cell that is not padding."""
    padding = product.padded_terms / product.term.extent
    return padding * product.padded_columns / product.column.extent if ref is product.right else padding


def _tile_cycles(product: TileableProduct, unit: TileUnit, weights: Collection[Buf]) -> float:
    """Estimates the cycles of packing operands, of tiles, and of storing results, in transposed blocks if rows are
    contiguous, with a share of the load imbalance of threads."""
    axes = {product.right: (product.column, product.term), product.left: (product.term, product.row)}
    packing = sum(
        product.packed_cells(ref) * _cell_cycles((ref,), *axes[ref])
        for ref in product.packed_operands if ref.buf not in weights
    )  # fmt: skip
    outer = prod(old.sym.extent for old in product.outer_loops)
    results = outer * product.row.extent * product.column.extent
    row_tiles, row_blocks = (-(-product.row.extent // size) for size in (TILE_ROWS, product.block_rows))
    column_blocks = -(-product.column.extent // product.panel_columns)
    blocks = outer * row_blocks * column_blocks
    shared = [old.sym.extent for old in product.outer_loops] + [row_blocks if product.is_row_outside else column_blocks]
    imbalance = min(imbalance_of_parts(count, 1) for count in shared)
    terms = outer * row_tiles * TILE_ROWS * product.padded_columns * product.padded_terms
    terms *= prod(old.sym.extent for old in product.reduction_loops)
    storing = results * _cell_cycles(product.group.writes, product.column, product.row)
    term_cycles = (machine.NARROW_PANEL_FACTOR if product.panel_columns == TILE_COLUMNS else 1) / unit.terms_per_cycle
    cycles = packing + terms * term_cycles + blocks * machine.TILE_BLOCK_CYCLES + storing
    return cycles * (1 + machine.IMBALANCE_WEIGHT * imbalance)


def _cell_cycles(refs: Iterable[Ref], axis: Sym, transposed: Sym) -> float:
    """Returns the cycles to copy a cell in vectors along an axis, or along another one that is transposed."""
    costs = {1: machine.TILE_COPY_CYCLES, 2: machine.TILE_TRANSPOSE_CYCLES}
    unit_strides = [1 if ref.stride(axis) == 1 else 2 if ref.stride(transposed) == 1 else 3 for ref in refs]
    return costs.get(max(unit_strides), machine.TILE_GATHER_CYCLES)


def _pair_cycles(group: FusionGroup) -> float:
    """Estimates the cycles of the product without packed operands."""
    results = prod(old.sym.extent for old in group.loops)
    terms = results * prod(old.sym.extent for old in group.reductions[0].loops)
    return terms / machine.PAIR_TERMS_PER_CYCLE + results * machine.TILE_COPY_CYCLES
