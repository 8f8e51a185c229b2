"""Mutation tests: defects injected into fusion, plans and tiles, each of which random programs must detect."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from loop_programs.race_detector import Claims
from loop_programs.random_chains import Chain, chain
from loop_programs.random_groups import GroupSample, group, plain_plan, tiled_plan
from loop_programs.random_schedules import drawn, sample

from ocannl.base.errors import VerifyError
from ocannl.ir.affine import TRUE, Affine, Bound, Cond
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import For, Load, Mode, Proc, Ref, When
from ocannl.ir.name_mangling import Namer
from ocannl.ir.tnode import TNode
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis import dependences, loop_distribution, nests
from ocannl.opt.analysis import fusion_group as group_module
from ocannl.opt.analysis.nests import bound_names
from ocannl.opt.analysis.substitution import map_statements
from ocannl.opt.fusion import fuse_epilogues, fuse_outer_loops, fuse_parallel_loops
from ocannl.opt.fusion.hoist_parallel_loop import hoist_parallel_loop
from ocannl.opt.idioms import scatter_to_gather
from ocannl.opt.memory import allocate_memory, choose_layouts, pad_rows
from ocannl.opt.parallel import insert_polls, parallelize
from ocannl.opt.pipeline import optimize, passes
from ocannl.opt.schedule.loop_generation import build_loops, cell_emission, scalar_loops, tile_region, tiled_loops
from ocannl.opt.schedule.plan import model_plan
from ocannl.testing.evaluate import evaluate
from ocannl.testing.random_programs import Program, difference, generate

Patch = pytest.MonkeyPatch
Arrays = dict[TNode, Any]
TRIES = 200
VECTORS = [Capabilities(vector_bytes=size) for size in (16, 32)]


# ------------------------------------------------------------------------------------------------------- the programs


@cache
def planned(seed: int) -> tuple[GroupSample, Proc, Arrays]:
    program = group(Random(seed))
    proc = program.proc(program.group.stmt())
    return program, proc, interpret(proc, program.arrays)


@cache
def chained(seed: int, statements: int) -> tuple[Chain, Arrays]:
    program = chain(Random(seed), statements)
    return program, evaluate(program.code, program.arrays, {}, {})


@cache
def computed(seed: int) -> tuple[Program, Arrays]:
    program = generate(Random(seed), 4)
    return program, evaluate(program.code, program.arrays, program.symbols, program.merged)


def a_group_is_wrong(seed: int) -> bool:
    program, before, wanted = planned(seed)
    random = Random(seed)
    group, target = program.group, VECTORS[seed % 2]
    plans = [model_plan(group, target), plain_plan(random, group), tiled_plan(random, group)]
    for plan in plans:
        if plan is not None:
            proc = program.proc(build_loops(group, plan, Namer(bound_names(before))))
            verify(proc, "optimized")
            got = interpret(proc, program.arrays)
            if any(not np.array_equal(got[node], array) for node, array in wanted.items()):
                return True
    return False


def a_chain_is_wrong(seed: int, statements: int = 12, without: frozenset[str] = frozenset({"allocate_memory"})) -> bool:
    program, wanted = chained(seed, statements)
    proc = optimize(lower(program.code, "step"), program.requested, VECTORS[seed % 2], without=without)
    verify(proc, "optimized")
    got = interpret(proc, program.arrays)
    return any(not np.array_equal(array, wanted.get(node, program.arrays[node])) for node, array in got.items())


def a_long_chain_is_wrong(seed: int) -> bool:
    return a_chain_is_wrong(seed, 40, frozenset({"allocate_memory", "fuse_outer_loops"}))


def a_program_is_wrong(seed: int) -> bool:
    program, wanted = computed(seed)
    proc = optimize(lower(program.code, "step"), {}, VECTORS[seed % 2])
    got = interpret(proc, program.arrays, {s: program.symbols[s] for s in proc.syms}, program.merged)
    return bool(difference(wanted, got, program.tolerance))


def a_schedule_is_wrong(seed: int) -> bool:
    """Checks results, and observes races between threads instead of proving their absence."""
    random = Random(seed)
    program, keep_reasons = sample(random)
    proc = drawn(random, lower(program.code, "step"), keep_reasons, VECTORS[0]).proc
    symbols = {sym: program.symbols[sym] for sym in proc.syms}
    claims = Claims(seed)
    got = interpret(proc, program.arrays, symbols, program.merged, claims.watch, claims)
    want = evaluate(program.code, program.arrays, program.symbols, program.merged)
    return bool(claims.races or difference(want, got, program.tolerance))


def a_shared_loop_is_wrong(seed: int) -> bool:
    program, wanted = chained(seed, 12)
    overrides = {
        "hoist_parallel_loop": lambda proc: hoist_parallel_loop(proc, VECTORS[0], 2, 0, 1e9),
        "pad_rows": lambda proc: pad_rows.pad_rows(proc, 8),
    }
    proc = lower(program.code, "step")
    for step in passes(program.requested, VECTORS[0]):
        if step.name not in ("inline_producers", "fuse_epilogues", "fuse_outer_loops"):
            proc = overrides.get(step.name, step.run)(proc)
    claims = Claims(seed)
    got = interpret(proc, program.arrays, {}, {}, claims.watch, claims)
    is_wrong = any(not np.array_equal(array, wanted.get(node, program.arrays[node])) for node, array in got.items())
    return bool(claims.races or is_wrong)


Judge = Callable[[int], bool]
BUGS: dict[str, tuple[Judge, Callable[[Patch], None]]] = {}


def bug(judge: Judge) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def added(seed: Callable[[Patch], None]) -> Callable[[Patch], None]:
        BUGS[seed.__name__] = judge, seed
        return seed

    return added


def wrap(patch: Patch, owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
    """Replaces a function by `wrapper(original, *args)`."""
    original = getattr(owner, name)
    patch.setattr(owner, name, lambda *args, **kw: wrapper(original, *args, **kw))


# ------------------------------------------------------------------------------------------------------------- fusion


@bug(a_chain_is_wrong)
def groups_move_past_anything(patch: Patch) -> None:
    patch.setattr(dependences.AccessIndex, "can_move_next_to", lambda self, at, to: True)


@bug(a_chain_is_wrong)
def groups_move_past_readers(patch: Patch) -> None:
    def can_move_next_to(self: Any, at: int, to: int) -> bool:
        first, last = min(at, to), max(at, to)
        keys = self._read[at] | self._written[at]
        return not any(dependences.any_between(self._writers.get(key, ()), first, last) for key in keys)

    patch.setattr(dependences.AccessIndex, "can_move_next_to", can_move_next_to)


@bug(a_chain_is_wrong)
def groups_move_past_writers_of_their_operands(patch: Patch) -> None:
    def can_move_next_to(self: Any, at: int, to: int) -> bool:
        first, last = min(at, to), max(at, to)
        positions = [t.get(key, ()) for key in self._written[at] for t in (self._writers, self._readers)]
        return not any(dependences.any_between(p, first, last) for p in positions)

    patch.setattr(dependences.AccessIndex, "can_move_next_to", can_move_next_to)


@bug(a_chain_is_wrong)
def dependences_between_iterations_are_ignored(patch: Patch) -> None:
    patch.setattr(fuse_epilogues, "_has_only_zero_distance_dependences", lambda first, second: True)


@bug(a_chain_is_wrong)
def loops_are_matched_in_their_order(patch: Patch) -> None:
    def matched(first: Any, second: Any) -> Any:
        if [s.extent for s in first.syms] != [s.extent for s in second.syms]:
            return None
        return {old: Affine.of(new) for old, new in zip(second.syms, first.syms, strict=True)}

    patch.setattr(fuse_epilogues, "_match_loops", matched)
    patch.setattr(fuse_epilogues, "_has_only_zero_distance_dependences", lambda first, second: True)


@bug(a_chain_is_wrong)
def a_stored_value_is_never_invalidated(patch: Patch) -> None:
    class Sticky(dict):  # type: ignore[type-arg]
        def pop(self, *args: Any) -> None:
            pass

    wrap(patch, fuse_epilogues, "_forward_stores", lambda f, epilogue, values: f(epilogue, Sticky(values)))


@bug(a_chain_is_wrong)
def values_with_further_readers_are_not_stored(patch: Patch) -> None:
    patch.setattr(dependences.AccessIndex, "is_read", lambda self, buf: False)


@bug(a_chain_is_wrong)
def reads_of_initial_values_are_ignored(patch: Patch) -> None:
    def init(f: Any, self: Any, stmts: list[Any]) -> None:
        f(self, stmts)
        for read in self._read.values():
            read.clear()
        self._readers.clear()

    wrap(patch, dependences.AccessIndex, "__init__", init)


@bug(a_chain_is_wrong)
def initial_stores_move_past_readers(patch: Patch) -> None:
    patch.setattr(nests.AccessTable, "read_between", lambda self, buf, first, last: False)


@bug(a_chain_is_wrong)
def initial_stores_move_past_writers(patch: Patch) -> None:
    patch.setattr(nests.AccessTable, "written_between", lambda self, buf, first, last: False)


@bug(a_chain_is_wrong)
def guards_of_groups_are_ignored(patch: Patch) -> None:
    original = fuse_epilogues.group_of_nest

    def unguarded(*args: Any) -> Any:
        result = original(*args)
        return None if result is None else replace(result, cond=TRUE)

    patch.setattr(fuse_epilogues, "group_of_nest", unguarded)


# -------------------------------------------------------------------------------------------------------------- plans


@bug(a_group_is_wrong)
def a_cell_of_the_last_tile_is_lost(patch: Patch) -> None:
    def tile_loop(f: Any, self: Any, sym: Any, size: int, tile_at: Any) -> Any:
        return f(self, sym, size, lambda first, count: tile_at(first, count if count == size else max(1, count - 1)))

    wrap(patch, tiled_loops._TileBuilder, "tile_loop", tile_loop)


@bug(a_group_is_wrong)
def the_last_tile_begins_at_the_first_cell(patch: Patch) -> None:
    def tile_loop(f: Any, self: Any, sym: Any, size: int, tile_at: Any) -> Any:
        return f(self, sym, size, lambda first, count: tile_at(first if count == size else Affine((), sym.lo), count))

    wrap(patch, tiled_loops._TileBuilder, "tile_loop", tile_loop)


@bug(a_group_is_wrong)
def the_last_vector_begins_at_the_first(patch: Patch) -> None:
    wrap(patch, tiled_loops, "vector_strips", lambda f, first, count, lanes: tuple(
        replace(strip, first=first) if strip.lanes < lanes else strip for strip in f(first, count, lanes)))  # fmt: skip


@bug(a_group_is_wrong)
def the_last_vector_has_the_offset_of_the_first(patch: Patch) -> None:
    wrap(patch, tiled_loops, "vector_strips", lambda f, *args: tuple(replace(strip, offset=0) for strip in f(*args)))


@bug(a_group_is_wrong)
def the_horizontal_reduction_loses_a_lane(patch: Patch) -> None:
    def horizontal_reduction(f: Any, self: Any, *args: Any) -> Any:
        plan = replace(self.plan, lanes=max(1, self.plan.lanes - 1))
        return f(replace(self, plan=plan), *args)

    wrap(patch, tiled_loops._TileBuilder, "horizontal_reduction", horizontal_reduction)


@bug(a_group_is_wrong)
def the_horizontal_reduction_loses_vectors(patch: Patch) -> None:
    wrap(patch, tiled_loops._TileBuilder, "horizontal_reduction", lambda f, self, *args: f(self, *args)[-1:])


@bug(a_group_is_wrong)
def partial_sums_begin_with_one(patch: Patch) -> None:
    patch.setattr(tiled_loops, "neutral_element", lambda op, kind: 1)


@bug(a_group_is_wrong)
def a_subexpression_is_hoisted_out_of_a_row_that_it_depends_on(patch: Patch) -> None:
    def invariant_in(f: Any, self: Any, expr: Any) -> Any:
        dependences = f(self, expr)
        return None if dependences is None else (dependences[0][:-1], dependences[1])

    wrap(patch, cell_emission._InvariantHoister, "invariant_in", invariant_in)


@bug(a_group_is_wrong)
def a_subexpression_is_hoisted_out_of_lanes(patch: Patch) -> None:
    def invariant_in(f: Any, self: Any, expr: Any) -> Any:
        dependences = f(self, expr)
        return None if dependences is None else (dependences[0], False)

    wrap(patch, cell_emission._InvariantHoister, "invariant_in", invariant_in)


@bug(a_group_is_wrong)
def a_single_row_is_the_first(patch: Patch) -> None:
    wrap(patch, tile_region.TileLoops, "__init__", lambda f, self, of, *more: f(self, replace(of, rows=tuple(
        replace(row, first=Affine((), row.sym.lo)) if row.count == 1 else row for row in of.rows)), *more))  # fmt: skip


@bug(a_group_is_wrong)
def a_looped_epilogue_reads_the_first_row(patch: Patch) -> None:
    patch.setattr(machine, "MAX_UNROLLED_EPILOGUE_OPS", 0)

    def sums(f: Any, tile_region: Any, stmts: Any, names: Any, accs: Any, mode: Any = Mode.UNROLLED) -> Any:
        body = f(tile_region, stmts, names, accs, mode)
        if mode is Mode.UNROLLED:
            return body
        accumulators = set(accs.values())
        first = lambda ref: Ref(ref.buf, (Affine(), *ref.indices[1:])) if ref.buf in accumulators else ref  # noqa: E731
        return map_statements(body, first, lambda e: Load(first(e.ref)) if isinstance(e, Load) else e)

    wrap(patch, tiled_loops, "emit_cells", sums)


@bug(a_group_is_wrong)
def guards_of_reductions_are_lost(patch: Patch) -> None:
    for owner in (scalar_loops, tiled_loops):
        wrap(patch, owner, "wrap_with_bounds", lambda f, loops, cond, body: f(loops, TRUE, body))


@bug(a_group_is_wrong)
def equalities_of_guards_are_lost(patch: Patch) -> None:
    for owner in (scalar_loops, tiled_loops):
        wrap(patch, owner, "wrap_with_bounds", lambda f, loops, cond, body: f(loops, Cond(cond.ge0), body))


@bug(a_group_is_wrong)
def selects_take_the_first_branch(patch: Patch) -> None:
    original = cell_emission._InvariantHoister._value

    def value(self: Any, expr: Any, *args: Any) -> Any:
        return value(self, expr.on_true, *args) if isinstance(expr, When) else original(self, expr, *args)

    patch.setattr(cell_emission._InvariantHoister, "_value", value)


@bug(a_group_is_wrong)
def a_partial_sum_is_lost(patch: Patch) -> None:
    wrap(patch, scalar_loops, "_combine", lambda f, op, parts: f(op, parts[:-1] or parts))


@bug(a_group_is_wrong)
def a_hoisted_value_replaces_all_later_ones(patch: Patch) -> None:
    def hoist_first(f: Any, self: Any, *args: Any) -> Any:
        if self._hoisted:
            return next(iter(self._hoisted.values()))
        return f(self, *args)

    wrap(patch, cell_emission._InvariantHoister, "_hoist", hoist_first)


# ----------------------------------------------------------------------------------------------------- around the plans


@bug(a_program_is_wrong)
def windows_are_gathered_from_the_wrong_side(patch: Patch) -> None:
    original = scatter_to_gather._invert_axis

    def turned(*args: Any) -> Any:
        result = original(*args)
        return result if result is None else replace(result, cond=Cond(result.cond.ge0[1:], result.cond.eq0))

    patch.setattr(scatter_to_gather, "_invert_axis", turned)


@bug(a_long_chain_is_wrong)
def a_stale_copy_is_read(patch: Patch) -> None:
    """Ignores writes between a copy and its readers."""
    random = Random(0)
    patch.setattr(choose_layouts, "_cycles", lambda *args: random.random())
    patch.setattr(choose_layouts, "_copy_cycles", lambda *args: 0)
    patch.setattr(choose_layouts, "_lower_bound", lambda *args: 0)

    def table(f: Any, body: Any) -> Any:
        result = f(body)
        result.writers.clear()
        return result

    wrap(patch, choose_layouts, "AccessTable", table)


@bug(a_chain_is_wrong)
def arrays_with_further_readers_are_contracted(patch: Patch) -> None:
    patch.setattr(machine, "MAX_FUSION_SLOWDOWN", 1e9)
    patch.setattr(dependences.AccessIndex, "is_sole_accessor", lambda self, buf, position: True)


@bug(a_chain_is_wrong)
def loops_of_equal_length_are_fused(patch: Patch) -> None:
    patch.setattr(machine, "MAX_FUSION_SLOWDOWN", 1e9)
    patch.setattr(fuse_outer_loops, "equal_loops", lambda first, second: {
        a.sym: b.sym for a, b in zip(first.loops, second.loops, strict=False)
        if (a.sym.lo, a.sym.hi) == (b.sym.lo, b.sym.hi)
    })  # fmt: skip


@bug(a_chain_is_wrong)
def fused_groups_keep_their_symbols(patch: Patch) -> None:
    patch.setattr(machine, "MAX_FUSION_SLOWDOWN", 1e9)
    wrap(patch, group_module.FusionGroup, "substituted", lambda f, self, values: self)


# ------------------------------------------------------------------------------------------- threads, polls and memory


@bug(a_schedule_is_wrong)
def dependent_iterations_are_parallelized(patch: Patch) -> None:
    patch.setattr(parallelize, "has_no_loop_carried_dependence", lambda *args, **how: True)


@bug(a_schedule_is_wrong)
def the_last_iteration_before_a_poll_is_lost(patch: Patch) -> None:
    def parts(f: Any, stmt: For, count: int, names: Namer) -> For:
        chunked = f(stmt, count, names)
        poll, inner = chunked.body
        end = (Affine.of(chunked.sym) + max(count - 2, 0), 1)
        return replace(chunked, body=(poll, replace(inner, hi=Bound((end, *inner.hi.quotients[1:])))))

    wrap(patch, insert_polls, "_divide_loop", parts)


@bug(a_schedule_is_wrong)
def memory_is_reused_before_the_last_read(patch: Patch) -> None:
    def too_short(f: Any, *args: Any) -> Any:
        return {buf: (first, first) for buf, (first, _) in f(*args).items()}

    wrap(patch, allocate_memory, "_live_ranges", too_short)


@bug(a_shared_loop_is_wrong)
def dependences_between_iterations_of_a_shared_loop_are_ignored(patch: Patch) -> None:
    patch.setattr(loop_distribution.AccessSummary, "can_share_loop_with", lambda self, summary: True)


@bug(a_shared_loop_is_wrong)
def nests_move_into_a_shared_loop_past_anything(patch: Patch) -> None:
    patch.setattr(loop_distribution.AccessSummary, "conflicts_with", lambda self, summary: False)


@bug(a_shared_loop_is_wrong)
def statements_before_and_after_a_shared_loop_are_swapped(patch: Patch) -> None:
    def swapped(f: Any, *args: Any) -> Any:
        partition = f(*args)
        return replace(partition, before=partition.after, after=partition.before)

    wrap(patch, fuse_parallel_loops, "partition_for_shared_loop", swapped)


@bug(a_shared_loop_is_wrong)
def padded_rows_overlap(patch: Patch) -> None:
    wrap(patch, pad_rows, "_padded_strides", lambda f, *args: tuple(max(1, step - 1) for step in f(*args)))


# ---------------------------------------------------------------------------------------------------------- the verdict


def caught(judge: Judge, seeds: Iterable[int]) -> bool:
    """Whether a result is wrong, or a program not even well-formed."""
    for seed in seeds:
        try:
            if judge(seed):
                return True
        except (VerifyError, IndexError):
            return True
    return False


def test_number_of_mutations() -> None:
    assert len(BUGS) >= 25


@pytest.mark.parametrize("name", BUGS)
def test_random_programs_detect(name: str, monkeypatch: Patch) -> None:
    judge, seed = BUGS[name]
    assert not any(map(judge, range(3))), "a test fails without the defect"
    seed(monkeypatch)
    assert caught(judge, range(TRIES)), f"no program detects `{name}`"
