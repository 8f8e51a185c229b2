"""Defects put into fusion, plans and tiles on purpose: generated programs must tell each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest

from ocannl.base.errors import VerifyError
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.index import TRUE, Affine, Bound, Cond
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import For, Load, Mode, Proc, Ref, When
from ocannl.ir.names import Namer
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
from ocannl.opt.memory import allocate, choose_layouts, pad_rows
from ocannl.opt.parallel import insert_polls, parallelize
from ocannl.opt.pipeline import optimize, passes
from ocannl.opt.schedule.build import build_loops, hoist, plain, region, tiled
from ocannl.opt.schedule.plan import model_plan
from ocannl.testing.chains import Chain, chain
from ocannl.testing.claims import Claims
from ocannl.testing.evaluate import evaluate
from ocannl.testing.generate import Program, difference, generate
from ocannl.testing.groups import Made, group, plain_plan, tiled_plan
from ocannl.testing.schedules import drawn, sample

Patch = pytest.MonkeyPatch
Arrays = dict[TNode, Any]
TRIES = 200
VECTORS = [Capabilities(vector_bytes=size) for size in (16, 32)]


# ------------------------------------------------------------------------------------------------------- the programs


@cache
def planned(seed: int) -> tuple[Made, Proc, Arrays]:
    made = group(Random(seed))
    proc = made.proc(made.group.stmt())
    return made, proc, interpret(proc, made.arrays)


@cache
def chained(seed: int, statements: int) -> tuple[Chain, Arrays]:
    made = chain(Random(seed), statements)
    return made, evaluate(made.code, made.arrays, {}, {})


@cache
def computed(seed: int) -> tuple[Program, Arrays]:
    made = generate(Random(seed), 4)
    return made, evaluate(made.code, made.arrays, made.symbols, made.merged)


def a_group_is_wrong(seed: int) -> bool:
    made, before, wanted = planned(seed)
    random = Random(seed)
    plans = [model_plan(made.group, VECTORS[seed % 2]), plain_plan(random, made.group), tiled_plan(random, made.group)]
    for how in plans:
        if how is not None:
            proc = made.proc(build_loops(made.group, how, Namer(bound_names(before))))
            verify(proc, "optimized")
            got = interpret(proc, made.arrays)
            if any(not np.array_equal(got[node], array) for node, array in wanted.items()):
                return True
    return False


def a_chain_is_wrong(seed: int, statements: int = 12, without: frozenset[str] = frozenset({"allocate_memory"})) -> bool:
    made, wanted = chained(seed, statements)
    proc = optimize(lower(made.code, "step"), made.asked, VECTORS[seed % 2], without=without)
    verify(proc, "optimized")
    got = interpret(proc, made.arrays)
    return any(not np.array_equal(array, wanted.get(node, made.arrays[node])) for node, array in got.items())


def a_long_chain_is_wrong(seed: int) -> bool:
    return a_chain_is_wrong(seed, 40, frozenset({"allocate_memory", "fuse_outer_loops"}))


def a_program_is_wrong(seed: int) -> bool:
    made, wanted = computed(seed)
    proc = optimize(lower(made.code, "step"), {}, VECTORS[seed % 2])
    got = interpret(proc, made.arrays, {s: made.symbols[s] for s in proc.syms}, made.merged)
    return bool(difference(wanted, got, made.tolerance))


def a_schedule_is_wrong(seed: int) -> bool:
    """What is proved of the program does not count: threads are watched."""
    random = Random(seed)
    made, asked = sample(random)
    proc = drawn(random, lower(made.code, "step"), asked, VECTORS[0]).proc
    symbols = {sym: made.symbols[sym] for sym in proc.syms}
    claims = Claims(seed)
    got = interpret(proc, made.arrays, symbols, made.merged, claims.watch, claims)
    want = evaluate(made.code, made.arrays, made.symbols, made.merged)
    return bool(claims.races or difference(want, got, made.tolerance))


def a_shared_loop_is_wrong(seed: int) -> bool:
    made, wanted = chained(seed, 12)
    own = {"hoist_parallel_loop": lambda proc: hoist_parallel_loop(proc, VECTORS[0], 2, 0, 1e9), "pad_rows": lambda proc: pad_rows.pad_rows(proc, 8)}
    proc = lower(made.code, "step")
    for each in passes(made.asked, VECTORS[0]):
        if each.name not in ("inline_producers", "fuse_epilogues", "fuse_outer_loops"):
            proc = own.get(each.name, each.run)(proc)
    claims = Claims(seed)
    got = interpret(proc, made.arrays, {}, {}, claims.watch, claims)
    wrong = any(not np.array_equal(array, wanted.get(node, made.arrays[node])) for node, array in got.items())
    return bool(claims.races or wrong)


Judge = Callable[[int], bool]
BUGS: dict[str, tuple[Judge, Callable[[Patch], None]]] = {}


def bug(judge: Judge) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def added(seed: Callable[[Patch], None]) -> Callable[[Patch], None]:
        BUGS[seed.__name__] = judge, seed
        return seed

    return added


def wrap(patch: Patch, owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Replaces a function by `around(original, *args)`."""
    original = getattr(owner, name)
    patch.setattr(owner, name, lambda *args, **kw: around(original, *args, **kw))


