"""Defects put into fusion, scheduling and memory on purpose: small programs hardly tell them, networks must.

Each names the number of networks, from seed 0 on, that find it at the latest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from random import Random
from typing import Any

import pytest

from ocannl.ir.index import TRUE, Affine, Bound, Cond, Sym
from ocannl.ir.loops import Num, Ref, Store
from ocannl.opt import (
    carry,
    division,
    fuse,
    gather,
    invert,
    join,
    layout,
    memory,
    nest,
    number,
    outer,
    pad,
    parts,
    phase,
    places,
    poll,
    rows,
    sweep,
    unite,
)
from ocannl.opt.group import Group
from ocannl.runtime import reuse

from .compare import Expected, Way, expected_by_torch, has_torch, judged
from .generate import generate
from .machines import MACHINES
from .program import Network
from .test_random_networks import usable

packed, plain, tiled = (import_module(f"ocannl.opt.realize.{name}") for name in ("packed", "plain", "tiled"))
Patch = pytest.MonkeyPatch
BUGS: dict[str, tuple[int, Callable[[Patch], None]]] = {}


def bug(networks: int) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def added(seed: Callable[[Patch], None]) -> Callable[[Patch], None]:
        BUGS[seed.__name__] = networks, seed
        return seed

    return added


def wrap(patch: Patch, owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Replaces a function by `around(original, *args)`."""
    original = getattr(owner, name)
    patch.setattr(owner, name, lambda *args, **kw: around(original, *args, **kw))


# --- legality conditions that are dropped ----------------------------------------------------------------------------


@bug(10)
def nests_pass_what_they_depend_on(patch: Patch) -> None:
    patch.setattr(division.Touched, "meets", lambda self, other: False)


@bug(10)
def statements_move_past_writes(patch: Patch) -> None:
    patch.setattr(places.Places, "may_move", lambda self, at, to: True)


@bug(10)
def later_writes_are_not_seen(patch: Patch) -> None:
    """A copy in another order is read again after what it is of was written."""
    original = layout._Search.__init__

    def around(self: Any, *args: Any) -> None:
        original(self, *args)
        self.writers = {}

    patch.setattr(layout._Search, "__init__", around)


@bug(10)
def parts_of_arrays_count_as_all(patch: Patch) -> None:
    def around(f: Any, each: Any) -> bool:
        return bool(each.cond.is_true)

    wrap(patch, sweep, "covers", around)


@bug(10)
def temporaries_with_other_readers_shrink(patch: Patch) -> None:
    patch.setattr(places.Places, "only", lambda self, buf, place: True)


# --- equal things that are not ---------------------------------------------------------------------------------------


@bug(10)
def arrays_made_alike_at_other_places(patch: Patch) -> None:
    def around(f: Any, self: Any, each: Any) -> Any:
        loops, cond, place, value, signs = f(self, each)
        return loops, cond, place, type(value), signs

    wrap(patch, unite._Values, "form", around)


@bug(10)
def arrays_are_equal_whatever_they_held(patch: Patch) -> None:
    original = unite._Values.of
    patch.setattr(unite._Values, "of", lambda self, buf: 0 if buf.home is memory.Home.ARENA else original(self, buf))


@bug(10)
def cells_of_one_array_are_one(patch: Patch) -> None:
    """Common subexpressions: the second index of a cell does not count."""
    original = number._Values.visit

    def around(self: Any, expr: Any, certain: bool) -> int:
        if isinstance(expr, number.Load) and len(expr.ref.at) > 1:
            for n, known in enumerate(self.exprs):
                same = isinstance(known, number.Load) and known.ref.buf is expr.ref.buf
                if same and known.ref.at[:-1] == expr.ref.at[:-1]:
                    return n
        return original(self, expr, certain)

    patch.setattr(number._Values, "visit", around)


# --- sums ------------------------------------------------------------------------------------------------------------


@bug(10)
def parts_of_sums_begin_at_one(patch: Patch) -> None:
    original = parts.Room.start.fget  # type: ignore[attr-defined]

    def start_of(self: Any) -> Num:
        made = original(self)
        return Num(1.0, made.precision) if made.value == 0 else made

    patch.setattr(parts.Room, "start", property(start_of))


@bug(10)
def blocks_of_sums_repeat_one(patch: Patch) -> None:
    def around(f: Any, group: Any, plan: Any, names: Any) -> Any:
        made = f(group, plan, names)
        return replace(made, blocks=(*made.blocks[:-1], *made.blocks[-2:])) if len(made.blocks) > 1 else made

    wrap(patch, packed, "blocked", around)


# --- bounds ----------------------------------------------------------------------------------------------------------


