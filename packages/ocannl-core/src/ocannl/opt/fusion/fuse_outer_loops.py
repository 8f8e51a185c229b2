"""Loop fusion: fuses the outer loops of producers and consumers, so that intermediate arrays shrink to one row."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import inf, prod

from ocannl.ir.affine import TRUE, Affine, Sym
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import AccessMode, Body, Buf, Expr, For, Load, Local, MemorySpace, Proc, Ref, Stmt, is_full, loop
from ocannl.ir.name_mangling import Namer
from ocannl.ir.stack_size import MAX_ROW_BYTES
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.case_loops import case_loop
from ocannl.opt.analysis.dependences import AccessIndex
from ocannl.opt.analysis.fusion_group import FusionGroup, group_of, is_matmul_like, local_buffer
from ocannl.opt.analysis.nests import bound_names, is_parallel_loop, loads, wrap_in_loops
from ocannl.opt.analysis.substitution import map_statements, substitute_statements
from ocannl.opt.fusion.fused_nest import FusedNest, are_dependent, equal_loops, inner_groups
from ocannl.opt.fusion.row_reductions import fused_row_reduction, row_blocks, with_partial_sums
from ocannl.opt.parallel.split_reductions import choose_part_count
from ocannl.opt.schedule.loop_generation.blocked_summation import nest_levels
from ocannl.opt.schedule.plan.cost_model import best_tile
from ocannl.opt.schedule.plan.register_tiles import tiling_problem
from ocannl.opt.schedule.plan.scalar_plans import scalar_cycles


def fuse_outer_loops(proc: Proc, capabilities: Capabilities, min_bytes_saved: int | None = None) -> Proc:
    """Fuses the outer loops of a consumer with those of its producer, as those of a softmax with those of its maximum.

        proc step                         proc step
          s : f32[4]     arena              x : f32[4,64]  in
          x : f32[4,64]  in                 y : f32[4,64]  out
          y : f32[4,64]  out                for i_2 in 0..4:
          for i_2 in 0..4:                    local s_2: f32
            local acc: f32                    scope:
            acc = 0                             local acc: f32
            for j in 0..64:         ==>         acc = 0
              acc += x[i_2, j]                  for j in 0..64:
            s[i_2] = acc                          acc += x[i_2, j]
          for k in 0..4:                        s_2 = acc
            for n in 0..64:                   for n in 0..64:
              y[k, n] = x[k, n] / s[k]          y[i_2, n] = x[i_2, n] / s_2

    Two groups share the loops along which all dependences between them have distance zero. Fusion that slows register
    tiles down, as in most matrix products, is rejected by the cost model. On CPUs, a reduction over the rows of a fused
    nest, such as the gradient of a gain, joins the nest as partial sums, whose number does not depend on the number of
    threads. A temporary that only the fused nest accesses is contracted to one row on the stack.

    `min_bytes_saved` is the number of bytes that a row reduction must reuse from the nest that it joins.
    """
    if not (capabilities.vector_bytes or capabilities.wants_fusion_groups):
        return proc
    return _OuterLoopFusion(
        proc, capabilities, machine.MIN_BYTES_SAVED if min_bytes_saved is None else min_bytes_saved
    ).result()


class _OuterLoopFusion:
    def __init__(self, proc: Proc, capabilities: Capabilities, min_bytes_saved: int) -> None:
        self.proc, self.capabilities, self.names = proc, capabilities, Namer(bound_names(proc))
        self.min_bytes_saved = min_bytes_saved
        self.stmts: list[Stmt | None] = list(proc.body)
        self.accesses = AccessIndex(self.stmts)
        self.nests: dict[int, FusedNest] = {}
        self.unfused_cache: dict[FusedNest, float] = {}  # cycles before fusion
        for position, stmt in enumerate(proc.body):
            group = group_of(stmt, self.names)
            if group is not None and case_loop(group) is not None and _is_small(group):
                continue  # the arrays are cached, and the cost model cannot see the formulas of the unrolled loop
            if group is not None and all(map(is_full, group.loops)):
                self.nests[position] = FusedNest(group.loops, (replace(group, loops=()),))

    def result(self) -> Proc:
        for position in sorted(self.nests):
            self.try_fuse(position)
        self.undo_hoisting()
        for position in [] if self.capabilities.wants_fusion_groups else sorted(self.nests):
            if len(self.nests[position].members) == 1:
                self.fuse_row_reduction(position)
        local: set[Buf] = set()
        partial_sums: list[Buf] = []
        body: list[Stmt] = []
        for position, stmt in enumerate(self.stmts):
            nest = self.nests.get(position)
            if nest is not None and len(nest.members) > 1:
                built, localized, partial_sum_bufs = self.build_nest(position, nest)
                local |= localized
                partial_sums += partial_sum_bufs
                body += built
            elif stmt is not None:
                body.append(stmt)
        bufs = (*(buf for buf in self.proc.bufs if buf not in local), *partial_sums)
        return replace(self.proc, body=tuple(body), bufs=bufs)

    # ------------------------------------------------------------------------------------------------------- search

    def try_fuse(self, consumer_position: int) -> None:
        """Fuses the nest with the latest producer of its operands that allows it."""
        consumer = self.nests[consumer_position]
        producers = {self.accesses.reaching_write(ref.buf, consumer_position) for ref in consumer.reads}
        for producer in sorted(producers & self.nests.keys(), reverse=True):
            if (merged := self.accesses.common_position(producer, consumer_position)) is None:
                continue
            if (fused_nest := self.fused(self.nests[producer], consumer)) is None:
                continue
            position, absorbed = merged
            self.nests[position] = fused_nest
            del self.nests[absorbed]
            self.stmts[absorbed] = None
            self.accesses.merge(absorbed, position)
            return

    def undo_hoisting(self) -> None:
        """Makes hoisted parallel loops ordinary ones if, after fusion, too few nests are left to share them."""
        if not 0 < sum(stmt is not None and is_parallel_loop(stmt) for stmt in self.stmts) < machine.MIN_SHARING_NESTS:
            return
        for position, nest in self.nests.items():
            self.nests[position] = replace(nest, loops=tuple([replace(loop, parallel_chunk=0) for loop in nest.loops]))
        self.stmts = [replace(stmt, parallel_chunk=0) if isinstance(stmt, For) else stmt for stmt in self.stmts]

    def fuse_row_reduction(self, source: int) -> None:
        """Fuses a reduction over rows into a fused nest that iterates over these rows."""
        nest = self.nests[source]
        group = replace(nest.members[0], loops=nest.loops)
        for position in self.accesses.accessors([ref.buf for ref in nest.reads], source):
            target = self.nests.get(position)
            if target is None or len(target.members) == 1 or (source < position and are_dependent(target, nest)):
                continue
            if any(loop.parallel_chunk for loop in target.loops):
                continue
            if not self.accesses.can_move_next_to(source, position):
                continue
            reduction = fused_row_reduction(
                target.loops,
                tuple(target.reads),
                tuple(target.writes),
                target.row_reductions,
                group,
                self.min_bytes_saved,
            )
            if reduction is not None:
                self.nests[position] = replace(target, row_reductions=(*target.row_reductions, reduction))
                del self.nests[source]
                self.stmts[source] = None
                self.accesses.merge(source, position)
                return

    def fused(self, first: FusedNest, second: FusedNest) -> FusedNest | None:
        """The fused nest, or None if fusion is illegal or the cost model rejects it."""
        pairs = equal_loops(first, second)
        first_loops, second_loops = ({loop.sym: loop for loop in nest.loops} for nest in (first, second))
        shared = {
            second_sym: first_sym
            for first_sym, second_sym in pairs.items()
            if first_sym in first_loops and second_sym in second_loops
        }
        chunked = {loop.sym for nest in (first, second) for loop in nest.loops if loop.parallel_chunk}
        if not chunked <= shared.keys() | set(shared.values()):
            return None
        if not shared or prod(sym.extent for sym in shared) < 2:
            return None
        if len(first.members) > 1 and len(shared) < len(first.loops):
            return None
        if len(second.members) > 1 and len(shared) < len(second.loops):
            return None
        arrays, members = first.arrays | second.arrays, (*first.members, *second.members)
        if len(members) > machine.MAX_FUSED_GROUPS or len(arrays) > machine.MAX_FUSED_STREAMS:
            return None
        values = {second_sym: Affine.of(first_sym) for second_sym, first_sym in shared.items()}
        first_groups = inner_groups(first, set(shared.values()))
        second_groups = [group.substituted(values) for group in inner_groups(second, set(shared))]
        fused_nest = FusedNest(
            tuple([first_loops[sym] for sym in first_loops if sym in shared.values()]), (*first_groups, *second_groups)
        )
        if not all(fused_nest.is_parallel_over(loop.sym) for loop in fused_nest.loops if loop.parallel_chunk):
            return None
        reread = {
            ref.buf for group in fused_nest.members for ref in group.reads if set(shared.values()).isdisjoint(ref.syms)
        }
        reread_bytes = sum(buf.nbytes for buf in reread if buf.nbytes > machine.MAX_REREAD_BYTES_PER_ROW)
        if self.capabilities.wants_fusion_groups:
            longest = max(prod(loop.sym.extent for loop in group.loops) for group in fused_nest.members)
            fits = longest <= machine.MAX_REGISTER_ROW
            communicated = {ref.buf for ref in first.writes} & {ref.buf for ref in (*second.reads, *second.writes)}
            are_vectors = all(
                _is_vector_per_iteration(ref, shared.values())
                for ref in (*fused_nest.writes, *fused_nest.reads)
                if ref.buf in communicated
            )
            if not fits or not are_vectors or reread_bytes or any(map(is_matmul_like, fused_nest.members)):
                return None
            return fused_nest
        unfused = sum(map(self.unfused_cycles, (first, second)))
        limit = (machine.MAX_FUSION_SLOWDOWN * unfused - _traffic_cycles(fused_nest)) / prod(
            sym.extent for sym in shared
        )
        cycles = self.cycles(fused_nest.members, limit) + reread_bytes / machine.MEMORY_BYTES_PER_CYCLE
        return fused_nest if cycles <= limit else None

    def unfused_cycles(self, nest: FusedNest) -> float:
        if nest not in self.unfused_cache:
            self.unfused_cache[nest] = self.cycles(inner_groups(nest, set())) + _traffic_cycles(nest)
        return self.unfused_cache[nest]

    def cycles(self, groups: tuple[FusionGroup, ...], limit: float = inf) -> float:
        """Estimated cycles: exact below `limit`, otherwise some lower bound above `limit`."""
        vectors = scalars = 0.0
        for group in groups:
            problem = tiling_problem(group, self.capabilities)
            tile = best_tile(problem.nest_shape()) if problem is not None else None
            if tile is not None:
                vectors += tile.cycles
            else:
                scalars += scalar_cycles(group)
            if vectors > limit:
                break
        return vectors + max(0.0, scalars - min(vectors, machine.MAX_HIDDEN_SCALAR_OPS))

    # ------------------------------------------------------------------------------------------------------- result

    def build_nest(self, position: int, nest: FusedNest) -> tuple[Body, set[Buf], list[Buf]]:
        """Returns the statements, the arrays that are contracted to one row, and the buffers of partial sums."""
        syms = {loop.sym for loop in nest.loops}
        axes_by_buf: dict[Buf, set[tuple[int, ...]]] = {}  # axes that remain per row, for each access
        stack_bytes = 0
        terms = [ref for reduction in nest.row_reductions for ref in loads(reduction.term(nest.loops))]
        epilogue_bufs = {buf for reduction in nest.row_reductions for buf in reduction.epilogue_buffers}
        for ref in (*nest.writes, *nest.reads, *terms):
            buf = ref.buf
            if buf.access is not AccessMode.TEMP or buf.space is not MemorySpace.ARENA or buf in epilogue_bufs:
                continue
            if not self.accesses.is_sole_accessor(buf, position):
                continue
            axes_by_buf.setdefault(buf, set()).add(
                tuple([axis for axis, index in enumerate(ref.indices) if index.only_sym not in syms])
            )
        contracted: dict[Buf, tuple[Buf, tuple[int, ...]]] = {}
        for buf, (axes, *conflicting_axes) in axes_by_buf.items():
            if conflicting_axes or len(axes) == len(buf.shape):
                continue
            small = local_buffer(self.names(buf.name), buf.precision, tuple([buf.shape[axis] for axis in axes]))
            if stack_bytes + small.nbytes <= MAX_ROW_BYTES:
                stack_bytes += small.nbytes
                contracted[buf] = small, axes

        def cell(ref: Ref) -> Ref:
            if ref.buf not in contracted:
                return ref
            small, axes = contracted[ref.buf]
            return Ref(small, tuple([ref.indices[axis] for axis in axes]))

        def leaf(expr: Expr) -> Expr:
            return Load(cell(expr.ref)) if isinstance(expr, Load) and expr.ref.buf in contracted else expr

        outer_sym = nest.loops[0].sym
        part_count = choose_part_count(outer_sym.extent)
        part = Sym(self.names(f"{outer_sym.name}_part"), 0, part_count - 1)
        inner_sym = Sym(self.names(outer_sym.name), 0, outer_sym.extent // part_count - 1)
        part_loops = (loop(inner_sym, (), nest.loops[0].origin), *nest.loops[1:])
        blocks = row_blocks(nest.row_reductions, part_loops, self.names)
        parts = [
            with_partial_sums(reduction, nest.loops, part, len(blocks.levels), self.names)
            for reduction in nest.row_reductions
        ]
        members = (*(group.stmt() for group in nest.members), *(group.inside for group in parts))
        body = map_statements(members, cell, leaf)
        body = (*(Local(small) for small, _ in contracted.values()), *body)
        if not parts:
            return wrap_in_loops(nest.loops, TRUE, body), set(contracted), []

        def add_block(level: int, block: Body) -> Body:
            return (*(p.clear[level + 1] for p in parts), *block, *(p.add[level] for p in parts))

        existing = {part_loop.sym: part_loop for part_loop in part_loops}
        levels = [[existing.get(sym) or loop(sym, ()) for sym in level] for level in blocks.levels]
        rows = nest_levels(levels, blocks.cond, body, add_block)
        values = {outer_sym: Affine(((inner_sym.extent, part), (1, inner_sym)), outer_sym.lo)}
        rows = substitute_statements(rows, values)
        stmt = loop(part, (*(partial.clear[0] for partial in parts), *rows), nest.loops[0].origin)
        return (stmt, *(partial.after for partial in parts)), set(contracted), [partial.buf for partial in parts]


def _traffic_cycles(row: FusedNest) -> float:
    """Cycles to transfer each array once between memory and core."""
    return sum(buf.nbytes for buf in row.arrays) / machine.MEMORY_BYTES_PER_CYCLE


def _is_vector_per_iteration(ref: Ref, shared: Collection[Sym]) -> bool:
    """Whether at most one axis varies within an iteration of the shared loops, so that registers can hold the cells."""
    varying = [index for index in ref.indices if not index.is_const and index.only_sym not in shared]
    return len(varying) <= 1 and all(index.only_sym is not None for index in varying)


def _is_small(group: FusionGroup) -> bool:
    return prod(sym.extent for sym in group.syms) <= machine.MAX_UNFUSED_CELLS