# ------------------------------------------------------------------------------------------------------------- fusion


@bug(a_chain_is_wrong)
def groups_move_past_anything(patch: Patch) -> None:
    patch.setattr(dependences.AccessIndex, "can_move_next_to", lambda self, at, to: True)


@bug(a_chain_is_wrong)
def groups_move_past_readers(patch: Patch) -> None:
    def may_move(self: Any, at: int, to: int) -> bool:
        first, last = min(at, to), max(at, to)
        keys = self._read[at] | self._written[at]
        return not any(dependences._has_between(self._writers.get(key), first, last) for key in keys)

    patch.setattr(dependences.AccessIndex, "can_move_next_to", may_move)


@bug(a_chain_is_wrong)
def groups_move_past_writers_of_what_they_read(patch: Patch) -> None:
    def may_move(self: Any, at: int, to: int) -> bool:
        first, last = min(at, to), max(at, to)
        tables = (self._writers, self._readers)
        return not any(dependences._has_between(t.get(key), first, last) for key in self._written[at] for t in tables)

    patch.setattr(dependences.AccessIndex, "can_move_next_to", may_move)


@bug(a_chain_is_wrong)
def cells_of_other_iterations_are_not_minded(patch: Patch) -> None:
    patch.setattr(fuse_epilogues, "_meet_only_here", lambda first, second: True)


@bug(a_chain_is_wrong)
def loops_are_matched_in_their_order(patch: Patch) -> None:
    def matched(first: Any, then: Any) -> Any:
        if [s.extent for s in first.syms] != [s.extent for s in then.syms]:
            return None
        return {its: Affine.of(mine) for its, mine in zip(then.syms, first.syms, strict=True)}

    patch.setattr(fuse_epilogues, "_matched", matched)
    patch.setattr(fuse_epilogues, "_meet_only_here", lambda first, second: True)


@bug(a_chain_is_wrong)
def a_stored_value_is_remembered_for_ever(patch: Patch) -> None:
    class Sticky(dict):  # type: ignore[type-arg]
        def pop(self, *args: Any) -> None:
            pass

    wrap(patch, fuse_epilogues, "_forwarded", lambda f, tail, known: f(tail, Sticky(known)))


@bug(a_chain_is_wrong)
def what_others_read_is_not_stored(patch: Patch) -> None:
    patch.setattr(dependences.AccessIndex, "is_read", lambda self, buf: False)


@bug(a_chain_is_wrong)
def what_a_sum_begins_with_is_not_seen(patch: Patch) -> None:
    def init(f: Any, self: Any, stmts: list[Any]) -> None:
        f(self, stmts)
        for read in self._read.values():
            read.clear()
        self._readers.clear()

    wrap(patch, dependences.AccessIndex, "__init__", init)


@bug(a_chain_is_wrong)
def fills_are_taken_from_their_readers(patch: Patch) -> None:
    patch.setattr(nests.AccessTable, "read_between", lambda self, buf, first, last: False)


@bug(a_chain_is_wrong)
def fills_are_taken_past_writers(patch: Patch) -> None:
    patch.setattr(nests.AccessTable, "written_between", lambda self, buf, first, last: False)


@bug(a_chain_is_wrong)
def a_guarded_group_is_taken_for_a_whole_one(patch: Patch) -> None:
    original = fuse_epilogues.group_of_nest

    def unguarded(*args: Any) -> Any:
        made = original(*args)
        return None if made is None else replace(made, cond=TRUE)

    patch.setattr(fuse_epilogues, "group_of_nest", unguarded)


# -------------------------------------------------------------------------------------------------------------- plans


@bug(a_group_is_wrong)
def a_cell_of_the_last_tile_is_lost(patch: Patch) -> None:
    def turns(f: Any, self: Any, sym: Any, size: int, part: Any) -> Any:
        return f(self, sym, size, lambda first, count: part(first, count if count == size else max(1, count - 1)))

    wrap(patch, tiled._TileBuilder, "tile_loop", turns)


@bug(a_group_is_wrong)
def the_last_tile_begins_at_the_first_cell(patch: Patch) -> None:
    def turns(f: Any, self: Any, sym: Any, size: int, part: Any) -> Any:
        return f(self, sym, size, lambda first, count: part(first if count == size else Affine((), sym.lo), count))

    wrap(patch, tiled._TileBuilder, "tile_loop", turns)


