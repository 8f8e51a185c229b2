"""Lets groups share outer loops, so that what they hand to each other is no longer than a row."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import inf, prod

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.index import TRUE, Affine, Sym
from ocannl.ir.loops import AccessMode, Body, Buf, Expr, For, MemorySpace, Load, Local, Proc, Ref, Stmt, loop
from ocannl.ir.names import Namer
from ocannl.ir.stack import MAX_ROW_BYTES
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.dependences import AccessIndex
from ocannl.opt.analysis.fusion_group import FusionGroup, group_of, is_matmul_like, local_buffer
from ocannl.opt.analysis.nests import wrap_in_loops, is_parallel_loop, is_full, loads, bound_names
from ocannl.opt.analysis.substitution import map_statements, substitute_statements
from ocannl.opt.fusion.fuse_row_reductions import carried, in_parts
from ocannl.opt.fusion.loop_dependences import Row, are_dependent, equal_loops, within
from ocannl.opt.parallel.split_reductions import parts_of
from ocannl.opt.schedule.plan.cost_model import best_tile
from ocannl.opt.schedule.plan.register_tiles import tiling_problem


def fuse_outer_loops(proc: Proc, capabilities: Capabilities, far_bytes: int | None = None) -> Proc:
    """Puts a group under the outer loops of another that it follows on, as a softmax on its maximum.

        proc step                           proc step
          s : f32[4]     arena                x : f32[4,64]  in
          x : f32[4,64]  in                   y : f32[4,64]  out
          y : f32[4,64]  out                  for i_2 in 0..4:
          for i_2 in 0..4:                      local s_2: f32 reg
            local acc: f32 reg                  if true:
            acc = 0                               local acc: f32 reg
            for j in 0..64:         ==>           acc = 0
              acc += x[i_2, j]                    for j in 0..64:
            s[i_2] = acc                            acc += x[i_2, j]
          for k in 0..4:                          s_2 = acc
            for n in 0..64:                     for n in 0..64:
              y[k, n] = x[k, n] / s[k]            y[i_2, n] = x[i_2, n] / s_2

    The loops that are shared are those that every cell they have in common tells. A group whose tiles need them for
    themselves, such as most products of matrices, stays alone. Where threads share the rows, a sum over the very rows
    that others go through, such as the gradient of a gain, is taken along in parts, which are the same whatever the
    number of threads.
    """
    if not (capabilities.vector_bytes or capabilities.wants_fusion_groups):
        return proc
    return _Sharing(proc, capabilities, machine.MIN_BYTES_SAVED if far_bytes is None else far_bytes).result()


class _Sharing:
    def __init__(self, proc: Proc, capabilities: Capabilities, far_bytes: int) -> None:
        self.proc, self.capabilities, self.names = proc, capabilities, Namer(bound_names(proc))
        self.far_bytes = far_bytes
        self.stmts: list[Stmt | None] = list(proc.body)
        self.places = AccessIndex(self.stmts)
        self.rows: dict[int, Row] = {}
        self.alone: dict[Row, float] = {}  # cycles of rows as they are
        for at, stmt in enumerate(proc.body):
            group = group_of(stmt, self.names)
            if group is not None and group.cond.is_true and all(map(is_full, group.loops)):
                self.rows[at] = Row(group.loops, (replace(group, loops=()),))

    def result(self) -> Proc:
        for at in sorted(self.rows):
            self.attach(at)
        self.give_up()
        for at in [] if self.capabilities.wants_fusion_groups else sorted(self.rows):
            if len(self.rows[at].members) == 1:
                self.carry(at)
        local: set[Buf] = set()
        parts: list[Buf] = []
        body: list[Stmt] = []
        for at, stmt in enumerate(self.stmts):
            row = self.rows.get(at)
            if row is not None and len(row.members) > 1:
                built, mine, more = self.built(at, row)
                local |= mine
                parts += more
                body += built
            elif stmt is not None:
                body.append(stmt)
        bufs = (*(buf for buf in self.proc.bufs if buf not in local), *parts)
        return replace(self.proc, body=tuple(body), bufs=bufs)

    # ------------------------------------------------------------------------------------------------------- the search

    def attach(self, at: int) -> None:
        row = self.rows[at]
        makers = {self.places.reaching_write(ref.buf, at) for ref in row.reads}
        for maker in sorted(makers & self.rows.keys(), reverse=True):
            if (met := self.places.common_position(maker, at)) is None:
                continue
            if (whole := self.together(self.rows[maker], row)) is None:
                continue
            place, gone = met
            self.rows[place] = whole
            del self.rows[gone]
            self.stmts[gone] = None
            self.places.merge(gone, place)
            return

    def give_up(self) -> None:
        """Loops that `hoist_parallel_loop` has put outside are as any others where rows have left hardly any to share them."""
        if not 0 < sum(stmt is not None and is_parallel_loop(stmt) for stmt in self.stmts) < machine.MIN_SHARING_NESTS:
            return
        for at, row in self.rows.items():
            self.rows[at] = replace(row, loops=tuple([replace(loop, parallel_chunk=0) for loop in row.loops]))
        self.stmts = [replace(stmt, parallel_chunk=0) if isinstance(stmt, For) else stmt for stmt in self.stmts]

    def carry(self, at: int) -> None:
        """Has a sum over rows taken along by a nest that goes through them."""
        row = self.rows[at]
        group = replace(row.members[0], loops=row.loops)
        for place in self.places.accessors([ref.buf for ref in row.reads], at):
            other = self.rows.get(place)
            if other is None or len(other.members) == 1 or (at < place and are_dependent(other, row)):
                continue
            if any(loop.parallel_chunk for loop in other.loops):
                continue
            if not self.places.can_move_next_to(at, place):
                continue
            found = carried(other.loops, tuple(other.reads), tuple(other.writes), other.sums, group, self.far_bytes)
            if found is not None:
                self.rows[place] = replace(other, sums=(*other.sums, found))
                del self.rows[at]
                self.stmts[at] = None
                self.places.merge(at, place)
                return

    def together(self, first: Row, then: Row) -> Row | None:
        pairs = equal_loops(first, then)
        one, other = ({loop.sym: loop for loop in row.loops} for row in (first, then))
        shared = {its: mine for mine, its in pairs.items() if mine in one and its in other}
        claimed = {loop.sym for row in (first, then) for loop in row.loops if loop.parallel_chunk}
        if not claimed <= shared.keys() | set(shared.values()):
            return None
        if not shared or prod(sym.extent for sym in shared) < 2:
            return None
        if len(first.members) > 1 and len(shared) < len(first.loops):
            return None
        if len(then.members) > 1 and len(shared) < len(then.loops):
            return None
        values = {its: Affine.of(mine) for its, mine in shared.items()}
        begin = within(first, set(shared.values()))
        end = [each.substituted(values) for each in within(then, set(shared))]
        whole = Row(tuple([one[sym] for sym in one if sym in shared.values()]), (*begin, *end))
        if not all(whole.are_independent(loop.sym) for loop in whole.loops if loop.parallel_chunk):
            return None
        arrays = {ref.buf for ref in (*whole.reads, *whole.writes)}
        if len(whole.members) > machine.MAX_FUSED_GROUPS or len(arrays) > machine.MAX_FUSED_STREAMS:
            return None
        again = {ref.buf for each in whole.members for ref in each.reads if not _mentions(ref, set(shared.values()))}
        far = sum(buf.nbytes for buf in again if buf.nbytes > machine.MAX_REREAD_BYTES_PER_ROW)
        if self.capabilities.wants_fusion_groups:
            longest = max(prod(loop.sym.extent for loop in each.loops) for each in whole.members)
            fits = longest <= machine.MAX_REGISTER_ROW
            handed = {ref.buf for ref in first.writes} & {ref.buf for ref in (*then.reads, *then.writes)}
            lines = all(_is_line(ref, shared.values()) for ref in (*whole.writes, *whole.reads) if ref.buf in handed)
            return whole if fits and lines and not far and not any(map(is_matmul_like, whole.members)) else None
        before = sum(map(self.before, (first, then)))
        limit = (machine.MAX_FUSION_SLOWDOWN * before - _traffic(whole)) / prod(s.extent for s in shared)
        cycles = self.cycles(whole.members, limit) + far / machine.MEMORY_BYTES_PER_CYCLE
        return whole if cycles <= limit else None

    def before(self, row: Row) -> float:
        if row not in self.alone:
            self.alone[row] = self.cycles(within(row, set())) + _traffic(row)
        return self.alone[row]

    def cycles(self, groups: tuple[FusionGroup, ...], limit: float = inf) -> float:
        """More than the limit, but perhaps less than it takes, where it takes more than that."""
        total = 0.0
        for group in groups:
            subject = tiling_problem(group, self.capabilities)
            tile = best_tile(subject.nest_shape()) if subject is not None else None
            total += tile.cycles if tile is not None else prod(loop.sym.extent for loop in group.loops)
            if total > limit:
                break
        return total

    # ------------------------------------------------------------------------------------------------------- the result

    def built(self, at: int, row: Row) -> tuple[Body, set[Buf], list[Buf]]:
        """The statements, the arrays of which a row of their own is enough, and those of parts of sums."""
        syms = {loop.sym for loop in row.loops}
        own: dict[Buf, set[tuple[int, ...]]] = {}  # the axes that a row of it has, in each place
        taken = 0
        terms = [ref for each in row.sums for ref in loads(each.term(row.loops))]
        late = {buf for each in row.sums for buf in each.late}
        for ref in (*row.writes, *row.reads, *terms):
            buf = ref.buf
            if buf.access is not AccessMode.TEMP or buf.space is not MemorySpace.ARENA or buf in late:
                continue
            if not self.places.is_sole_accessor(buf, at):
                continue
            own.setdefault(buf, set()).add(tuple([n for n, place in enumerate(ref.indices) if place.only_sym not in syms]))
        mine: dict[Buf, tuple[Buf, tuple[int, ...]]] = {}
        for buf, (axes, *others) in own.items():
            if others or len(axes) == len(buf.shape):
                continue
            small = local_buffer(self.names(buf.name), buf.precision, tuple([buf.shape[n] for n in axes]))
            if taken + small.nbytes <= MAX_ROW_BYTES:
                taken += small.nbytes
                mine[buf] = small, axes

        def cell(ref: Ref) -> Ref:
            if ref.buf not in mine:
                return ref
            small, axes = mine[ref.buf]
            return Ref(small, tuple([ref.indices[n] for n in axes]))

        def leaf(expr: Expr) -> Expr:
            return Load(cell(expr.ref)) if isinstance(expr, Load) and expr.ref.buf in mine else expr

        first = row.loops[0].sym
        many = parts_of(first.extent)
        part = Sym(self.names(f"{first.name}_part"), 0, many - 1)
        turn = Sym(self.names(first.name), 0, first.extent // many - 1)
        parts = [in_parts(each, row.loops, part, self.names) for each in row.sums]
        members = (*(each.stmt() for each in row.members), *(each.inside for each in parts))
        body = map_statements(members, cell, leaf)
        (stmt,) = wrap_in_loops(row.loops, TRUE, (*(Local(small) for small, _ in mine.values()), *body))
        if parts:
            assert isinstance(stmt, For)
            value = {first: Affine(((turn.extent, part), (1, turn)), first.lo)}
            inner = loop(turn, substitute_statements(stmt.body, value), stmt.origin)
            stmt = loop(part, (*(each.before for each in parts), inner), stmt.origin)
        return (stmt, *(each.after for each in parts)), set(mine), [each.buf for each in parts]


def _traffic(row: Row) -> float:
    """Cycles until everything has come or gone once."""
    return sum(buf.nbytes for buf in {ref.buf for ref in (*row.reads, *row.writes)}) / machine.MEMORY_BYTES_PER_CYCLE


def _is_line(ref: Ref, shared: Collection[Sym]) -> bool:
    """Whether the cells lie along one loop, if any, for each iteration of the shared ones: registers hold such rows."""
    own = [at for at in ref.indices if not at.is_const and at.only_sym not in shared]
    return len(own) <= 1 and all(at.only_sym is not None for at in own)


def _mentions(ref: Ref, syms: set[Sym]) -> bool:
    return any(sym in syms for place in ref.indices for sym in place.syms)
