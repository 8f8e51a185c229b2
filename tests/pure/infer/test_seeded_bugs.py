"""Mutation tests: bugs seeded into the solver, all of which the random systems of `test_oracle` must detect.

Each bug names a system that detects it. If the system no longer detects the bug, because generators or the solver have
changed, some systems of every family are searched, and the hint should be updated.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

import pytest
from shape_systems.families import CERTAIN, FAMILIES, SMALL, refused_without_need
from shape_systems.properties import check_answer, check_rollback
from time_limit import time_limit

from ocannl.infer import (
    broadcast,
    broadcast_results,
    capture,
    cell_count,
    constraint_generation,
    default_axes,
    default_rows,
    defaults,
    leaf_growth,
    project,
    row_overlaps,
    shape,
    size_equations,
    solve,
    transaction,
    unify,
)
from ocannl.infer.spec import Padding
from ocannl.infer.terms import DimVar, Trail, find, resolve
from ocannl.ir.affine import Affine

SECONDS = 2.0
"""Time limit per system; solving takes milliseconds unless it diverges."""

SEARCHED = range(120)
"""Systems of each family searched if the hint of a bug no longer detects it."""

REFUSALS = "refusals"
"""Hint: `refused_without_need` on the 250 systems of each family from a seed on."""


class Bug(NamedTuple):
    """A patch of the solver, and a system that detects it."""

    inject: Callable[[pytest.MonkeyPatch], None]
    family: str
    seed: int


BUGS: dict[str, Bug] = {}


def bug(family, seed):
    def add(inject):
        BUGS[inject.__name__.replace("_", " ")] = Bug(inject, family, seed)
        return inject

    return add


def everywhere(patch, name, fake):
    """Patches a name in every module that imports it."""
    modules = (
        size_equations, broadcast, capture, defaults, default_axes, default_rows, transaction,
        constraint_generation, leaf_growth, project, broadcast_results, shape, solve, cell_count, unify,
    )  # fmt: skip
    for module in modules:
        if hasattr(module, name):
            patch.setattr(module, name, fake)


# --- axes that are stretched ------------------------------------------------------------------------------------------


@bug("inserted", 2)
def result_and_operand_swapped(patch):
    real = broadcast.order
    everywhere(patch, "order", lambda trail, res, opnd: real(trail, opnd, res))


@bug("stretches", 1)
def lower_bounds_not_pushed(patch):
    everywhere(patch, "raise_lower_bound", lambda trail, dim, size: None)


@bug("joined", 487)
def conflicting_uses_do_not_force_1(patch):
    def raise_lower_bound(trail, dim, size):
        if dim.lower_bound is None:
            trail.set(dim, "lower_bound", size)
            trail.queue.append(dim)

    everywhere(patch, "raise_lower_bound", raise_lower_bound)


@bug("kinds", 38)
def operands_above_a_1_are_not_1(patch):
    real = broadcast.push_lower_bound
    patch.setattr(
        broadcast, "push_lower_bound", lambda trail, res, opnd: None if res.size == 1 else real(trail, res, opnd)
    )


@bug("stretches", 3)
def a_size_of_1_counts_as_rigid(patch):
    patch.setattr(
        DimVar, "is_rigid", property(lambda dim: dim.unit is not None or dim.min_size > 1 or dim.size is not None)
    )


@bug("planted", 98)
def a_unit_does_not_make_rigid(patch):
    patch.setattr(DimVar, "is_rigid", property(lambda dim: dim.min_size > 1 or dim.size not in (None, 1)))


@bug("planted", 15)
def below_lost_at_an_axis_that_becomes_rigid(patch):
    real = broadcast.propagate_axis

    def propagate_axis(trail, dim):
        below, find(dim).below = find(dim).below, None
        real(trail, dim)
        find(dim).below = below

    everywhere(patch, "propagate_axis", propagate_axis)


# --- axes that are equal ----------------------------------------------------------------------------------------------


@bug("planted", 15)
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


@bug("planted", 345)
def units_clash_unnoticed(patch):
    real = unify.join

    def join(trail, a, b):
        if None not in (find(a).unit, find(b).unit) and find(a).unit != find(b).unit:
            return
        real(trail, a, b)

    everywhere(patch, "join", join)


@bug("stretches", 1)
def leaf_flag_lost_at_join(patch):
    everywhere(patch, "adopt", lambda trail, axis, leaf, is_required: None)


@bug("joined", 130)
def lower_bound_lost_at_join(patch):
    real = unify.join

    def join(trail, a, b):
        a, b = find(a), find(b)
        if a is not b and a.size is None and b.size is None:
            a.lower_bound = b.lower_bound = None
        real(trail, a, b)

    everywhere(patch, "join", join)


@bug("sums", 52)
def neighbours_lost_at_join(patch):
    real = Trail.add
    patch.setattr(
        Trail, "add",
        lambda self, cell, slot, item: (
            (slot == "size_equations" and cell.size_equations) or real(self, cell, slot, item)
        ),
    )  # fmt: skip


@bug("planted", 3)
def diagonals_not_joined(patch):
    def match_axis(trail, operation, axis, cell, real=constraint_generation.match_axis):
        if isinstance(axis, constraint_generation.Label) and axis.name in operation.labels:
            return
        real(trail, operation, axis, cell)

    patch.setattr(constraint_generation, "match_axis", match_axis)


@bug("planted", 79)
def square_ignored(patch):
    real = shape._constrain
    patch.setattr(shape, "_constrain", lambda trail, operation, square, cells: real(trail, operation, False, cells))


@bug("planted", 10)
def a_fixed_index_off_by_1(patch):
    real = unify.set_min_size
    everywhere(patch, "set_min_size", lambda trail, dim, min_size: real(trail, dim, min_size - 1))


# --- rows -------------------------------------------------------------------------------------------------------------


@bug("rows", 14)
def flanks_swapped(patch):
    def strip(row, front, back, real=unify.strip):
        return real(row, front, back) if row.var is not None else real(row, back, front)

    patch.setattr(unify, "strip", strip)


@bug("planted", 7)
def axes_paired_from_the_front(patch):
    def positions(rows):
        axes = [row.axes for row in rows]
        return [[row[n] for row in axes if len(row) > n] for n in range(max(map(len, axes)))]

    patch.setattr(broadcast_results, "positions", positions)


@bug("planted", 7)
def a_result_as_short_as_the_shortest_operand(patch):
    def positions(rows, real=broadcast_results.positions):
        return real(rows)[-min(row.count for row in rows) :]

    patch.setattr(broadcast_results, "positions", positions)


@bug("sums", 118)
def results_of_open_rows_left_open(patch):
    patch.setattr(broadcast_results.BroadcastRow, "fire", lambda self, trail: None)


@bug("stretches", 1)
def a_result_not_lengthened(patch):
    patch.setattr(broadcast, "lengthen", lambda trail, res, opnd, short: res)


@bug("kinds", 59)
def lengthened_by_a_stretchable_axis(patch):
    patch.setattr(broadcast, "partner", lambda opnd: find(opnd))


@bug("stretches", 1)
def watchers_forgotten(patch):
    def bind(trail, var, value, real=unify.bind):
        var.watchers = None
        real(trail, var, value)

    everywhere(patch, "bind", bind)


@bug("ends", 2)
def equal_rows_not_watched(patch):
    patch.setattr(unify.Equal, "watch", lambda self, trail, before: None)


@bug("stretches", 1)
def ordered_rows_not_watched(patch):
    patch.setattr(broadcast.Order, "watch", lambda self, trail, before: None)


@bug("inserted", 2)
def growth_by_an_axis_less(patch):
    def of(self, var, real=leaf_growth.Growth.of):
        return max(0, real(self, var) - 1)

    patch.setattr(leaf_growth.Growth, "of", of)


@bug("kinds", 12)
def growth_not_limited_by_closed_uses(patch):
    patch.setattr(leaf_growth.Growth, "limit", lambda self, row_vars: None)


@bug("stretches", 1)
def leaves_do_not_grow(patch):
    stages(patch, lambda table: [row for row in table if row[1] is not default_rows.grow_leaves])


def stages(patch, change):
    patch.setattr(solve, "STAGES", tuple(change([*solve.STAGES])))


def first(stage):
    """Moves a stage to the front."""
    return lambda table: sorted(table, key=lambda row: row[1] is not stage)


@bug("ends", 26)
def overlap_reversed(patch):
    def overlap(a, b, real=row_overlaps.overlap):
        closings = real(a, b)
        return [defaults.RowDefault(b.var, a.value) for a, b in zip(closings, closings[::-1], strict=True)]

    patch.setattr(row_overlaps, "overlap", overlap)


@bug("stretches", 1)
def stages_reversed(patch):
    stages(patch, lambda table: [*table[:-1][::-1], table[-1]])


@bug("stretches", 1)
def rows_end_before_leaves_grow(patch):
    stages(patch, first(default_rows.end_rows))


@bug("stretches", 1)
def computed_axes_decided_before_leaves(patch):
    def behind_the_rows(table):
        rows = [row for row in table if row[1].__module__ in (default_rows.__name__, row_overlaps.__name__)]
        return [*rows, table[-1], *(row for row in table[:-1] if row not in rows)]

    stages(patch, behind_the_rows)


# --- arithmetic -------------------------------------------------------------------------------------------------------


@bug("planted", 21)
def window_size_off_by_1(patch):
    def set_or_check(self, trail, cell, size, real=size_equations.Strided.set_or_check):
        real(self, trail, cell, size + (self.padding is Padding.VALID))

    patch.setattr(size_equations.Strided, "set_or_check", set_or_check)


def strided(patch, change):
    real = size_equations.Strided.__init__

    def init(self, *cells, **how):
        real(self, *cells, **how)
        change(self)

    patch.setattr(size_equations.Strided, "__init__", init)


@bug("sums", 71)
def kernel_dilation_ignored(patch):
    strided(patch, lambda law: setattr(law, "dilation", 1))


@bug("sums", 31)
def window_offset_ignored(patch):
    strided(patch, lambda law: setattr(law, "offset", 0))


@bug("planted", 3)
def padding_taken_for_valid(patch):
    strided(patch, lambda law: setattr(law, "padding", Padding.VALID))


@bug("sums", 15)
def a_window_that_does_not_fit_goes_unnoticed(patch):
    def set_or_check(self, trail, cell, size, real=size_equations.Strided.set_or_check):
        if cell.size is None:
            real(self, trail, cell, size)

    patch.setattr(size_equations.Strided, "set_or_check", set_or_check)


@bug("planted", 20)
def concatenation_forgets_a_constant(patch):
    def init(self, total, parts, *, constant=0, real=size_equations.Sum.__init__, **more):
        real(self, total, parts, **more)

    patch.setattr(size_equations.Sum, "__init__", init)


@bug("sums", 21)
def concatenation_does_not_share_units(patch):
    patch.setattr(size_equations.Sum, "share_unit", lambda self, trail: None)


@bug("planted", 87)
def product_ignores_a_part(patch):
    def init(self, total, parts, *, real=size_equations.Product.__init__, **more):
        real(self, total, parts[1:] if len(parts) > 1 else parts, **more)

    patch.setattr(size_equations.Product, "__init__", init)


@bug("planted", 0)
def laws_fire_only_once(patch):
    def propagate_axis(trail, dim, real=broadcast.propagate_axis):
        dim = find(dim)
        laws, dim.size_equations = dim.size_equations, None
        real(trail, dim)
        find(dim).size_equations = laws

    everywhere(patch, "propagate_axis", propagate_axis)


@bug("planted", 6)
def totals_leave_out_the_last_row(patch):
    patch.setattr(
        cell_count.CellCount, "axes", property(lambda count: [find(a) for r in count.rows[:2] for a in resolve(r).axes])
    )


@bug("flanks", 1)
def a_size_by_keyword_ignored(patch):
    def name_axis(trail, operation, name, cell):
        operation.labels[name] = cell
        return cell

    patch.setattr(constraint_generation, "name_axis", name_axis)


@bug("planted", 59)
def captures_not_equated(patch):
    patch.setattr(capture.Capture, "equal", lambda self, peer: None)


@bug("planted", 22)
def captures_not_bound(patch):
    patch.setattr(capture.Capture, "bind", lambda self, trail, relation, name: None)


@bug("rows", 8040)
def open_left_sides_size_names(patch):
    def refresh(self, real=defaults.Undecided.refresh):
        real(self)
        self.unsized_leaves = {}

    patch.setattr(defaults.Undecided, "refresh", refresh)


# --- taking back ------------------------------------------------------------------------------------------------------


@bug("sums", 0)
def undo_forgets_lists(patch):
    def undo(self):
        for cell, slot, old in reversed(self.log):
            if slot is not None:
                setattr(cell, slot, old)
        self.log.clear()
        self.queue.clear()

    patch.setattr(Trail, "undo", undo)


@bug("inserted", 26)
def undo_in_the_order_of_the_log(patch):
    def undo(self, real=Trail.undo):
        self.log.reverse()
        real(self)

    patch.setattr(Trail, "undo", undo)


@bug("flanks", 0)
def an_attribute_set_without_the_log(patch):
    def bind(trail, var, value, real=unify.bind):
        real(trail, var, value)
        trail.log[:] = [entry for entry in trail.log if entry[0] is not var]

    everywhere(patch, "bind", bind)


# --- projections ------------------------------------------------------------------------------------------------------


@bug("stretches", 3)
def a_stretched_axis_moves(patch):
    def stretch(written, extents):
        return written[len(written) - len(extents) :]

    patch.setattr(project, "stretch", stretch)


@bug("inserted", 1)
def a_fixed_index_reads_the_first_cell(patch):
    real = project.Box.index
    patch.setattr(
        project.Box, "index",
        lambda self, axis, extent: project.ZERO if isinstance(axis, project.Fixed) else real(self, axis, extent),
    )  # fmt: skip


@bug("planted", 95)
def wildcards_share_a_loop(patch):
    real = project.Box.new_loop

    def new_loop(self, stem, size):
        if stem == "w":
            return self.label_indices.setdefault(("_", size), real(self, stem, size))
        return real(self, stem, size)

    patch.setattr(project.Box, "new_loop", new_loop)


@bug("planted", 39)
def merged_axes_column_major(patch):
    def index(self, axis, extent, real=project.Box.index):
        if isinstance(axis, project.Merged):
            axis = project.Merged(axis.parts[::-1])
        return real(self, axis, extent)

    patch.setattr(project.Box, "index", index)


@bug("planted", 3)
def padded_windows_not_centred(patch):
    def window(self, axis, real=project.Box.window):
        index = real(self, axis)
        return Affine(index.terms) if axis.padding is Padding.SAME else index

    patch.setattr(project.Box, "window", window)


# --- the test ---------------------------------------------------------------------------------------------------------


def complaint(family, seed):
    """Failure of the checks on a system, or an error of the solver."""
    if family == REFUSALS:
        return refused_without_need(range(seed, seed + 250))
    random = Random(f"{family} {seed}")
    system = FAMILIES[family](random)
    try:
        with time_limit(SECONDS):
            return check_answer(system, random, SMALL.get(family), family not in CERTAIN) or check_rollback(system)
    except Exception as error:
        return repr(error)


def finds(bug, family, seed):
    """True if the system fails with the bug and passes without it."""
    project.boxes.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        bug.inject(patch)
        failure = complaint(family, seed)
    project.boxes.cache_clear()
    return bool(failure) and not complaint(family, seed)


@pytest.mark.parametrize("name", BUGS)
def test_a_seeded_bug_is_detected(name):
    bug = BUGS[name]
    systems = [(family, seed) for seed in SEARCHED for family in FAMILIES]
    assert any(finds(bug, *system) for system in [(bug.family, bug.seed), *systems, (REFUSALS, 0)])


def test_enough_bugs():
    assert len(BUGS) >= 40