@bug(10)
def last_lanes_are_lost(patch: Patch) -> None:
    """Of what is left over from whole vectors, if that is one lane."""

    def around(f: Any, first: Any, count: int, lanes: int) -> Any:
        strips = f(first, count, lanes)
        return strips[:-1] if len(strips) > 1 and strips[-1].lanes == 1 else strips

    wrap(patch, tiled, "strips_of", around)


@bug(10)
def last_tile_of_a_panel_is_not_copied(patch: Patch) -> None:
    wrap(patch, packed, "_parts", lambda f, sym, size: f(sym, size)[:1])


@bug(10)
def strides_round_the_wrong_way(patch: Patch) -> None:
    """The first tap of a strided window: division rounds down."""
    original = nest._lower

    def around(of: Any) -> Any:
        return original([(index - (div - 1), div) for index, div in of])

    patch.setattr(nest, "_lower", around)


@bug(10)
def windows_miss_their_last_cell(patch: Patch) -> None:
    def around(ge0: Sequence[Affine], *more: Any) -> Cond:
        return Cond((ge0[0], ge0[1] - 1), *more)

    patch.setattr(invert, "Cond", around)


# --- memory and order ------------------------------------------------------------------------------------------------


@bug(10)
def arrays_die_as_they_are_read_last(patch: Patch) -> None:
    def around(f: Any, bufs: Any, body: Any) -> Any:
        return {buf: (first, max(first, last - 1)) for buf, (first, last) in f(bufs, body).items()}

    wrap(patch, memory, "_lives", around)


@bug(10)
def members_of_a_row_are_reversed(patch: Patch) -> None:
    original = rows._Sharing.built

    def around(self: Any, at: int, row: Any) -> Any:
        return original(self, at, replace(row, members=row.members[::-1]) if len(row.members) > 2 else row)

    patch.setattr(rows._Sharing, "built", around)


@bug(10)
def axes_of_one_iteration_in_another_order(patch: Patch) -> None:
    """Memory of an array that is local to an iteration: strides as if its axes were in reverse order."""

    def around(f: Any, buf: Any, axis: int) -> Any:
        steps = f(buf, axis)
        return tuple([0 if step == 0 else max(1, step - 1) for step in steps]) if sum(map(bool, steps)) > 1 else steps

    wrap(patch, phase, "without_axis", around)


@bug(10)
def padded_rows_overlap(patch: Patch) -> None:
    """The longer rows begin a cell too early, so that they run into one another."""

    def around(f: Any, buf: Any, page_bytes: int) -> Any:
        steps = zip(f(buf, page_bytes), buf.strides, strict=True)
        return tuple([longer if longer == step else step - 1 for longer, step in steps])

    wrap(patch, pad, "_padded", around)


@bug(10)
def carried_sums_read_totals_of_others(patch: Patch) -> None:
    """A variance is summed in the loop that still sums its mean."""
    wrap(patch, rows, "carried", lambda f, loops, reads, writes, sums, *more: f(loops, reads, writes, (), *more))


@bug(10)
def rows_share_loops_that_some_cells_tell(patch: Patch) -> None:
    """Loops of two nests are shared if one pair of cells tells them, whatever the others say."""

    def only(ref: Ref) -> Group:
        return Group((), TRUE, (), (Store(ref, Num(0, ref.buf.precision)),))

    def around(f: Any, first: Any, then: Any) -> Any:
        found: dict[Any, Any] = {}
        for one in first.writes:
            for other in (*then.reads, *then.writes):
                if one.buf is other.buf:
                    found |= f(replace(first, members=(only(one),)), replace(then, members=(only(other),)))
        return found

    wrap(patch, rows, "_told", around)


@bug(10)
def what_comes_after_the_rows_is_taken_for_theirs(patch: Patch) -> None:
    patch.setattr(carry.Carried, "late", property(lambda self: set()))


@bug(10)
def members_of_a_phase_are_reversed(patch: Patch) -> None:
    def around(f: Any, *args: Any) -> Any:
        found = f(*args)
        return replace(found, inside=found.inside[::-1])

    wrap(patch, phase, "divided", around)


