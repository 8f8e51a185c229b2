"""Scheduling: chooses a plan for every fusion group and builds the loops of the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import BindIndex, Body, Buf, For, If, Local, MemorySpace, Mode, Proc, Stmt
from ocannl.ir.name_mangling import Namer
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import FusionGroup, group_of
from ocannl.opt.analysis.nests import as_statement, bound_names, is_parallel_loop
from ocannl.opt.analysis.weights import weight_arrays
from ocannl.opt.schedule.continued_sums import separate_continued_sum
from ocannl.opt.schedule.group_reuse import GroupReuse
from ocannl.opt.schedule.interleaved_stores import unroll_interleaved_stores
from ocannl.opt.schedule.loop_generation import build_loops, pack_operands
from ocannl.opt.schedule.loop_generation.packing import NO_SOURCES
from ocannl.opt.schedule.plan import Plan, TilePlan, candidate_plans, model_plan
from ocannl.opt.schedule.plan.fallback_plans import fallback_plan
from ocannl.opt.schedule.plan.packing import with_packed_weights

PlanChoices = Mapping[int, tuple[int, ...]]
"""For statements of a program, by position: the index into `candidate_plans` of each group; 0 is the model's plan."""
MODEL_CHOICES: PlanChoices = MappingProxyType({})
GroupPlanner = Callable[[FusionGroup, bool], Plan]
"""Returns the plan of a group; the flag is set if its outermost loop may run on several threads."""
LoopBuilder = Callable[[FusionGroup, Plan, Namer], Stmt]
"""Builds the loops of a group from its plan, with fresh names."""


def schedule(
    proc: Proc,
    capabilities: Capabilities,
    choices: PlanChoices = MODEL_CHOICES,
    weight_sources: Mapping[Buf, Buf] | None = None,
) -> Proc:
    """Replaces each group by the loops that `build_loops` generates from its plan; here for a target without vectors:

        proc step                         proc step
          w : f32[5,7]  in                  w : f32[5,7]  in
          y : f32[5]    inout               y : f32[5]    inout
          for i in 0..5:                    for i in 0..5:
            for j in 0..7:        ==>         local acc: f32 = 0
              y[i] += w[i, j]                 for j in 0..7:
                                                acc += w[i, j]
                                              y[i] = y[i] + acc

    With `weight_sources`, packing weights costs nothing; an array in it is packed from its source. The order of
    summation depends on the program and the target only, not on `choices` or `weight_sources`.
    """

    weights = set() if weight_sources is None else weight_arrays(proc)
    reuse = GroupReuse(lambda group, is_parallel: model_plan(group, capabilities, is_parallel))

    def planner_at(position: int) -> GroupPlanner:
        numbers = iter(choices.get(position, ()))  # exhausted before packing copies, which use the model's plan

        def choose(group: FusionGroup, is_parallel: bool) -> Plan:
            number = next(numbers, 0)
            if number:
                return candidate_plans(group, capabilities, is_parallel)[number]
            plan = reuse.plan(group, is_parallel)
            if weights and isinstance(plan, TilePlan):
                return with_packed_weights(group, plan, capabilities.cpu, weights)
            return plan

        return choose

    return _schedule(proc, planner_at, reuse.loops, weight_sources or NO_SOURCES)


def schedule_with(proc: Proc, choose: GroupPlanner) -> Proc:
    """Schedules every group with the plan returned by `choose`."""
    return _schedule(proc, lambda position: choose, build_loops)


def schedule_simply(proc: Proc, capabilities: Capabilities) -> Proc:
    """The simple form of `schedule`, which shares neither the cost model nor packing and blocking with it."""
    return schedule_with(proc, lambda group, is_parallel: fallback_plan(group, capabilities))


def schedulable_groups(stmt: Stmt, names: Namer) -> Iterator[tuple[FusionGroup, bool]]:
    """Yields the groups of a statement in the order in which `schedule` chooses plans, with the planner's flag."""
    group = _group_of_statement(stmt, names)
    if group is not None:
        yield group, True
    else:
        for inner_group in _nested_groups(stmt, names):
            yield inner_group, False


