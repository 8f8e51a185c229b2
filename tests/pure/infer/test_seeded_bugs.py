"""Bugs that are put into the solver on purpose: the random systems of `test_oracle` must catch every one of them."""

from __future__ import annotations

from random import Random

import pytest

from ocannl.infer import (
    arithmetic,
    broadcast,
    capture,
    close,
    close_axes,
    close_rows,
    finish,
    generate,
    growth,
    project,
    results,
    shape,
    solve,
    totals,
    trail,
    unify,
)
from ocannl.infer.spec import Padding
from ocannl.infer.terms import Dim, find, resolve
from ocannl.ir.index import Affine
from ocannl.testing.families import CERTAIN, FAMILIES, SMALL, refused_without_need
from ocannl.testing.laws import judge, traces

MOST = 2000
"""So many systems of each family are tried before a bug counts as missed."""

BUGS = {}


def bug(seed_it):
    BUGS[seed_it.__name__.replace("_", " ")] = seed_it
    return seed_it


def everywhere(patch, name, fake):
    """In every module that has imported it."""
    modules = (
        arithmetic, broadcast, capture, close, close_axes, close_rows, finish, generate, growth, project, shape, solve,
        totals, trail, unify,
    )  # fmt: skip
    for module in modules:
        if hasattr(module, name):
            patch.setattr(module, name, fake)


# --- axes that are stretched ------------------------------------------------------------------------------------------


@bug
def result_and_operand_swapped(patch):
    real = broadcast.order
    everywhere(patch, "order", lambda trail, res, opnd: real(trail, opnd, res))


@bug
def lower_bounds_not_pushed(patch):
    everywhere(patch, "raise_lower", lambda trail, dim, size: None)


@bug
def conflicting_uses_do_not_force_1(patch):
    def raise_lower(trail, dim, size):
        if dim.lower is None:
            trail.set(dim, "lower", size)
            trail.queue.append(dim)

    everywhere(patch, "raise_lower", raise_lower)


@bug
def what_fits_under_a_1_is_not_1_for_operands(patch):
    real = broadcast.press
    patch.setattr(broadcast, "press", lambda trail, res, opnd: None if res.size == 1 else real(trail, res, opnd))


@bug
def a_size_of_1_counts_as_rigid(patch):
    patch.setattr(Dim, "is_rigid", property(lambda dim: dim.unit is not None or dim.least > 1 or dim.size is not None))


@bug
def a_unit_does_not_make_rigid(patch):
    patch.setattr(Dim, "is_rigid", property(lambda dim: dim.least > 1 or dim.size not in (None, 1)))


@bug
def below_forgotten_when_an_axis_turns_rigid(patch):
    real = broadcast.settle

    def settle(trail, dim):
        below, find(dim).below = find(dim).below, None
        real(trail, dim)
        find(dim).below = below

    everywhere(patch, "settle", settle)


# --- axes that are equal ----------------------------------------------------------------------------------------------


@bug
def units_not_joined(patch):
    real = unify.join

    def join(trail, a, b):
        a, b = find(a), find(b)
        if a.unit is None or b.unit is None:
            units = a.unit, b.unit
            a.unit = b.unit = None
            try:
                real(trail, a, b)
            finally:
                a.unit, b.unit = units
        else:
            real(trail, a, b)

    everywhere(patch, "join", join)


@bug
def units_clash_unnoticed(patch):
    real = unify.join

    def join(trail, a, b):
        if None not in (find(a).unit, find(b).unit) and find(a).unit != find(b).unit:
            return
        real(trail, a, b)

    everywhere(patch, "join", join)


@bug
def leaf_flag_lost_at_join(patch):
    everywhere(patch, "adopt", lambda trail, axis, leaf, asked: None)


@bug
def lower_bound_lost_at_join(patch):
    real = unify.join

    def join(trail, a, b):
        a, b = find(a), find(b)
        if a is not b and a.size is None and b.size is None:
            a.lower = b.lower = None
        real(trail, a, b)

    everywhere(patch, "join", join)


@bug
def neighbours_lost_at_join(patch):
    real = trail.Trail.add
    patch.setattr(
        trail.Trail, "add",
        lambda self, cell, slot, item: (slot == "laws" and cell.laws) or real(self, cell, slot, item),
    )  # fmt: skip


@bug
def diagonals_not_joined(patch):
    def match_axis(trail, it, axis, cell, real=generate.match_axis):
        if isinstance(axis, generate.Label) and axis.name in it.labels:
            return
        real(trail, it, axis, cell)

    patch.setattr(generate, "match_axis", match_axis)