@bug(10)
def iterations_overlap_in_memory(patch: Patch) -> None:
    def around(f: Any, buf: Any, small: Any) -> Any:
        made = f(buf, small)
        pairs = zip(made.strides, small, strict=True)
        return replace(made, strides=tuple([step if of else step // 2 or 1 for step, of in pairs]))

    wrap(patch, outer, "_turn_by_turn", around)


@bug(10)
def epilogues_of_permuted_cells(patch: Patch) -> None:
    """Loops of equal extents are taken for each other, whichever cells they stand for."""

    def around(f: Any, first: Group, then: Group) -> Any:
        found = f(first, then)
        if found is not None or [s.extent for s in first.syms] != [s.extent for s in then.syms]:
            return found
        reads = {ref.buf for ref in then.reads} & {ref.buf for ref in first.writes}
        return {b: Affine.of(a) for a, b in zip(first.syms, then.syms, strict=True)} if reads else None

    wrap(patch, fuse, "_matched", around)
    patch.setattr(fuse, "_meet_only_here", lambda first, second: True)


@bug(10)
def older_writes_are_taken_for_the_newest(patch: Patch) -> None:
    def around(f: Any, self: Any, buf: Any, before: int) -> int:
        found = f(self, buf, before)
        return found if found < 0 else self._writers[places.storage(buf)][0]

    original = places.Places.newest
    patch.setattr(places.Places, "newest", lambda *args: around(original, *args))


@bug(10)
def parts_of_arrays_are_joined_everywhere(patch: Patch) -> None:
    """A write of some cells counts for all cells that it could stand for."""

    def around(f: Any, *args: Any) -> Any:
        found = f(*args)
        return found and (found[0], Cond(found[1].ge0[:1]))

    wrap(patch, join, "solved", around)


@bug(10)
def copies_miss_their_last_row(patch: Patch) -> None:
    def around(f: Any, source: Any, copy: Any, names: Any) -> Any:
        stmt = f(source, copy, names)
        return replace(stmt, lo=Bound(((Affine((), min(1, stmt.sym.hi)), 1),)))

    wrap(patch, layout, "_copy", around)


@bug(10)
def results_in_another_order_count_as_whole(patch: Patch) -> None:
    patch.setattr(layout, "_fills", lambda group, buf: True)


@bug(10)
def last_part_of_a_sum_is_lost(patch: Patch) -> None:
    original = parts.Room.added_up

    def around(self: Any, part: Sym) -> Any:
        return original(self, Sym(part.name, part.lo, max(part.lo, part.hi - 1)))

    patch.setattr(parts.Room, "added_up", around)


@bug(10)
def last_vector_of_parts_is_not_folded(patch: Patch) -> None:
    original = tiled._Realizer.folds

    def around(self: Any, *args: Any) -> Any:
        fewer = replace(self.plan, vectors=max(1, self.plan.vectors - 1))
        return original(replace(self, plan=fewer), *args)

    patch.setattr(tiled._Realizer, "folds", around)


@bug(10)
def last_row_of_a_rim_is_lost(patch: Patch) -> None:
    def around(f: Any, region: Any, syms: Any) -> Any:
        found = list(f(region, syms))
        return found[:-1] if len(found) > 1 else found

    wrap(patch, tiled, "_single", around)


@bug(10)
def stretches_between_polls_overlap(patch: Patch) -> None:
    def around(f: Any, stmt: Any, many: int, names: Any) -> Any:
        made = f(stmt, many, names)
        return replace(made, step=max(1, many - 1))

    wrap(patch, poll, "_in_parts", around)


@bug(10)
def last_class_is_nothing(patch: Patch) -> None:
    patch.setattr(gather, "Sym", lambda name, lo, hi, *kind: Sym(name, lo, max(lo, hi - 1), *kind))


# --- the verdict -----------------------------------------------------------------------------------------------------


@cache
def case(seed: int) -> tuple[Network, Expected]:
    network = generate(Random(seed))
    return network, expected_by_torch(network)


def first_difference(networks: int) -> str:
    for seed in range(networks):
        network, expected = case(seed)
        wrong = judged(network, way_of(seed), [expected])
        if wrong is not None:
            return f"network {seed}: {wrong}"
    return ""


def way_of(seed: int) -> Way:
    machine = list(MACHINES)[seed % len(MACHINES)]
    return Way("float64" if seed % 4 == 3 else "float32", threads=1 + seed % 2, verify="off", machine=machine)


@pytest.fixture
def forgetful() -> Iterator[None]:
    """What was compiled with a bug is of no use to anyone else."""
    reuse.forget()
    yield
    reuse.forget()


def test_there_are_enough() -> None:
    assert len(BUGS) >= 20


@pytest.mark.skipif(not has_torch(), reason="PyTorch, which judges the networks, is not installed")
@pytest.mark.skipif(not usable("llvm"), reason="`llvm` is not usable here")
@pytest.mark.parametrize("name", BUGS)
def test_networks_catch(name: str, monkeypatch: Patch, forgetful: None) -> None:
    networks, seed = BUGS[name]
    seed(monkeypatch)
    assert first_difference(networks), f"no network of {networks} tells `{name}` from correct code"