@bug(a_group_is_wrong)
def lanes_of_the_tail_are_those_of_the_first_vector(patch: Patch) -> None:
    wrap(patch, tiled, "vector_strips", lambda f, first, count, lanes: tuple(
        replace(strip, first=first) if strip.lanes < lanes else strip for strip in f(first, count, lanes)))  # fmt: skip


@bug(a_group_is_wrong)
def the_tail_has_the_place_of_the_first_vector(patch: Patch) -> None:
    wrap(patch, tiled, "vector_strips", lambda f, *args: tuple(replace(strip, offset=0) for strip in f(*args)))


@bug(a_group_is_wrong)
def the_fold_of_lanes_loses_one(patch: Patch) -> None:
    def folds(f: Any, self: Any, each: Any, total: Any, acc: Any) -> Any:
        fewer = replace(self.plan, lanes=max(1, self.plan.lanes - 1))
        return f(replace(self, plan=fewer), each, total, acc)

    wrap(patch, tiled._TileBuilder, "horizontal_reduction", folds)


@bug(a_group_is_wrong)
def the_fold_of_vectors_loses_all_but_the_first(patch: Patch) -> None:
    wrap(patch, tiled._TileBuilder, "horizontal_reduction", lambda f, self, *args: f(self, *args)[-1:])


@bug(a_group_is_wrong)
def parts_begin_with_one(patch: Patch) -> None:
    patch.setattr(tiled, "neutral_element", lambda op, kind: 1)


@bug(a_group_is_wrong)
def a_part_is_hoisted_over_an_unrolled_row(patch: Patch) -> None:
    def shared_with(f: Any, self: Any, expr: Any) -> Any:
        found = f(self, expr)
        return None if found is None else (found[0][:-1], found[1])

    wrap(patch, hoist._InvariantHoister, "invariant_in", shared_with)


@bug(a_group_is_wrong)
def a_part_is_the_same_in_all_lanes(patch: Patch) -> None:
    def shared_with(f: Any, self: Any, expr: Any) -> Any:
        found = f(self, expr)
        return None if found is None else (found[0], False)

    wrap(patch, hoist._InvariantHoister, "invariant_in", shared_with)


@bug(a_group_is_wrong)
def a_row_that_is_alone_is_the_first(patch: Patch) -> None:
    wrap(patch, region.TileLoops, "__init__", lambda f, self, of, *more: f(self, replace(of, rows=tuple(
        replace(row, first=Affine((), row.sym.lo)) if row.count == 1 else row for row in of.rows)), *more))  # fmt: skip


@bug(a_group_is_wrong)
def a_long_tail_has_the_sums_of_the_first_row(patch: Patch) -> None:
    patch.setattr(machine, "MAX_UNROLLED_EPILOGUE_OPS", 0)

    def sums(f: Any, region: Any, stmts: Any, names: Any, accs: Any, mode: Any = Mode.UNROLLED) -> Any:
        body = f(region, stmts, names, accs, mode)
        if mode is Mode.UNROLLED:
            return body
        own = set(accs.values())
        first = lambda ref: Ref(ref.buf, (Affine(), *ref.indices[1:])) if ref.buf in own else ref  # noqa: E731
        return map_statements(body, first, lambda e: Load(first(e.ref)) if isinstance(e, Load) else e)

    wrap(patch, tiled, "emit_cells", sums)


@bug(a_group_is_wrong)
def guards_of_sums_are_lost(patch: Patch) -> None:
    for owner in (plain, tiled):
        wrap(patch, owner, "wrap_with_bounds", lambda f, loops, cond, body: f(loops, TRUE, body))


@bug(a_group_is_wrong)
def equalities_of_guards_are_lost(patch: Patch) -> None:
    for owner in (plain, tiled):
        wrap(patch, owner, "wrap_with_bounds", lambda f, loops, cond, body: f(loops, Cond(cond.ge0), body))


@bug(a_group_is_wrong)
def a_choice_always_falls_on_its_first_side(patch: Patch) -> None:
    original = hoist._InvariantHoister._value

    def value(self: Any, expr: Any, *rest: Any) -> Any:
        return value(self, expr.then, *rest) if isinstance(expr, When) else original(self, expr, *rest)

    patch.setattr(hoist._InvariantHoister, "_value", value)


@bug(a_group_is_wrong)
def a_partial_sum_is_lost(patch: Patch) -> None:
    wrap(patch, plain, "_combine", lambda f, op, parts: f(op, parts[:-1] or parts))


@bug(a_group_is_wrong)
def a_definition_has_the_value_of_the_one_before(patch: Patch) -> None:
    def name(f: Any, self: Any, *args: Any) -> Any:
        if self._hoisted:
            return next(iter(self._hoisted.values()))
        return f(self, *args)

    wrap(patch, hoist._InvariantHoister, "_hoist", name)


