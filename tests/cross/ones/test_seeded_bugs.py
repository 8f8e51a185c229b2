"""Bugs that are put into inference on purpose: random programs with axes of size 1 must find every one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest
from random import Random
from typing import Any

import pytest

from ocannl.infer import arithmetic, broadcast, close_axes, close_rows, generate, growth, project, results, solve, unify
from ocannl.infer import spec as specs
from ocannl.infer.terms import Dim, Row, find, resolve
from ocannl.ir.index import Affine
from ones.closed_judges import Judge
from ones.judges import CLOSED, OPEN, VALUES
from ones.program import Program
from ones.samples import SAMPLE, closed_program, open_program, part_of

PROGRAMS = 2000
"""So many programs of either family are tried before a bug counts as missed: the default of `test_ones`."""

Patch = pytest.MonkeyPatch
Bug = Callable[[Patch], None]
BUGS: dict[str, Bug] = {}
MODULES = (arithmetic, broadcast, close_axes, close_rows, generate, growth, project, results, solve, unify)


def bug(seed: Bug) -> Bug:
    BUGS[seed.__name__.replace("_", " ")] = seed
    return seed


def everywhere(patch: Patch, name: str, fake: Any) -> None:
    """In every module that has imported it."""
    for module in MODULES:
        if hasattr(module, name):
            patch.setattr(module, name, fake)


# --- results ---------------------------------------------------------------------------------------------------------


@bug
def an_axis_of_size_1_is_left_open(patch: Patch) -> None:
    def broadcast_axis(trail: Any, operands: Any, real: Any = results.broadcast_axis) -> Dim:
        if all(results.is_stretchable(find(cell)) for cell in operands):
            axis = Dim()
            for cell in operands:
                results.order(trail, axis, cell)
            return axis
        return real(trail, operands)  # type: ignore[no-any-return]

    patch.setattr(results, "broadcast_axis", broadcast_axis)


@bug
def results_are_aligned_from_the_front(patch: Patch) -> None:
    def positions(rows: Any) -> Any:
        axes = [row.axes for row in rows]
        return [[row[n] for row in axes if len(row) > n] for n in range(max(map(len, axes)))]

    patch.setattr(results, "positions", positions)


@bug
def a_result_is_as_long_as_its_shortest_operand(patch: Patch) -> None:
    def positions(rows: Any, real: Any = results.positions) -> Any:
        return real(rows)[-min(len(row.axes) for row in rows) :]

    patch.setattr(results, "positions", positions)


@bug
def a_result_of_equal_rows_has_a_row_of_its_own(patch: Patch) -> None:
    """Exactness is dropped: the row only fits under those of the operands."""

    def broadcast_rows(trail: Any, operands: Any) -> Row:
        row = results.RowVar()
        for operand, slot in operands:
            broadcast.order_rows(trail, row, operand, slot, False)
        return row

    everywhere(patch, "broadcast_rows", broadcast_rows)


@bug
def a_row_is_not_closed_when_its_operands_are(patch: Patch) -> None:
    patch.setattr(results.BroadcastRow, "fire", lambda broadcast, trail: None)


@bug
def an_axis_is_not_closed_when_its_operands_are(patch: Patch) -> None:
    patch.setattr(results.BroadcastAxis, "fire", lambda broadcast, trail: None)


@bug
def a_unit_does_not_make_an_axis_rigid(patch: Patch) -> None:
    patch.setattr(Dim, "is_rigid", property(lambda dim: dim.least > 1 or dim.size not in (None, 1)))


@bug
def a_unit_is_lost_where_axes_become_equal(patch: Patch) -> None:
    def join(trail: Any, a: Dim, b: Dim, real: Any = unify.join) -> None:
        real(trail, a, b)
        if find(a).size not in (None, 1):
            find(a).unit = None

    everywhere(patch, "join", join)


@bug
def a_unit_is_lost_in_concatenations(patch: Patch) -> None:
    patch.setattr(arithmetic.Sum, "share_unit", lambda law, trail: None)


@bug
def an_index_of_a_result_is_an_axis_of_size_1(patch: Patch) -> None:
    def new_axis(trail: Any, relation: Any, axis: Any, fresh: bool, real: Any = generate.new_axis) -> Dim:
        return real(trail, relation, specs.Fixed(0) if fresh and isinstance(axis, specs.Fixed) else axis, fresh)  # type: ignore[no-any-return]

    patch.setattr(generate, "new_axis", new_axis)


@bug
def a_sum_of_a_result_is_left_open(patch: Patch) -> None:
    def new_axis(trail: Any, relation: Any, axis: Any, fresh: bool, real: Any = generate.new_axis) -> Dim:
        return real(trail, relation, axis, fresh and not isinstance(axis, specs.Window))  # type: ignore[no-any-return]

    patch.setattr(generate, "new_axis", new_axis)


# --- rows and axes of operands ---------------------------------------------------------------------------------------


@bug
def a_label_stretches_axes_of_size_1(patch: Patch) -> None:
    def join(trail: Any, a: Dim, b: Dim, real: Any = unify.join) -> None:
        if {find(a).size, find(b).size} == {1, 2}:
            return
        real(trail, a, b)

    everywhere(patch, "join", join)


@bug
def a_row_variable_takes_an_axis_from_the_wrong_end(patch: Patch) -> None:
    def strip(row: Row, front: int, back: int, real: Any = unify.strip) -> Row:
        return real(row, back, front) if resolve(row).var is None else real(row, front, back)  # type: ignore[no-any-return]

    everywhere(patch, "strip", strip)


@bug
def an_index_is_reached_one_cell_early(patch: Patch) -> None:
    real = unify.set_least
    everywhere(patch, "set_least", lambda trail, dim, least: real(trail, dim, least - 1))


@bug
def a_diagonal_is_not_of_one_size(patch: Patch) -> None:
    def match_axis(trail: Any, relation: Any, axis: Any, cell: Dim, real: Any = generate.match_axis) -> None:
        if not (isinstance(axis, specs.Label) and axis.name in relation.labels):
            real(trail, relation, axis, cell)

    patch.setattr(generate, "match_axis", match_axis)


@bug
def an_operand_is_stretched_from_the_front(patch: Patch) -> None:
    def order_rows(trail: Any, res: Row, opnd: Row, *more: Any, real: Any = broadcast.order_rows) -> None:
        res, opnd = resolve(res), resolve(opnd)
        if res.var is None and opnd.var is None and 0 < opnd.count < res.count:
            res = Row((), None, res.axes[: opnd.count])
        real(trail, res, opnd, *more)

    everywhere(patch, "order_rows", order_rows)


# --- arithmetic ------------------------------------------------------------------------------------------------------


def strided(patch: Patch, change: Callable[[Any], None]) -> None:
    def init(law: Any, *cells: Any, real: Any = arithmetic.Strided.__init__, **how: Any) -> None:
        real(law, *cells, **how)
        change(law)

    patch.setattr(arithmetic.Strided, "__init__", init)


@bug
def a_window_has_a_place_too_many(patch: Patch) -> None:
    def tell(law: Any, trail: Any, cell: Dim, size: int, real: Any = arithmetic.Strided.tell) -> None:
        real(law, trail, cell, size + (law.padding is specs.Padding.VALID and cell is find(law.over)))

    patch.setattr(arithmetic.Strided, "tell", tell)


@bug
def a_dilation_is_ignored(patch: Patch) -> None:
    strided(patch, lambda law: setattr(law, "dilation", 1))


@bug
def an_offset_is_ignored(patch: Patch) -> None:
    strided(patch, lambda law: setattr(law, "offset", 0))


@bug
def padding_is_taken_for_none(patch: Patch) -> None:
    strided(
        patch, lambda law: setattr(law, "padding", specs.Padding.VALID) if law.padding is specs.Padding.SAME else None
    )


@bug
def a_remainder_of_a_stride_is_dropped(patch: Patch) -> None:
    patch.setattr(arithmetic.Strided, "divide", lambda law, room, step, word: max(0, room) // step)


@bug
def an_unmarked_window_sizes_its_axis(patch: Patch) -> None:
    strided(
        patch,
        lambda law: setattr(law, "padding", specs.Padding.VALID) if law.padding is specs.Padding.UNSTATED else None,
    )


@bug
def a_concatenation_forgets_its_zeros(patch: Patch) -> None:
    def init(law: Any, *cells: Any, constant: int = 0, real: Any = arithmetic.Sum.__init__, **how: Any) -> None:
        real(law, *cells, **how)

    patch.setattr(arithmetic.Sum, "__init__", init)


@bug
def a_part_of_size_1_is_not_laid(patch: Patch) -> None:
    def fire(law: Any, trail: Any, real: Any = arithmetic.Sum.fire) -> None:
        parts = law.parts
        law.parts = tuple(part for n, part in enumerate(parts) if not n or find(part).size != 1)
        real(law, trail)
        law.parts = parts

    patch.setattr(arithmetic.Sum, "fire", fire)


@bug
def a_merge_forgets_a_part(patch: Patch) -> None:
    def init(law: Any, whole: Any, parts: Any, real: Any = arithmetic.Product.__init__, **how: Any) -> None:
        real(law, whole, parts[:-1] if len(parts) > 1 else parts, **how)

    patch.setattr(arithmetic.Product, "__init__", init)


@bug
def spare_parts_stay(patch: Patch) -> None:
    patch.setattr(close_axes, "drop_spare", lambda undecided: [])
    patch.setattr(solve, "STAGES", tuple((n, s) for n, s in solve.STAGES if "spare" not in n))


@bug
def a_keyword_is_ignored(patch: Patch) -> None:
    def name_axis(trail: Any, relation: Any, name: str, cell: Dim) -> Dim:
        relation.labels[name] = cell
        return cell

    patch.setattr(generate, "name_axis", name_axis)


# --- leaves ----------------------------------------------------------------------------------------------------------


def without_stage(patch: Patch, stage: str) -> None:
    assert any(stage in name for name, _ in solve.STAGES)
    patch.setattr(solve, "STAGES", tuple(row for row in solve.STAGES if stage not in row[0]))


@bug
def rows_end_before_leaves_grow(patch: Patch) -> None:
    stages = list(solve.STAGES)
    ending = next(row for row in stages if row[0] == "rows end")
    patch.setattr(solve, "STAGES", (ending, *(row for row in stages if row is not ending)))


@bug
def leaves_do_not_grow(patch: Patch) -> None:
    without_stage(patch, "rows of leaves grow")


@bug
def axes_of_leaves_do_not_fit(patch: Patch) -> None:
    without_stage(patch, "axes of leaves fit")


@bug
def a_leaf_grows_by_an_axis_less(patch: Patch) -> None:
    def of(grown: Any, var: Any, real: Any = growth.Growth.of) -> int:
        return max(0, real(grown, var) - 1)

    patch.setattr(growth.Growth, "of", of)


# --- cells -----------------------------------------------------------------------------------------------------------


@bug
def a_stretched_axis_moves(patch: Patch) -> None:
    patch.setattr(project, "stretch", lambda written, extents: written[len(written) - len(extents) :])


@bug
def merged_axes_are_column_major(patch: Patch) -> None:
    def index(box: Any, axis: Any, extent: int, real: Any = project.Box.index) -> Affine:
        return real(box, specs.Merged(axis.parts[::-1]) if isinstance(axis, specs.Merged) else axis, extent)  # type: ignore[no-any-return]

    patch.setattr(project.Box, "index", index)


@bug
def padded_windows_are_not_centred(patch: Patch) -> None:
    def window(box: Any, axis: Any, real: Any = project.Box.window) -> Affine:
        index = real(box, axis)
        return Affine(index.terms) if axis.padding is specs.Padding.SAME else index  # type: ignore[no-any-return]

    patch.setattr(project.Box, "window", window)


@bug
def an_index_reads_the_first_cell(patch: Patch) -> None:
    def index(box: Any, axis: Any, extent: int, real: Any = project.Box.index) -> Affine:
        return project.STILL if isinstance(axis, specs.Fixed) else real(box, axis, extent)  # type: ignore[no-any-return]

    patch.setattr(project.Box, "index", index)


# --- the test --------------------------------------------------------------------------------------------------------


def cases() -> Iterator[tuple[int, Program, Judge]]:
    """Programs of both families in turn, with all that is judged of them."""
    for seed in range(PROGRAMS):
        program, open_ = closed_program(seed), open_program(seed)
        values = VALUES if seed % SAMPLE == 0 else ()
        for judge, judge_of_open in zip_longest((*CLOSED, *values), OPEN):
            if judge is not None:
                yield seed, part_of(program, judge), judge
            if judge_of_open is not None:
                yield seed, part_of(open_, judge_of_open), judge_of_open


def complains(judge: Judge, program: Program, seed: int) -> str:
    """The complaint, or the error with which inference breaks down."""
    try:
        return judge(program, Random(seed))
    except Exception as error:
        return repr(error)


@pytest.mark.parametrize("name", BUGS)
def test_a_seeded_bug_is_found(name: str) -> None:
    """By a program with which nothing is wrong otherwise."""
    for seed, program, judge in cases():
        project.boxes.cache_clear()
        fresh = Program(program.statements, program.asked, program.foreign)
        with pytest.MonkeyPatch.context() as patch:
            BUGS[name](patch)
            complaint = complains(judge, fresh, seed)
        project.boxes.cache_clear()
        if complaint and not complains(judge, program, seed):
            return
    pytest.fail(f"{PROGRAMS} programs of either family do not find it")


def test_there_are_enough_bugs() -> None:
    assert len(BUGS) >= 20