@bug
def square_ignored(patch):
    real = shape._constrain
    patch.setattr(shape, "_constrain", lambda trail, it, square, cells: real(trail, it, False, cells))


@bug
def a_fixed_index_off_by_one(patch):
    real = unify.set_least
    everywhere(patch, "set_least", lambda trail, dim, least: real(trail, dim, least - 1))


# --- rows -------------------------------------------------------------------------------------------------------------


@bug
def flanks_swapped(patch):
    def strip(row, front, back, real=unify.strip):
        return real(row, front, back) if row.var is not None else real(row, back, front)

    patch.setattr(unify, "strip", strip)


@bug
def axes_paired_from_the_front(patch):
    def positions(rows):
        axes = [row.axes for row in rows]
        return [[row[n] for row in axes if len(row) > n] for n in range(max(map(len, axes)))]

    patch.setattr(results, "positions", positions)


@bug
def a_result_as_short_as_its_shortest_operand(patch):
    def positions(rows, real=results.positions):
        return real(rows)[-min(row.count for row in rows) :]

    patch.setattr(results, "positions", positions)


@bug
def results_of_open_rows_left_open(patch):
    patch.setattr(results.BroadcastRow, "fire", lambda self, trail: None)


@bug
def results_not_longer_than_told_at_once(patch):
    patch.setattr(close_rows, "stretch", lambda res, opnd: [])


@bug
def all_rows_end_together(patch):
    patch.setattr(close_rows, "waiting", lambda row_vars: set())


@bug
def a_result_not_lengthened(patch):
    patch.setattr(broadcast, "lengthen", lambda trail, res, opnd, short: res)


@bug
def lengthened_by_what_stretches(patch):
    patch.setattr(broadcast, "partner", lambda opnd: find(opnd))


@bug
def watchers_forgotten(patch):
    def bind(trail, var, value, real=unify.bind):
        var.watchers = None
        real(trail, var, value)

    everywhere(patch, "bind", bind)


@bug
def equal_rows_not_watched(patch):
    patch.setattr(unify.Equal, "watch", lambda self, trail, before: None)


@bug
def ordered_rows_not_watched(patch):
    patch.setattr(broadcast.Order, "watch", lambda self, trail, before: None)


@bug
def growth_by_one_axis_less(patch):
    def of(self, var, real=growth.Growth.of):
        return max(0, real(self, var) - 1)

    patch.setattr(growth.Growth, "of", of)


@bug
def growth_not_limited_by_closed_uses(patch):
    patch.setattr(growth.Growth, "limit", lambda self, row_vars: None)


@bug
def leaves_do_not_grow(patch):
    stages(patch, lambda table: [row for row in table if row[1] is not close_rows.grow_leaves])


def stages(patch, change):
    patch.setattr(solve, "STAGES", tuple(change([*solve.STAGES])))


@bug
def overlap_wrong_way(patch):
    def overlap(a, b, real=close_rows.overlap):
        closings = real(a, b)
        return [close.RowClosing(b.var, a.value) for a, b in zip(closings, closings[::-1], strict=True)]

    patch.setattr(close_rows, "overlap", overlap)


@bug
def stages_reversed(patch):
    stages(patch, lambda table: [*table[:-1][::-1], table[-1]])


@bug
def rows_end_before_leaves_grow(patch):
    stages(patch, lambda table: [table[4], *table[:4], *table[5:]])


@bug
def what_is_computed_decided_before_leaves(patch):
    stages(patch, lambda table: [*table[:5], table[-1], *table[5:-1]])


# --- arithmetic -------------------------------------------------------------------------------------------------------


@bug
def window_size_off_by_one(patch):
    def tell(self, trail, cell, size, real=arithmetic.Strided.tell):
        real(self, trail, cell, size + (self.padding is Padding.VALID))

    patch.setattr(arithmetic.Strided, "tell", tell)


def strided(patch, change):
    real = arithmetic.Strided.__init__

    def init(self, *cells, **how):
        real(self, *cells, **how)
        change(self)

    patch.setattr(arithmetic.Strided, "__init__", init)


@bug
def kernel_dilation_ignored(patch):
    strided(patch, lambda law: setattr(law, "dilation", 1))


@bug
def window_offset_ignored(patch):
    strided(patch, lambda law: setattr(law, "offset", 0))


@bug
def padding_taken_for_valid(patch):
    strided(patch, lambda law: setattr(law, "padding", Padding.VALID))


@bug
def a_window_that_does_not_fit_goes_unnoticed(patch):
    def tell(self, trail, cell, size, real=arithmetic.Strided.tell):
        if cell.size is None:
            real(self, trail, cell, size)

    patch.setattr(arithmetic.Strided, "tell", tell)