def schedulable_group(stmt: Stmt, names: Namer) -> FusionGroup | None:
    """Returns the group that `schedule` chooses a plan for; None if the statement is no group."""
    group = group_of(stmt, names)
    return None if group is None else unroll_interleaved_stores(separate_continued_sum(group), names)


def _nested_groups(stmt: Stmt, names: Namer) -> Iterator[FusionGroup]:
    for child in _inner_statements(stmt):
        group = schedulable_group(child, names)
        if group is not None:
            yield group
        else:
            yield from _nested_groups(child, names)


def _inner_statements(stmt: Stmt) -> Body:
    match stmt:
        case For(mode=Mode.TENSORIZED):
            return ()
        case If(_, on_true, on_false):
            return (*on_true, *on_false)
        case For(body=body) | BindIndex(body=body):
            return body
        case _:
            return ()


def _schedule(
    proc: Proc, planner_at: Callable[[int], GroupPlanner], build: LoopBuilder, sources: Mapping[Buf, Buf] = NO_SOURCES
) -> Proc:
    """Schedules the groups of each statement with the planner for its position. Operands are packed from `sources`
    instead of copies of them."""
    names = Namer(bound_names(proc))
    body: list[Stmt] = []
    bufs: list[Buf] = []
    for position, stmt in enumerate(proc.body):
        choose = planner_at(position)
        nested = _NestedGroups(choose, build, names)
        group = _group_of_statement(stmt, names)
        plan = choose(group, True) if group is not None else None
        if group is None or plan is None:
            body.append(nested.schedule_children(stmt))
        elif not isinstance(plan, TilePlan) or not plan.needs_buffers:
            body.append(build(group, plan, names))
        else:
            packed = pack_operands(group, plan, names, sources=sources)
            bufs += packed.bufs
            body += [build(copy, choose(copy, False), names) for copy in packed.copies]
            body.append(as_statement(packed.body))
    return replace(proc, body=tuple(body), bufs=(*proc.bufs, *bufs))


def _group_of_statement(stmt: Stmt, names: Namer) -> FusionGroup | None:
    """Returns the group that the statement is; None for hoisted parallel loops, which are not rescheduled."""
    return None if is_parallel_loop(stmt) else schedulable_group(stmt, names)


@dataclass(frozen=True, slots=True)
class _NestedGroups:
    """Schedules groups inside of loops that threads may share."""

    choose: GroupPlanner
    build: LoopBuilder
    names: Namer

    def schedule(self, stmt: Stmt) -> Stmt:
        group = schedulable_group(stmt, self.names)
        return self.schedule_children(stmt) if group is None else self.loops(group, self.choose(group, False))

    def schedule_children(self, stmt: Stmt) -> Stmt:
        match stmt:
            case For(mode=Mode.TENSORIZED):
                return stmt
            case For(body=body) | BindIndex(body=body):
                return replace(stmt, body=tuple(map(self.schedule, body)))
            case If(cond, on_true, on_false):
                return If(cond, tuple(map(self.schedule, on_true)), tuple(map(self.schedule, on_false)))
            case _:
                return stmt

    def loops(self, group: FusionGroup, plan: Plan) -> Stmt:
        """Builds a group. Partial sums that its result cannot hold are local to a thread; if they are too large for the
        stack, the group is built without cache blocks."""
        if not isinstance(plan, TilePlan) or not plan.needs_buffers:
            return self.build(group, plan, self.names)
        packed = pack_operands(group, replace(plan, packed_operands=()), self.names, MemorySpace.LOCAL)
        if sum(buf.nbytes for buf in packed.bufs) > machine.MAX_LOCAL_SUMS_BYTES:
            return self.build(group, replace(plan, packed_operands=(), panels=(), k_block=0), self.names)
        return as_statement((*map(Local, packed.bufs), *packed.body))
