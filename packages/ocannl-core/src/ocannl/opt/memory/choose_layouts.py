"""Chooses the order of axes in memory: of every temporary, and of copies of what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, prod

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.index import TRUE, Affine, Sym
from ocannl.ir.loops import AccessMode, Buf, MemorySpace, Let, Load, Proc, Ref, Stmt, Store, loop, row_major
from ocannl.ir.names import Namer
from ocannl.ir.accesses import storage
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.disjoint_sets import DisjointSets
from ocannl.opt.analysis.fusion_group import FusionGroup, group_of
from ocannl.opt.analysis.nests import AccessTable, wrap_in_loops, unit_covering_loops, bound_names
from ocannl.opt.analysis.substitution import replace_buffers
from ocannl.opt.schedule.plan.cost_model import NestShape, Strides, min_cycles
from ocannl.opt.schedule.plan.register_tiles import TilingProblem, tiling_problem

Orders = dict[Buf, Strides]


def choose_layouts(proc: Proc, capabilities: Capabilities) -> Proc:
    """Gives temporaries the order in which the program's groups take least, by the model of plans.

        proc step                                proc step
          x : f32[16,32]  in                       x : f32[16,32]         in
          h : f32[32,16]  arena                    h : f32[32,16]@(1,32)  arena
          y : f32[16,32]  out                      y : f32[16,32]         out
          for i in 0..32:                          for i in 0..32:
            for j in 0..16:              ==>         for j in 0..16:
              h[i, j] = x[j, i] * 2                    h[i, j] = x[j, i] * 2
          for i_2 in 0..16:                        for i_2 in 0..16:
            for j_2 in 0..32:                        for j_2 in 0..32:
              y[i_2, j_2] = h[j_2, i_2] + 1            y[i_2, j_2] = h[j_2, i_2] + 1

    First all arrays that share a loop are tried with its axis last, such as that of the batch, then each by itself.
    What is kept must stay as it is. A sum may read a copy of it, or of what others want in another order; or write one
    from which it is filled.
    """
    if not capabilities.vector_bytes:
        return proc
    search = _Search(proc, capabilities)
    search.run()
    return search.result()


@dataclass(slots=True)
class _Item:
    """A group and where it stands."""

    at: int
    group: FusionGroup
    subject: TilingProblem
    movable: tuple[Buf, ...]  # temporaries whose order may change
    copied: tuple[Buf, ...]  # arrays that a copy might be read instead of
    filled: tuple[Buf, ...]  # or written
    ideal: float  # cycles that it takes at least, whatever the order of any of these


class _Search:
    def __init__(self, proc: Proc, capabilities: Capabilities) -> None:
        self.proc, self.names, table = proc, Namer(bound_names(proc)), AccessTable(proc.body)
        self.capabilities, self.writers = capabilities, table.writers
        views: dict[object, int] = {}
        for buf in proc.bufs:
            views[storage(buf)] = views.get(storage(buf), 0) + 1
        alone = {buf for buf in proc.bufs if views[storage(buf)] == 1 and sum(n > 1 for n in buf.shape) > 1}
        self.orders: Orders = {buf: buf.strides for buf in proc.bufs if buf in alone and buf.access is AccessMode.TEMP}
        self.items: list[_Item] = []
        self.touching: dict[Buf, list[_Item]] = {buf: [] for buf in self.orders}
        for at, stmt in enumerate(proc.body):
            group = group_of(stmt, self.names)
            subject = tiling_problem(group, capabilities) if group is not None else None
            if group is None or subject is None:
                continue
            bufs = dict.fromkeys(ref.buf for ref in (*group.reads, *group.writes))
            movable = tuple([buf for buf in bufs if buf in self.orders])
            summed = [buf for buf in bufs if group.reductions and buf in alone]
            written = {ref.buf for ref in group.writes}
            kept = [buf for buf in summed if buf.space is MemorySpace.GLOBAL or _is_read_often(buf, group)]
            copied = tuple([buf for buf in kept if buf not in written and _is_done(buf, at, table)])
            filled = tuple([buf for buf in summed if buf.space is MemorySpace.GLOBAL and buf in written and _fills(group, buf)])
            ideal = _ideal(subject, {*movable, *copied, *filled})
            item = _Item(at, group, subject, movable, copied, filled, ideal)
            self.items.append(item)
            for buf in movable:
                self.touching[buf].append(item)
        self._copying: dict[tuple[Buf, Strides, Strides], float] = {}
        self._known: dict[tuple[int, tuple[Strides, ...]], tuple[float, Orders]] = {}

    # --------------------------------------------------------------------------------------------------------- the cost

    def cost(self, item: _Item, orders: Orders) -> tuple[float, Orders]:
        """Of a group in cycles, and the copies that it is to read."""
        key = _key(item, orders)
        if key not in self._known:
            self._known[key] = self._costed(item, {buf: orders[buf] for buf in item.movable})
        return self._known[key]

    def _costed(self, item: _Item, mine: Orders) -> tuple[float, Orders]:
        copies: Orders = {}
        price = _cycles(item.subject, mine)
        while True:
            least, better = machine.MAX_LAYOUT_COST_RATIO * price, copies
            for buf in (*item.copied, *item.filled):
                for order in _others(buf, mine) if buf not in copies else ():
                    some = {**copies, buf: order}
                    new = self.with_copies(item, mine, some, least)
                    if new < least:
                        least, better = new, some
            if better is copies:
                return price, copies
            price, copies = least, better

    def with_copies(self, item: _Item, mine: Orders, copies: Orders, limit: float) -> float:
        """Perhaps less where it is not below the limit."""
        price = sum([self.copying(buf, mine.get(buf, buf.strides), order) for buf, order in copies.items()])
        if price + item.ideal >= limit:
            return price + item.ideal
        return price + _cycles(item.subject, {**mine, **copies}, limit - price)

    def copying(self, buf: Buf, own: Strides, order: Strides) -> float:
        key = buf, own, order
        if key not in self._copying:
            self._copying[key] = _copied(buf, own, order, self.capabilities)
        return self._copying[key]

    def least(self, item: _Item, orders: Orders, limit: float = 0) -> float:
        """What the group takes at least, copies or not, if that is below the limit."""
        if _key(item, orders) in self._known:
            return self.cost(item, orders)[0]
        found = [_cycles(item.subject, {buf: orders[buf] for buf in item.movable}, limit)]
        for buf in (*item.copied, *item.filled):
            own = orders.get(buf, buf.strides)
            found += [self.copying(buf, own, order) + item.ideal for order in _others(buf, orders)]
        return min(found)

    def pays(self, items: list[_Item], orders: Orders) -> bool:
        """Whether these take less than with the orders so far."""
        now = [self.cost(item, self.orders)[0] for item in items]
        least = [self.least(item, orders) for item in items]
        limit, price = machine.MAX_LAYOUT_COST_RATIO * sum(now), sum(least)
        for n in sorted(range(len(items)), key=lambda n: least[n] - now[n]):  # what is known least about, first
            item, before = items[n], least[n]
            if price >= limit:
                return False
            others = price - before
            mine = self.least(item, orders, limit - others)
            price = others + (mine if others + mine >= limit else self.cost(item, orders)[0])
        return price < limit

    # ------------------------------------------------------------------------------------------------------- the search

    def run(self) -> None:
        for axes in self.classes():
            new = {**self.orders, **{buf: _last(buf.shape, axis) for buf, axis in axes.items()}}
            if self.pays(self.items, new):
                self.orders = new
        for buf, items in self.touching.items():
            for order in _others(buf, {}):
                new = {**self.orders, buf: order}
                if self.pays(items, new):
                    self.orders = new

    def classes(self) -> Iterator[dict[Buf, int]]:
        """Axes of temporaries that loops tie together, by classes, those with most elements first."""
        ties = DisjointSets()
        for item in self.items:
            for ref in (*item.group.reads, *item.group.writes):
                for axis, place in enumerate(ref.indices):
                    if place.only_sym is not None and ref.buf in self.orders:
                        ties.union((ref.buf, axis), place.only_sym)
        found: dict[object, dict[Buf, int]] = {}
        for buf in self.orders:
            for axis, size in enumerate(buf.shape):
                if size > 1 and (buf, axis) in ties:
                    found.setdefault(ties.find((buf, axis)), {})[buf] = axis
        yield from sorted(found.values(), key=lambda axes: -sum(prod(buf.shape) for buf in axes))

    # ------------------------------------------------------------------------------------------------------- the result

    def result(self) -> Proc:
        proc = self.proc
        new = {
            buf: replace(buf, strides=order) for buf, order in self.orders.items() if order != buf.strides
        }
        copies: dict[tuple[Buf, Strides], Buf] = {}  # that are as what they are of
        body: list[Stmt] = []
        chosen = {item.at: self.cost(item, self.orders)[1] for item in self.items}
        filled = {item.at: item.filled for item in self.items}
        made: list[Buf] = []

        def copied(buf: Buf, order: Strides) -> Buf:
            made.append(Buf(self.names(buf.name), buf.precision, buf.shape, order, MemorySpace.ARENA, AccessMode.TEMP))
            return made[-1]

        for at, stmt in enumerate(proc.body):
            swap: dict[Buf, Buf] = {}
            after: list[Stmt] = []
            some = chosen.get(at, {}).items()
            for buf, order in some:
                if buf in filled[at]:
                    swap[buf] = copied(buf, order)
                    after.append(_copy(swap[buf], buf, self.names))
                    continue
                if (buf, order) not in copies:
                    copies[buf, order] = copied(buf, order)
                    body.append(_copy(buf, copies[buf, order], self.names))
                swap[buf] = copies[buf, order]
            copies = {key: copy for key, copy in copies.items() if at not in self.writers.get(key[0], ())}
            copies |= {(buf, order): swap[buf] for buf, order in some if buf in filled[at]}
            part = replace_buffers(replace(proc, body=(stmt,)), swap)
            body += (*part.body, *after)
        if not new and not made:
            return proc
        whole = replace(proc, body=tuple(body), bufs=(*proc.bufs, *made))
        return replace_buffers(whole, new)


def _key(item: _Item, orders: Orders) -> tuple[int, tuple[Strides, ...]]:
    return item.at, tuple([orders[buf] for buf in item.movable])


def _cycles(subject: TilingProblem, orders: Orders, limit: float = inf) -> float:
    return min_cycles(subject.nest_shape(orders), limit)


def _ideal(subject: TilingProblem, bufs: set[Buf]) -> float:
    """Cycles that it takes at least, whatever the order of these."""
    return machine.BOUND_SLACK * min_cycles(subject.nest_shape(without=bufs))


def _last(shape: tuple[int, ...], axis: int) -> Strides:
    """The strides with this axis last in memory, and the others as they are."""
    order = [n for n in range(len(shape)) if n != axis] + [axis]
    strides = dict(zip(order, row_major(tuple([shape[n] for n in order])), strict=True))
    return tuple([strides[n] for n in range(len(order))])


def _copied(buf: Buf, own: Strides, order: Strides, capabilities: Capabilities) -> float:
    """What it takes to copy the array from its own order into this one, or back."""
    lanes = capabilities.vector_bytes // max(4, buf.precision.nbytes)
    free = (True,) * len(buf.shape)
    shape = NestShape(buf.shape, (), free, free, (own,), (), (order,), 1, 0, lanes, capabilities.vector_registers)
    far = machine.FAR_ELEMENT_CYCLES * prod(buf.shape) if buf.nbytes > machine.MAX_CHEAP_COPY_BYTES else 0
    return far + min_cycles(shape)


def _terms(group: FusionGroup) -> int:
    """Of the sums of a group."""
    each = [prod([sym.extent for sym in found.syms]) for found in group.reductions]
    return prod([sym.extent for sym in group.syms]) * sum(each)


def _is_read_often(buf: Buf, group: FusionGroup) -> bool:
    return _terms(group) >= machine.MIN_TERMS_PER_COPIED_CELL * prod(buf.shape)


def _is_done(buf: Buf, at: int, table: AccessTable) -> bool:
    """Whether nothing is written to the array from where it is read first to this place."""
    first, *_ = table.readers[buf]
    return not any(first <= place < at for place in table.writers.get(buf, ()))


def _fills(group: FusionGroup, buf: Buf) -> bool:
    """Whether it writes every cell, once, and reads none."""
    writes = [stmt for stmt in group.epilogue if not isinstance(stmt, Let) and stmt.ref.buf is buf]
    if len(writes) > 1 or not group.cond.is_true or any(ref.buf is buf for ref in group.reads):
        return False
    return isinstance(writes[0], Store) and unit_covering_loops(writes[0].ref, group.loops) is not None


def _others(buf: Buf, orders: Orders) -> list[Strides]:
    """Other orders than the one that the array has."""
    own = orders.get(buf, buf.strides)
    return [order for order in _orders(buf.shape) if order != own]


@lru_cache(maxsize=1 << 10)
def _orders(shape: tuple[int, ...]) -> list[Strides]:
    """Those with another axis last, each."""
    return list(dict.fromkeys(_last(shape, axis) for axis, size in enumerate(shape) if size > 1))


def _copy(source: Buf, copy: Buf, names: Namer) -> Stmt:
    syms = [Sym(names("i"), 0, size - 1) for size in source.shape]
    at = tuple(map(Affine.of, syms))
    (nest,) = wrap_in_loops([loop(sym, ()) for sym in syms], TRUE, (Store(Ref(copy, at), Load(Ref(source, at))),))
    return nest
