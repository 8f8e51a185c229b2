"""Softmax in one walk over keys: by running maxima and rescaled sums (Milakov, Gimelshein 2018; Dao et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from ocannl.ir.index import Sym
from ocannl.ir.loops import AccessMode, Apply, Buf, MemorySpace, Const, Proc, Stmt, Store
from ocannl.ir.names import Namer
from ocannl.ir.accesses import storage
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.dependences import AccessIndex
from ocannl.opt.analysis.fusion_group import FusionGroup, group_of
from ocannl.opt.analysis.nests import unit_covering_loops, is_full, loads, bound_names
from ocannl.opt.idioms.attention.match_softmax import WeightedSum, Softmax, softmax_at
from ocannl.opt.idioms.attention.online_nest import Running, Source


def online_softmax(proc: Proc, keys: int | None = None, least: int | None = None, longest: int | None = None) -> Proc:
    """Makes one nest of a softmax and of the sums that it weighs. A row goes through its keys block by block, and knows
    the largest score so far: what is summed is rescaled when there is a larger one.

        proc step                                              proc step
          m : f64[2]    arena                                    x : f64[2,4]  in
          x : f64[2,4]  in                                       y : f64[2,3]  out
          e : f64[2,4]  arena                                    v : f64[4,3]  in
          s : f64[2]    arena                                    for i_2 in 0..2:
          y : f64[2,3]  out                                        local top: f64 reg
          v : f64[4,3]  in                                         top = -inf
          for i_2 in 0..2:                                         local total: f64 reg
            local acc: f64 reg                                     total = 0
            acc = -inf                                             local mixed: f64[3] reg
            for t in 0..4:                                         for d_2 in 0..3:
              acc = max(acc, x[i_2, t])                              mixed[d_2] = 0
            m[i_2] = acc                                  ==>      for t_block in 0..2:
          for i_3 in 0..2:                                           local score: f64[2] reg
            for t_2 in 0..4:                                         for t_6 in 0..2:
              e[i_3, t_2] = exp(x[i_3, t_2] - m[i_3])                  score[t_6] = x[i_2, t_6+2*t_block]
          for i_5 in 0..2:                                           local peak: f64 reg
            local acc_2: f64 reg                                     peak = top
            acc_2 = 0                                                for t_5 in 0..2:
            for t_3 in 0..4:                                           peak = max(peak, score[t_5])
              acc_2 += e[i_5, t_3]                                   let base = where(peak == -inf, 0, peak)
            s[i_5] = acc_2                                           let scale = exp(top - base)
          for i_7 in 0..2:                                           top = peak
            for d in 0..3:                                           local power: f64[2] reg
              local acc_3: f64 reg                                   for t_7 in 0..2:
              acc_3 = 0                                                power[t_7] = exp(score[t_7] - base)
              for t_4 in 0..4:                                       if true:
                acc_3 += e[i_7, t_4] / s[i_7] * v[t_4, d]              local acc_4: f64 reg
              y[i_7, d] = acc_3                                        acc_4 = total * scale
                                                                       for t_8 in 0..2:
                                                                         acc_4 += power[t_8]
                                                                       total = acc_4
                                                                     for d_3 in 0..3:
                                                                       local acc_5: f64 reg
                                                                       acc_5 = mixed[d_3] * scale
                                                                       for t_9 in 0..2:
                                                                         acc_5 += power[t_9] * v[t_9+2*t_block, d_3]
                                                                       mixed[d_3] = acc_5
                                                                   total = total + (top - top)
                                                                   for d_4 in 0..3:
                                                                     y[i_2, d_4] = mixed[d_4] / total

    Scores that are products are made where they are needed; blocks in which a row has none, by an affine condition,
    are left out.
    """
    keys = machine.KEY_BLOCK if keys is None else keys
    least = machine.MIN_KEYS if least is None else least
    return _Online(proc, keys, least, machine.MAX_REGISTER_ROW if longest is None else longest).result()


class _Online:
    def __init__(self, proc: Proc, keys: int, least: int, longest: int) -> None:
        self.proc, self.keys, self.least, self.longest = proc, keys, least, longest
        self.names = Namer(bound_names(proc))
        self.stmts: list[Stmt | None] = list(proc.body)
        groups = ((at, group_of(stmt, self.names)) for at, stmt in enumerate(proc.body))
        self.groups = {at: group for at, group in groups if group is not None}
        self.places = AccessIndex(self.stmts)

    def result(self) -> Proc:
        gone: set[Buf] = set()
        for at in list(self.groups):
            if at in self.groups:
                found = softmax_at(at, self.groups[at], self.readers)
                if found is not None:
                    gone |= self.taken(found)
        body = tuple([stmt for stmt in self.stmts if stmt is not None])
        if not gone:
            return self.proc
        return replace(self.proc, body=body, bufs=tuple([buf for buf in self.proc.bufs if buf not in gone]))

    def readers(self, place: int, buf: Buf) -> Iterator[tuple[int, FusionGroup]]:
        """The groups that read what a statement writes to an array."""
        for at in self.places.accessors([buf], place):
            if at in self.groups and self.places.reaching_write(buf, at) == place:
                yield at, self.groups[at]

    def taken(self, found: Softmax) -> set[Buf]:
        """Puts a nest in the place of a softmax, if that is worth it, and says which arrays are gone."""
        extent = found.key.sym.extent
        mixtures = [each for each in found.weighted_sums if extent >= self.least and is_tile(found, each)]
        found = replace(found, mixtures=tuple(mixtures))
        long = extent > self.longest and prod(turn.sym.extent for turn in found.rows) >= machine.MIN_BUSY_ROWS
        if not (mixtures or long):
            return set()
        source = self.source(found)
        members = sorted({*found.positions, *(each.position for each in mixtures), *([source.place] if source else [])})
        places = self.places.copy()
        place = members[0]
        for at in members[1:]:
            met = places.common_position(place, at)
            if met is None:
                return set()
            places.merge(met[1], met[0])
            place = met[0]
        mine = {store.ref.buf for store in found.match.stores}
        kept = frozenset(buf for buf in mine if buf.space is not MemorySpace.ARENA or not places.is_sole_accessor(buf, place))
        for at in members:
            self.stmts[at] = None
            del self.groups[at]
        size = self.keys if mixtures or source else machine.SOFTMAX_BLOCK
        self.stmts[place] = Running(found, source, kept, size, self.names).stmt()
        self.places = places
        return mine - kept | ({source.ref.buf} if source else set())

    def source(self, found: Softmax) -> Source | None:
        """The group that makes the scores for this softmax alone, if it multiplies matrices; what it reads must stay
        while rows are gone through."""
        written = {storage(store.ref.buf) for store in found.match.stores}
        written |= {storage(ref.buf) for each in found.weighted_sums for ref in each.writes}
        for ref in dict.fromkeys(loads(found.match.score)):
            place = self.places.reaching_write(ref.buf, found.positions[0])
            if place not in self.groups or ref.buf.space is not MemorySpace.ARENA or ref.buf.access is not AccessMode.TEMP:
                continue
            if set(self.places.accessors([ref.buf], place)) - set(found.positions):
                continue
            match self.groups[place]:
                case FusionGroup(loops, cond, (each,), (Store(made),)) as group if cond.is_true and made.buf is ref.buf:
                    if not isinstance(each.init, Const) or not all(map(is_full, (*loops, *each.loops))):
                        continue
                    if unit_covering_loops(made, loops) != set(group.syms) or any(storage(r.buf) in written for r in group.reads):
                        continue
                    values = {s: its for mine, its in zip(made.indices, ref.indices, strict=True) if (s := mine.only_sym)}
                    whole = group.substituted(values)
                    if _multiplies(whole, [turn.sym for turn in found.rows], found.key.sym):
                        return Source(place, ref, whole)
        return None


def is_tile(found: Softmax, each: WeightedSum) -> bool:
    """Whether rows share what is mixed, and a few numbers are: matrices can be multiplied for it."""
    if len(each.output_loops) != 1 or each.output_loops[0].sym.extent > machine.MAX_VALUE_WIDTH:
        return False
    if each.reduction.acc.precision is not found.reduction.acc.precision:
        return False
    named = {sym for ref in loads(each.factor) for at in ref.indices for sym in at.syms}
    return each.output_loops[0].sym in named and any(turn.sym not in named for turn in found.rows)


def _multiplies(group: FusionGroup, rows: list[Sym], key: Sym) -> bool:
    """Whether one of two factors knows a row, and the other the key."""
    match group.reductions[0].update.value:
        case Apply(_, (left, right)):
            one, other = ({s for ref in loads(side) for at in ref.indices for s in at.syms} for side in (left, right))
            return any({row, key} & one == {row} and {row, key} & other == {key} for row in rows) or any(
                {row, key} & other == {row} and {row, key} & one == {key} for row in rows
            )
    return False