# ----------------------------------------------------------------------------------------------------- around the plans


@bug(a_program_is_wrong)
def windows_are_gathered_from_the_wrong_side(patch: Patch) -> None:
    original = scatter_to_gather._turned

    def turned(*args: Any) -> Any:
        made = original(*args)
        return made if made is None else replace(made, cond=Cond(made.cond.ge0[1:], made.cond.eq0))

    patch.setattr(scatter_to_gather, "_turned", turned)


@bug(a_long_chain_is_wrong)
def an_old_copy_is_read(patch: Patch) -> None:
    """Of an array that is written meanwhile."""
    random = Random(0)
    patch.setattr(choose_layouts, "_cycles", lambda *args: random.random())
    patch.setattr(choose_layouts, "_copied", lambda *args: 0)
    patch.setattr(choose_layouts, "_ideal", lambda *args: 0)

    def table(f: Any, body: Any) -> Any:
        made = f(body)
        made.writers.clear()
        return made

    wrap(patch, choose_layouts, "AccessTable", table)


@bug(a_chain_is_wrong)
def a_row_is_enough_of_what_others_read(patch: Patch) -> None:
    patch.setattr(machine, "MAX_FUSION_SLOWDOWN", 1e9)
    patch.setattr(dependences.AccessIndex, "is_sole_accessor", lambda self, buf, place: True)


@bug(a_chain_is_wrong)
def rows_are_shared_by_loops_of_the_same_length(patch: Patch) -> None:
    patch.setattr(machine, "MAX_FUSION_SLOWDOWN", 1e9)
    patch.setattr(fuse_outer_loops, "equal_loops", lambda first, then: {
        a.sym: b.sym for a, b in zip(first.loops, then.loops, strict=False)
        if (a.sym.lo, a.sym.hi) == (b.sym.lo, b.sym.hi)
    })  # fmt: skip


@bug(a_chain_is_wrong)
def members_keep_the_symbols_that_they_had(patch: Patch) -> None:
    patch.setattr(machine, "MAX_FUSION_SLOWDOWN", 1e9)
    wrap(patch, group_module.FusionGroup, "substituted", lambda f, self, values: self)


# ------------------------------------------------------------------------------------------- threads, polls and memory


@bug(a_schedule_is_wrong)
def threads_share_what_is_not_independent(patch: Patch) -> None:
    patch.setattr(parallelize, "has_no_loop_carried_dependence", lambda *args, **how: True)


@bug(a_schedule_is_wrong)
def the_last_iteration_before_a_poll_is_lost(patch: Patch) -> None:
    def parts(f: Any, stmt: For, many: int, names: Namer) -> For:
        made = f(stmt, many, names)
        look, inner = made.body
        end = (Affine.of(made.sym) + max(many - 2, 0), 1)
        return replace(made, body=(look, replace(inner, hi=Bound((end, *inner.hi.quotients[1:])))))

    wrap(patch, insert_polls, "_in_parts", parts)


@bug(a_schedule_is_wrong)
def an_array_is_given_away_before_its_readers(patch: Patch) -> None:
    wrap(patch, allocate, "_lives", lambda f, *args: {buf: (first, first) for buf, (first, _) in f(*args).items()})


@bug(a_shared_loop_is_wrong)
def nests_share_a_loop_whatever_they_touch(patch: Patch) -> None:
    patch.setattr(loop_distribution.AccessSummary, "can_share_loop_with", lambda self, other: True)


@bug(a_shared_loop_is_wrong)
def nests_share_a_loop_past_anything(patch: Patch) -> None:
    patch.setattr(loop_distribution.AccessSummary, "conflicts_with", lambda self, other: False)


@bug(a_shared_loop_is_wrong)
def what_must_come_before_a_loop_comes_after_it(patch: Patch) -> None:
    wrap(patch, fuse_parallel_loops, "partition_for_shared_loop", lambda f, *args: replace(f(*args), before=f(*args).after, after=f(*args).before))


@bug(a_shared_loop_is_wrong)
def padded_rows_overlap(patch: Patch) -> None:
    wrap(patch, pad_rows, "_padded", lambda f, *args: tuple(max(1, step - 1) for step in f(*args)))


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


def test_there_are_enough() -> None:
    assert len(BUGS) >= 25


@pytest.mark.parametrize("name", BUGS)
def test_generated_programs_catch(name: str, monkeypatch: Patch) -> None:
    judge, seed = BUGS[name]
    assert not any(map(judge, range(3))), "something is wrong without the bug"
    seed(monkeypatch)
    assert caught(judge, range(TRIES)), f"no program tells `{name}` from correct code"
