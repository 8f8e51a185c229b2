"""Operands in panels: copies in which a tile finds what it reads side by side, in the order in which it reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product

from ocannl.ir.index import TRUE, Affine, Sym
from ocannl.ir.loops import Access, Body, Buf, Expr, Home, Load, Ref, Store, loop, row_major
from ocannl.ir.names import Namer
from ocannl.opt.group import Group
from ocannl.opt.plan.tiled import Tiled
from ocannl.opt.realize.blocked import Blocked, blocked
from ocannl.opt.realize.tiled import realize_tiled
from ocannl.opt.substitute import map_expr


@dataclass(frozen=True, slots=True)
class Packed:
    """`body`, and the arrays that it needs: those that the `copies` fill, and one for sums that it goes on with."""

    bufs: tuple[Buf, ...]
    copies: tuple[Group, ...]
    body: Body


def packed(group: Group, plan: Tiled, names: Namer) -> Packed:
    """The group, in blocks if it is planned so, and copies of the operands that the plan has in panels; here `w` for
    tiles of 8 columns:

        for i in 0..3:                        for t in 0..2:
          for n in 0..2 tiles:                  for k in 0..7:
            for k in 0..7:           ==>          for c in 0..8:
              .. w[k, 8*n+c]                        w_2[t, k, c] = w[k, 8*t+c]
                                              for i in 0..3:
                                                for n in 0..2 tiles:
                                                  for k in 0..7:
                                                    .. w_2[n, k, c]

    Panels begin with the loops that are outside of tiles, and are all as long as the first one of them.
    """
    tiles, panels = plan.tiles, [_Panel.of(ref, plan, names) for ref in plan.panels]
    numbers = {
        sym: Sym(names(sym.name), 0, -(-sym.extent // size) - 1)
        for sym, size in tiles.items() if any(sym in panel.tiled for panel in panels)
    }  # fmt: skip
    swap = {panel.source: panel.ref(tiles, numbers) for panel in panels}

    def leaf(node: Expr) -> Expr:
        return Load(swap.get(node.ref, node.ref)) if isinstance(node, Load) else node

    (total,) = group.sums
    update = replace(total.update, value=map_expr(total.update.value, leaf))
    whole = replace(group, sums=(replace(total, update=update),))
    copies = [copy for panel in panels for copy in panel.copies(tiles, names)]
    blocks = blocked(whole, plan, names) if plan.block else Blocked((), ())
    body = realize_tiled(whole, plan, names, numbers, blocks.blocks)
    return Packed((*(panel.buf for panel in panels), *blocks.bufs), tuple(copies), body)


@dataclass(frozen=True, slots=True)
class _Panel:
    source: Ref
    buf: Buf
    outer: tuple[Sym, ...]  # of the loops that the source depends on: those outside of tiles,
    tiled: tuple[Sym, ...]
    reduced: tuple[Sym, ...]  # and the summed ones

    @staticmethod
    def of(source: Ref, plan: Tiled, names: Namer) -> _Panel:
        tiles, named = plan.tiles, {sym for index in source.at for sym in index.syms}
        outer, tiled, reduced = (
            tuple([sym for sym in syms if sym in named]) for syms in (plan.outer, tuple(tiles), plan.reduced)
        )
        shape = (
            *(sym.extent for sym in outer),
            *(-(-sym.extent // tiles[sym]) for sym in tiled),
            *(sym.extent for sym in reduced),
            *(tiles[sym] for sym in tiled),
        )
        name, precision = names(source.buf.name), source.buf.precision
        buf = Buf(name, precision, shape, row_major(shape), Home.ARENA, Access.TEMP)
        return _Panel(source, buf, outer, tiled, reduced)

    def ref(self, tiles: Mapping[Sym, int], numbers: Mapping[Sym, Sym]) -> Ref:
        """The cell of the source; `numbers` are those of tiles."""
        cells = [Affine.of(sym) - sym.lo - Affine.of(numbers[sym]) * tiles[sym] for sym in self.tiled]
        tile = [Affine.of(numbers[sym]) for sym in self.tiled]
        outer, reduced = ([Affine.of(sym) - sym.lo for sym in syms] for syms in (self.outer, self.reduced))
        return Ref(self.buf, (*outer, *tile, *reduced, *cells))

    def copies(self, tiles: Mapping[Sym, int], names: Namer) -> list[Group]:
        """One for all whole tiles; what is left over along a loop has one of its own."""
        return [self.copy(parts, names) for parts in product(*(_parts(sym, tiles[sym]) for sym in self.tiled))]

    def copy(self, parts: tuple[_Part, ...], names: Namer) -> Group:
        def count(like: Sym, many: int) -> Sym:
            return Sym(names(like.name), 0, many - 1)

        outer, reduced = ([count(sym, sym.extent) for sym in syms] for syms in (self.outer, self.reduced))
        numbers = [count(part.sym, part.many) for part in parts]
        cells = [count(part.sym, part.cells) for part in parts]
        values = {
            old: Affine.of(new) + old.lo
            for old, new in zip((*self.outer, *self.reduced), (*outer, *reduced), strict=True)
        }
        tiles = [Affine.of(number) + part.first for number, part in zip(numbers, parts, strict=True)]
        for part, tile, cell in zip(parts, tiles, cells, strict=True):
            values[part.sym] = tile * part.size + cell + part.sym.lo
        source = Ref(self.source.buf, tuple([index.substitute(values) for index in self.source.at]))
        target = Ref(self.buf, (*map(Affine.of, outer), *tiles, *map(Affine.of, (*reduced, *cells))))
        loops = tuple([loop(sym, ()) for sym in (*outer, *numbers, *reduced, *cells)])
        return Group(loops, TRUE, (), (Store(target, Load(source)),))


@dataclass(frozen=True, slots=True)
class _Part:
    """So many tiles along a loop, from the one with the number `first` on, and so many cells of each."""

    sym: Sym
    size: int  # of a tile
    first: int
    many: int
    cells: int


def _parts(sym: Sym, size: int) -> list[_Part]:
    whole, left = divmod(sym.extent, size)
    parts = _Part(sym, size, 0, whole, size), _Part(sym, size, whole, 1, left)
    return [part for part in parts if part.many and part.cells]