@bug
def concatenation_forgets_a_constant(patch):
    def init(self, whole, parts, *, constant=0, real=arithmetic.Sum.__init__, **more):
        real(self, whole, parts, **more)

    patch.setattr(arithmetic.Sum, "__init__", init)


@bug
def concatenation_does_not_share_units(patch):
    patch.setattr(arithmetic.Sum, "share_unit", lambda self, trail: None)


@bug
def product_ignores_a_part(patch):
    def init(self, whole, parts, *, real=arithmetic.Product.__init__, **more):
        real(self, whole, parts[1:] if len(parts) > 1 else parts, **more)

    patch.setattr(arithmetic.Product, "__init__", init)


@bug
def laws_fire_only_once(patch):
    def settle(trail, dim, real=broadcast.settle):
        dim = find(dim)
        laws, dim.laws = dim.laws, None
        real(trail, dim)
        find(dim).laws = laws

    everywhere(patch, "settle", settle)


@bug
def totals_leave_out_the_last_row(patch):
    patch.setattr(totals.Total, "axes", property(lambda it: [find(a) for r in it.rows[:2] for a in resolve(r).axes]))


@bug
def a_size_by_keyword_ignored(patch):
    def name_axis(trail, it, name, cell):
        it.labels[name] = cell
        return cell

    patch.setattr(generate, "name_axis", name_axis)


@bug
def captures_not_equated(patch):
    patch.setattr(capture.Capture, "equal", lambda self, other: None)


@bug
def captures_not_bound(patch):
    patch.setattr(capture.Capture, "bind", lambda self, trail, relation, name: None)


# --- taking back ------------------------------------------------------------------------------------------------------


@bug
def undo_forgets_lists(patch):
    def undo(self):
        for cell, slot, old in reversed(self.log):
            if slot is not None:
                setattr(cell, slot, old)
        self.log.clear()
        self.queue.clear()

    patch.setattr(trail.Trail, "undo", undo)


@bug
def undo_in_the_order_of_the_log(patch):
    def undo(self, real=trail.Trail.undo):
        self.log.reverse()
        real(self)

    patch.setattr(trail.Trail, "undo", undo)


@bug
def an_attribute_set_without_the_log(patch):
    def bind(trail, var, value, real=unify.bind):
        real(trail, var, value)
        trail.log[:] = [entry for entry in trail.log if entry[0] is not var]

    everywhere(patch, "bind", bind)


# --- projections ------------------------------------------------------------------------------------------------------


@bug
def a_stretched_axis_moves(patch):
    def stretch(written, extents):
        return written[len(written) - len(extents) :]

    patch.setattr(project, "stretch", stretch)


@bug
def a_fixed_index_reads_the_first_cell(patch):
    real = project.Box.index
    patch.setattr(
        project.Box, "index",
        lambda self, axis, extent: project.STILL if isinstance(axis, project.Fixed) else real(self, axis, extent),
    )  # fmt: skip


@bug
def wildcards_share_a_loop(patch):
    real = project.Box.loop

    def loop(self, stem, size):
        if stem == "w":
            return self.moves.setdefault(("_", size), real(self, stem, size))
        return real(self, stem, size)

    patch.setattr(project.Box, "loop", loop)


@bug
def merged_axes_column_major(patch):
    def index(self, axis, extent, real=project.Box.index):
        if isinstance(axis, project.Merged):
            axis = project.Merged(axis.parts[::-1])
        return real(self, axis, extent)

    patch.setattr(project.Box, "index", index)


@bug
def padded_windows_not_centred(patch):
    def window(self, axis, real=project.Box.window):
        index = real(self, axis)
        return Affine(index.terms) if axis.padding is Padding.SAME else index

    patch.setattr(project.Box, "window", window)


# --- the test ---------------------------------------------------------------------------------------------------------


def caught(family):
    """The first system of a family whose answer is judged wrong, or with which the solver breaks down."""
    for seed in range(MOST):
        random = Random(f"{family} {seed}")
        system = FAMILIES[family](random)
        try:
            wrong = judge(system, random, SMALL.get(family), family not in CERTAIN) or traces(system)
            if family == "planted" and seed % 250 == 249:
                wrong = wrong or refused_without_need(range(seed - 249, seed + 1))
        except (AssertionError, AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
            wrong = repr(error)
        if wrong:
            return f"{seed}: {wrong}"
    return ""


@pytest.mark.parametrize("name", [*BUGS])
def test_a_seeded_bug_is_caught(name, monkeypatch):
    BUGS[name](monkeypatch)
    assert any(caught(family) for family in reversed(FAMILIES))


def test_there_are_enough_bugs():
    assert len(BUGS) >= 20
