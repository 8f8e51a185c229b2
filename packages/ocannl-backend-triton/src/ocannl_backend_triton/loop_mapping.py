"""Maps the loops of a kernel to programs of the grid, blocks within a program, or serial loops.

    for i in 0..1000:          i: programs, in blocks of 32 along axis 0
      local acc                   program n takes i = 32 * n + (0, 1, ... 31)
      for k in 0..300:         k: in blocks of 64 along axis 1, one block after the other
        acc += x[i, k]
      y[i] = acc
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from ocannl.codegen.numbers import next_power_of_two
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.loops import Body, Buf, For, Load, Local, Store, Update
from ocannl.ir.walk import walk
from ocannl_backend_triton.launch_config import DEFAULT_CONFIG, LaunchConfig
from ocannl_backend_triton.loop_analysis import UnitStrideWeights, blockable_loops, parallel_loops
from ocannl_backend_triton.matrix_products import MAX_INNER_BLOCK, MAX_ROW_TILE, MatrixProduct, match_products
from ocannl_backend_triton.owned_rows import OwnedRows, partition_rows

MAX_ROW_BLOCK = 8192  # of a contiguous row that is reduced
MAX_COLUMN_BLOCK = 64  # of a strided column that is reduced
MAX_GRID_AXES = 4  # of a block, not counting the reduction axis
MIN_DOT_TILE = 16  # `tl.dot` accepts no smaller operands
MAX_FOUR_WARP_ELEMENTS = 4096  # blocks up to this size get 4 warps, larger ones 8


@dataclass(frozen=True, slots=True)
class BlockAxis:
    """A loop executed `block_size` iterations at a time, along the axis `position` of the blocks. With `is_grid` each
    program executes one of these blocks, otherwise all of them."""

    loop: For
    block_size: int
    position: int
    is_grid: bool

    @property
    def sym(self) -> Sym:
        return self.loop.sym

    @property
    def num_blocks(self) -> int:
        """Number of blocks, rounded up."""
        return -(-self.sym.extent // self.block_size)

    @property
    def is_even(self) -> bool:
        return self.sym.extent % self.block_size == 0


@dataclass(frozen=True, slots=True)
class RegisterRow:
    """A local array in registers, as a block along the axis `position`; a block size of 1 is a scalar."""

    position: int
    block_size: int


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """The mapping of loops to axes, by symbol, and the rank of the kernel's blocks.

    `products` are the matrix products by the symbol of their reduction loop, `register_rows` the local arrays kept in
    registers. With `owned_rows` the programs partition the target rows of a scatter.
    """

    axes: Mapping[Sym, BlockAxis]
    rank: int
    products: Mapping[Sym, MatrixProduct] = field(default_factory=dict)
    register_rows: Mapping[Buf, RegisterRow] = field(default_factory=dict)
    config: LaunchConfig = DEFAULT_CONFIG
    owned_rows: OwnedRows | None = None

    @property
    def grid_axes(self) -> list[BlockAxis]:
        return [axis for axis in self.axes.values() if axis.is_grid]

    @property
    def num_programs(self) -> int:
        owners = self.owned_rows.num_programs if self.owned_rows else 1
        return prod(axis.num_blocks for axis in self.grid_axes) * owners

    @property
    def num_warps(self) -> int:
        """Warps, groups of 32 threads, per program."""
        if self.config.num_warps is not None:
            return self.config.num_warps
        elements = prod(axis.block_size for axis in self.grid_axes) * (1 if self.products else self.longest_block)
        return 4 if elements <= MAX_FOUR_WARP_ELEMENTS else 8

    @property
    def num_stages(self) -> int:
        """Software pipelining: iterations of a loop whose loads are in flight."""
        return self.config.num_stages if self.products else min(2, self.config.num_stages)

    @property
    def longest_block(self) -> int:
        return max([axis.block_size for axis in self.axes.values() if not axis.is_grid], default=1)


def choose_layout(body: Body, config: LaunchConfig) -> BlockLayout:
    """Assigns the outermost parallel loops to programs, and inner loops to blocks."""
    chain, inside = parallel_loops(body)
    products = match_products(chain, inside)
    if not products:
        return _reduction_layout(body, chain, inside, config)
    if all(product.columns in chain for product in products):
        return _product_layout(chain, products, config)
    return _row_tile_layout(chain, inside, products, config)


def _product_layout(chain: Sequence[For], products: Sequence[MatrixProduct], config: LaunchConfig) -> BlockLayout:
    """Tiles of the two loops of a product; the other parallel loops have blocks of one iteration."""
    positions = {products[0].rows.sym: 0, products[0].columns.sym: 1}
    tile_shape = config.tile or _tile_shape([loop.sym for loop in chain], positions, config)
    axes = {}
    for loop in chain:
        position = positions.get(loop.sym)
        block = 1 if position is None else _tile_size(loop.sym, tile_shape[position])
        axes[loop.sym] = BlockAxis(loop, block, position or 0, True)
    for product in products:
        loop = product.reduction_loop
        k_block = config.k_block_bytes // product.left.precision.nbytes
        axes[loop.sym] = BlockAxis(loop, _tile_size(loop.sym, k_block), 1, False)
    return BlockLayout(axes, 2, {product.reduction_loop.sym: product for product in products}, config=config)


def _tile_shape(chain: Sequence[Sym], tiles: Container[Sym], config: LaunchConfig) -> tuple[int, int]:
    """The largest square tile that yields enough programs."""
    for size in config.tile_sizes:
        if prod(-(-sym.extent // size) if sym in tiles else sym.extent for sym in chain) >= config.min_programs:
            return size, size
    return config.tile_sizes[-1], config.tile_sizes[-1]


def _row_tile_layout(
    chain: Sequence[For], inside: Body, products: Sequence[MatrixProduct], config: LaunchConfig
) -> BlockLayout:
    """Tiles of rows only; loops inside the program are the columns or the reduction loop of a product, as in
    attention."""
    rows = products[0].rows
    max_rows = min(MAX_ROW_TILE, config.tile[0] if config.tile else config.tile_sizes[-1])
    axes = {loop.sym: BlockAxis(loop, _tile_size(loop.sym, max_rows) if loop is rows else 1, 0, True) for loop in chain}
    inner = [loop for loop in blockable_loops(inside, tuple([loop.sym for loop in chain])) if loop not in chain]
    for loop in (*inner, *(product.columns for product in products)):
        axes[loop.sym] = BlockAxis(loop, _tile_size(loop.sym, MAX_INNER_BLOCK), 1, False)
    for product in products:
        loop = product.reduction_loop
        k_block = config.k_block_bytes // product.left.precision.nbytes
        if product.has_register_left:
            k_block = MAX_INNER_BLOCK
        axes[loop.sym] = BlockAxis(loop, _tile_size(loop.sym, k_block), 1, False)
    by_loop = {product.reduction_loop.sym: product for product in products}
    return BlockLayout(axes, 2, by_loop, dict(_register_rows(inside, axes)), config)


def _tile_size(sym: Sym, limit: int) -> int:
    return max(min(next_power_of_two(sym.extent), limit), MIN_DOT_TILE)


def _reduction_layout(body: Body, chain: Sequence[For], inside: Body, config: LaunchConfig) -> BlockLayout:
    """Blocks of parallel loops, contiguous ones first, up to a budget of elements; reductions get an extra axis."""
    inner = [loop for loop in blockable_loops(inside, tuple([loop.sym for loop in chain])) if loop not in chain]
    strides = UnitStrideWeights(body)
    reduction_block = 1
    if inner:
        longest = next_power_of_two(max(loop.sym.extent for loop in inner))
        chain_weight = max([strides.weight(loop.sym) for loop in chain], default=0)
        is_contiguous = any(strides.weight(loop.sym) >= max(chain_weight, 1) for loop in inner)
        reduction_block = min(longest, MAX_ROW_BLOCK if is_contiguous else MAX_COLUMN_BLOCK)
    budget = max(config.reduction_elements // reduction_block, 1) if inner else config.block_elements
    blocks: dict[Sym, int] = {}
    for loop in sorted(chain, key=lambda loop: (-strides.weight(loop.sym), -chain.index(loop)))[:MAX_GRID_AXES]:
        blocks[loop.sym] = min(next_power_of_two(loop.sym.extent), budget)
        budget //= blocks[loop.sym]
    wide = [loop.sym for loop in chain if blocks.get(loop.sym, 1) > 1]
    axes = {
        loop.sym: BlockAxis(loop, blocks.get(loop.sym, 1), wide.index(loop.sym) if loop.sym in wide else 0, True)
        for loop in chain
    }
    for loop in inner:
        block = min(next_power_of_two(loop.sym.extent), reduction_block)
        if block > 1:
            axes[loop.sym] = BlockAxis(loop, block, len(wide), False)
    rank = len(wide) + any(not axis.is_grid for axis in axes.values())
    num_programs = prod(axis.num_blocks for axis in axes.values() if axis.is_grid)
    max_owners = config.saturating_programs // max(num_programs, 1)
    owned_rows = partition_rows(inside, frozenset(loop.sym for loop in chain), max_owners)
    register_rows = dict(_register_rows(inside, axes))
    return BlockLayout(axes, rank, register_rows=register_rows, config=config, owned_rows=owned_rows)


def _register_rows(body: Body, axes: Mapping[Sym, BlockAxis]) -> Iterator[tuple[Buf, RegisterRow]]:
    """Local arrays whose every access covers all elements along one axis, so that they fit into registers."""
    cells: dict[Buf, set[tuple[int, int]]] = {}
    for node in walk(body):
        match node:
            case Local(buf, None) if buf.shape:
                cells[buf] = set()
            case Load(ref) | Store(ref) | Update(ref) if ref.buf in cells:
                placed = {_index_placement(at, size, axes) for at, size in zip(ref.indices, ref.buf.shape, strict=True)}
                cells[ref.buf] |= placed
            case _:
                pass
    for buf, placements in cells.items():
        placements.discard((0, 1))
        if len(placements) <= 1 and (0, 0) not in placements and sum(size > 1 for size in buf.shape) <= 1:
            yield buf, RegisterRow(*next(iter(placements), (0, 1)))


def _index_placement(at: Affine, size: int, axes: Mapping[Sym, BlockAxis]) -> tuple[int, int]:
    """Axis and block size of an index that covers its whole dimension; (0, 1) for size 1, (0, 0) if it does not."""
    if size == 1:
        return 0, 1
    axis = axes.get(at.only_sym) if at.only_sym is not None else None
    if axis is None or axis.is_grid or axis.num_blocks > 1 or axis.sym.lo or axis.sym.extent != size:
        return 0, 0
    return axis.position, axis.block_size
