"""How the loops of a kernel are executed: by programs of a grid, in blocks, or one by one.

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

from ocannl.ir.index import Affine, Sym
from ocannl.ir.loops import Body, Buf, For, Load, Local, Store, Update
from ocannl.ir.walk import walk
from ocannl_backend_triton.launch_config import USUAL, Sizes
from ocannl_backend_triton.nests import Strides, lanes, parallel
from ocannl_backend_triton.owner_computes_scatter import Share, share
from ocannl_backend_triton.products import TILE, Product, contraction
from ocannl_backend_triton.products import WIDEST as WIDEST_TILE

WIDEST = 8192  # of a row that is summed
MOST_AXES = 4  # of a block, but for what is summed
SHORT = 64  # of a column that is summed
LEAST_TILE = 16
MANY_CELLS = 4096  # of a block: more of them are for more threads


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop that takes `block` iterations at a time, along an axis of the blocks (`place`); in a `grid`, each program
    takes one of the blocks."""

    loop: For
    block: int
    place: int
    grid: bool

    @property
    def sym(self) -> Sym:
        return self.loop.sym

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return -(-self.sym.extent // self.block)

    @property
    def is_even(self) -> bool:
        return self.sym.extent % self.block == 0


@dataclass(frozen=True, slots=True)
class Row:
    """Where a local array that is a block lies: its cells along an axis, or a single one along none."""

    place: int
    block: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The loops of a kernel by their symbols, and of how many axes its blocks are. Matrices are multiplied for the sums
    of `products`, which are known by the symbols of their loops. `rows` are local arrays that are blocks. Places that
    memory tells may be `shared` among the programs."""

    axes: Mapping[Sym, Axis]
    rank: int
    products: Mapping[Sym, Product] = field(default_factory=dict)
    rows: Mapping[Buf, Row] = field(default_factory=dict)
    sizes: Sizes = USUAL
    shared: Share | None = None

    @property
    def grid(self) -> list[Axis]:
        return [axis for axis in self.axes.values() if axis.grid]

    @property
    def programs(self) -> int:
        return prod(axis.count for axis in self.grid) * (self.shared.count if self.shared else 1)

    @property
    def num_warps(self) -> int:
        """Groups of 32 threads for each program."""
        if self.sizes.warps is not None:
            return self.sizes.warps
        cells = prod(axis.block for axis in self.grid) * (1 if self.products else self.longest)
        return 4 if cells <= MANY_CELLS else 8

    @property
    def num_stages(self) -> int:
        """Turns of a loop whose loads are under way at the same time."""
        return self.sizes.stages if self.products else min(2, self.sizes.stages)

    @property
    def longest(self) -> int:
        return max([axis.block for axis in self.axes.values() if not axis.grid], default=1)


def layout(body: Body, sizes: Sizes) -> Layout:
    """The outermost loops whose iterations have nothing to do with each other are taken by programs."""
    chain, inside = parallel(body)
    products = contraction(chain, inside)
    if not products:
        return _summed(body, chain, inside, sizes)
    if all(product.columns in chain for product in products):
        return _multiplied(chain, products, sizes)
    return _walked(chain, inside, products, sizes)


def _multiplied(chain: Sequence[For], products: Sequence[Product], sizes: Sizes) -> Layout:
    """Tiles of the two loops; the others of the chain are taken one by one."""
    tiles = {products[0].rows.sym: 0, products[0].columns.sym: 1}
    most = sizes.tile or _filling([loop.sym for loop in chain], tiles, sizes)
    axes = {}
    for loop in chain:
        place = tiles.get(loop.sym)
        block = 1 if place is None else _tile(loop.sym, most[place])
        axes[loop.sym] = Axis(loop, block, place or 0, True)
    for product in products:
        depth = sizes.depth_bytes // product.left.precision.nbytes
        axes[product.loop.sym] = Axis(product.loop, _tile(product.loop.sym, depth), 1, False)
    return Layout(axes, 2, {product.loop.sym: product for product in products}, sizes=sizes)


def _filling(chain: Sequence[Sym], tiles: Container[Sym], sizes: Sizes) -> tuple[int, int]:
    """The largest tile of which there are enough."""
    for size in sizes.tiles:
        if prod(-(-sym.extent // size) if sym in tiles else sym.extent for sym in chain) >= sizes.programs:
            return size, size
    return sizes.tiles[-1], sizes.tiles[-1]


def _walked(chain: Sequence[For], inside: Body, products: Sequence[Product], sizes: Sizes) -> Layout:
    """Tiles of the rows, which take the loops inside as columns: those of a product, or what it is summed over."""
    rows = products[0].rows
    most = min(TILE, sizes.tile[0] if sizes.tile else sizes.tiles[-1])
    axes = {loop.sym: Axis(loop, _tile(loop.sym, most) if loop is rows else 1, 0, True) for loop in chain}
    inner = [loop for loop in lanes(inside, tuple([loop.sym for loop in chain])) if loop not in chain]
    for loop in (*inner, *(product.columns for product in products)):
        axes[loop.sym] = Axis(loop, _tile(loop.sym, WIDEST_TILE), 1, False)
    for product in products:
        depth = WIDEST_TILE if product.is_of_row else sizes.depth_bytes // product.left.precision.nbytes
        axes[product.loop.sym] = Axis(product.loop, _tile(product.loop.sym, depth), 1, False)
    return Layout(axes, 2, {product.loop.sym: product for product in products}, dict(_rows(inside, axes)), sizes)


def _tile(sym: Sym, most: int) -> int:
    return max(min(power_of_two(sym.extent), most), LEAST_TILE)


def _summed(body: Body, chain: Sequence[For], inside: Body, sizes: Sizes) -> Layout:
    """Loops of the chain in blocks, while there is room, and those that are summed along an axis of their own."""
    inner = [loop for loop in lanes(inside, tuple([loop.sym for loop in chain])) if loop not in chain]
    strides = Strides(body)
    summed = 1
    if inner:
        longest = power_of_two(max(loop.sym.extent for loop in inner))
        most = max([strides.weight(loop.sym) for loop in chain], default=0)
        summed = min(longest, WIDEST if any(strides.weight(loop.sym) >= max(most, 1) for loop in inner) else SHORT)
    room = max(sizes.summed // summed, 1) if inner else sizes.cells
    blocks: dict[Sym, int] = {}
    for loop in sorted(chain, key=lambda loop: (-strides.weight(loop.sym), -chain.index(loop)))[:MOST_AXES]:
        blocks[loop.sym] = min(power_of_two(loop.sym.extent), room)
        room //= blocks[loop.sym]
    wide = [loop.sym for loop in chain if blocks.get(loop.sym, 1) > 1]
    axes = {
        loop.sym: Axis(loop, blocks.get(loop.sym, 1), wide.index(loop.sym) if loop.sym in wide else 0, True)
        for loop in chain
    }
    for loop in inner:
        block = min(power_of_two(loop.sym.extent), summed)
        if block > 1:
            axes[loop.sym] = Axis(loop, block, len(wide), False)
    rank = len(wide) + any(not axis.grid for axis in axes.values())
    others = prod(axis.count for axis in axes.values() if axis.grid)
    mine = share(inside, frozenset(loop.sym for loop in chain), sizes.many // max(others, 1))
    return Layout(axes, rank, rows=dict(_rows(inside, axes)), sizes=sizes, shared=mine)


def _rows(body: Body, axes: Mapping[Sym, Axis]) -> Iterator[tuple[Buf, Row]]:
    """Local arrays of which each access is to all cells at once."""
    cells: dict[Buf, set[tuple[int, int]]] = {}
    for node in walk(body):
        match node:
            case Local(buf, None) if buf.shape:
                cells[buf] = set()
            case Load(ref) | Store(ref) | Update(ref) if ref.buf in cells:
                cells[ref.buf] |= {_along(at, size, axes) for at, size in zip(ref.at, ref.buf.shape, strict=True)}
            case _:
                pass
    for buf, places in cells.items():
        places.discard((0, 1))
        if len(places) <= 1 and (0, 0) not in places and sum(size > 1 for size in buf.shape) <= 1:
            yield buf, Row(*next(iter(places), (0, 1)))


def _along(at: Affine, size: int, axes: Mapping[Sym, Axis]) -> tuple[int, int]:
    """Where the cells of a place lie, and in how large a block; a single cell in one of one, others in none."""
    if size == 1:
        return 0, 1
    axis = axes.get(at.only_sym) if at.only_sym is not None else None
    if axis is None or axis.grid or axis.count > 1 or axis.sym.lo or axis.sym.extent != size:
        return 0, 0
    return axis.place, axis.block


def power_of_two(count: int) -> int:
    """The smallest that is at least so much."""
    return 1 << max(count - 1, 0).bit_length()
