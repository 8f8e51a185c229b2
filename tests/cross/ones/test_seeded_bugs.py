"""Bugs that are put into inference on purpose: random programs with axes of size 1 must find every one of them.

Each bug carries the program that is known to find it. Where this program no longer does, since the generator or the
solver has changed, some programs are searched, and the hint should be renewed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from random import Random
from typing import Any, NamedTuple

import pytest
from time_limit import time_limit

from ocannl.infer import (
    broadcast,
    broadcast_results,
    constraint_generation,
    default_axes,
    default_rows,
    leaf_growth,
    project,
    size_equations,
    solve,
    unify,
)
from ocannl.infer import spec as specs
from ocannl.infer.terms import DimVar, Row, find, resolve
from ocannl.ir.affine import Affine
from ones.closed_shape_oracles import Oracle, follows_numpy, ignores_order
from ones.open_shape_oracles import is_minimal, leaves_fit
from ones.oracles import CLOSED, OPEN, VALUES
from ones.seeded_programs import SAMPLE, closed_program, open_program, part_of
from ones.value_oracles import computes_numpy

SEARCHED = range(60)
"""The programs of either family that are tried where the hint of a bug no longer finds it."""

SECONDS = 3.0
"""A program takes hundredths of a second; what takes longer than this counts as endless."""

Patch = pytest.MonkeyPatch


class Bug(NamedTuple):
    """A patch of inference, and the judge and the program that are known to find it."""

    seed_it: Callable[[Patch], None]
    oracle: Oracle
    seed: int


BUGS: dict[str, Bug] = {}
MODULES = (
    size_equations, broadcast, broadcast_results, default_axes, default_rows, constraint_generation, leaf_growth,
    project, solve, unify,
)  # fmt: skip


def bug(oracle: Oracle, seed: int) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def add(seed_bug: Callable[[Patch], None]) -> Callable[[Patch], None]:
        BUGS[seed_bug.__name__.replace("_", " ")] = Bug(seed_bug, oracle, seed)
        return seed_bug

    return add


def everywhere(patch: Patch, name: str, fake: Any) -> None:
    """In every module that has imported it."""
    for module in MODULES:
        if hasattr(module, name):
            patch.setattr(module, name, fake)


# --- results ---------------------------------------------------------------------------------------------------------


@bug(is_minimal, 0)
def results_are_aligned_from_the_front(patch: Patch) -> None:
    def positions(rows: Any) -> Any:
        axes = [row.axes for row in rows]
        return [[row[n] for row in axes if len(row) > n] for n in range(max(map(len, axes)))]

    patch.setattr(broadcast_results, "positions", positions)


@bug(is_minimal, 0)
def a_result_is_as_long_as_its_shortest_operand(patch: Patch) -> None:
    def positions(rows: Any, real: Any = broadcast_results.positions) -> Any:
        return real(rows)[-min(len(row.axes) for row in rows) :]

    patch.setattr(broadcast_results, "positions", positions)


@bug(ignores_order, 0)
def a_unit_is_lost_where_axes_become_equal(patch: Patch) -> None:
    def join(trail: Any, a: DimVar, b: DimVar, real: Any = unify.join) -> None:
        real(trail, a, b)
        if find(a).size not in (None, 1):
            find(a).unit = None

    everywhere(patch, "join", join)


@bug(follows_numpy, 0)
def a_unit_is_lost_in_concatenations(patch: Patch) -> None:
    patch.setattr(size_equations.Sum, "share_unit", lambda law, trail: None)


@bug(is_minimal, 1)
def an_index_of_a_result_is_an_axis_of_size_1(patch: Patch) -> None:
    def new_axis(
        trail: Any, relation: Any, axis: Any, fresh: bool, real: Any = constraint_generation.new_axis
    ) -> DimVar:
        return real(trail, relation, specs.Fixed(0) if fresh and isinstance(axis, specs.Fixed) else axis, fresh)  # type: ignore[no-any-return]

    patch.setattr(constraint_generation, "new_axis", new_axis)


# --- rows and axes of operands ---------------------------------------------------------------------------------------


@bug(is_minimal, 3)
def a_row_variable_takes_an_axis_from_the_wrong_end(patch: Patch) -> None:
    def strip(row: Row, front: int, back: int, real: Any = unify.strip) -> Row:
        return real(row, back, front) if resolve(row).var is None else real(row, front, back)  # type: ignore[no-any-return]

    everywhere(patch, "strip", strip)


@bug(follows_numpy, 41)
def an_index_is_reached_one_cell_early(patch: Patch) -> None:
    real = unify.set_min_size
    everywhere(patch, "set_min_size", lambda trail, dim, min_size: real(trail, dim, min_size - 1))


@bug(follows_numpy, 29)
def a_diagonal_is_not_of_one_size(patch: Patch) -> None:
    real = constraint_generation.match_axis

    def match_axis(trail: Any, relation: Any, axis: Any, cell: DimVar) -> None:
        if not (isinstance(axis, specs.Label) and axis.name in relation.labels):
            real(trail, relation, axis, cell)

    patch.setattr(constraint_generation, "match_axis", match_axis)


@bug(follows_numpy, 29)
def an_operand_is_stretched_from_the_front(patch: Patch) -> None:
    def order_rows(trail: Any, res: Row, opnd: Row, *more: Any, real: Any = broadcast.order_rows) -> None:
        res, opnd = resolve(res), resolve(opnd)
        if res.var is None and opnd.var is None and 0 < opnd.count < res.count:
            res = Row((), None, res.axes[: opnd.count])
        real(trail, res, opnd, *more)

    everywhere(patch, "order_rows", order_rows)


# --- arithmetic ------------------------------------------------------------------------------------------------------


def strided(patch: Patch, change: Callable[[Any], None]) -> None:
    def init(law: Any, *cells: Any, real: Any = size_equations.Strided.__init__, **how: Any) -> None:
        real(law, *cells, **how)
        change(law)

    patch.setattr(size_equations.Strided, "__init__", init)


@bug(follows_numpy, 0)
def a_window_has_a_place_too_many(patch: Patch) -> None:
    real = size_equations.Strided.set_or_check

    def set_or_check(law: Any, trail: Any, cell: DimVar, size: int) -> None:
        real(law, trail, cell, size + (law.padding is specs.Padding.VALID and cell is find(law.over)))

    patch.setattr(size_equations.Strided, "set_or_check", set_or_check)


@bug(follows_numpy, 54)
def a_dilation_is_ignored(patch: Patch) -> None:
    strided(patch, lambda law: setattr(law, "dilation", 1))


@bug(is_minimal, 2)
def an_offset_is_ignored(patch: Patch) -> None:
    strided(patch, lambda law: setattr(law, "offset", 0))


@bug(follows_numpy, 5)
def padding_is_taken_for_none(patch: Patch) -> None:
    strided(
        patch, lambda law: setattr(law, "padding", specs.Padding.VALID) if law.padding is specs.Padding.SAME else None
    )


@bug(follows_numpy, 0)
def a_concatenation_forgets_its_zeros(patch: Patch) -> None:
    def init(law: Any, *cells: Any, constant: int = 0, real: Any = size_equations.Sum.__init__, **how: Any) -> None:
        real(law, *cells, **how)

    patch.setattr(size_equations.Sum, "__init__", init)


@bug(is_minimal, 4)
def a_part_of_size_1_is_not_laid(patch: Patch) -> None:
    def fire(law: Any, trail: Any, real: Any = size_equations.Sum.fire) -> None:
        parts = law.parts
        law.parts = tuple(part for n, part in enumerate(parts) if not n or find(part).size != 1)
        real(law, trail)
        law.parts = parts

    patch.setattr(size_equations.Sum, "fire", fire)


@bug(follows_numpy, 0)
def a_merge_forgets_a_part(patch: Patch) -> None:
    def init(law: Any, complete: Any, parts: Any, real: Any = size_equations.Product.__init__, **how: Any) -> None:
        real(law, complete, parts[:-1] if len(parts) > 1 else parts, **how)

    patch.setattr(size_equations.Product, "__init__", init)


@bug(follows_numpy, 0)
def a_keyword_is_ignored(patch: Patch) -> None:
    def name_axis(trail: Any, relation: Any, name: str, cell: DimVar) -> DimVar:
        relation.labels[name] = cell
        return cell

    patch.setattr(constraint_generation, "name_axis", name_axis)


# --- leaves ----------------------------------------------------------------------------------------------------------


def without_stage(patch: Patch, stage: str) -> None:
    assert any(stage in name for name, _ in solve.STAGES)
    patch.setattr(solve, "STAGES", tuple(row for row in solve.STAGES if stage not in row[0]))


@bug(leaves_fit, 3)
def rows_end_before_leaves_grow(patch: Patch) -> None:
    stages = list(solve.STAGES)
    ending = next(row for row in stages if row[0] == "rows end")
    patch.setattr(solve, "STAGES", (ending, *(row for row in stages if row is not ending)))


@bug(leaves_fit, 3)
def leaves_do_not_grow(patch: Patch) -> None:
    without_stage(patch, "rows of leaves grow")


@bug(leaves_fit, 3)
def axes_of_leaves_do_not_fit(patch: Patch) -> None:
    without_stage(patch, "axes of leaves fit")


@bug(leaves_fit, 3)
def a_leaf_grows_by_an_axis_less(patch: Patch) -> None:
    def of(grown: Any, var: Any, real: Any = leaf_growth.Growth.of) -> int:
        return max(0, real(grown, var) - 1)

    patch.setattr(leaf_growth.Growth, "of", of)


# --- cells -----------------------------------------------------------------------------------------------------------


@bug(computes_numpy, 10)
def a_stretched_axis_moves(patch: Patch) -> None:
    patch.setattr(project, "stretch", lambda written, extents: written[len(written) - len(extents) :])


@bug(computes_numpy, 20)
def merged_axes_are_column_major(patch: Patch) -> None:
    def index(box: Any, axis: Any, extent: int, real: Any = project.Box.index) -> Affine:
        return real(box, specs.Merged(axis.parts[::-1]) if isinstance(axis, specs.Merged) else axis, extent)  # type: ignore[no-any-return]

    patch.setattr(project.Box, "index", index)


@bug(computes_numpy, 20)
def padded_windows_are_not_centred(patch: Patch) -> None:
    def window(box: Any, axis: Any, real: Any = project.Box.window) -> Affine:
        index = real(box, axis)
        return Affine(index.terms) if axis.padding is specs.Padding.SAME else index  # type: ignore[no-any-return]

    patch.setattr(project.Box, "window", window)


@bug(computes_numpy, 20)
def an_index_reads_the_first_cell(patch: Patch) -> None:
    def index(box: Any, axis: Any, extent: int, real: Any = project.Box.index) -> Affine:
        return project.ZERO if isinstance(axis, specs.Fixed) else real(box, axis, extent)  # type: ignore[no-any-return]

    patch.setattr(project.Box, "index", index)


# --- the test --------------------------------------------------------------------------------------------------------


def cases() -> Iterator[tuple[Oracle, int]]:
    """Programs of both families in turn, with all that is judged of them."""
    for seed in SEARCHED:
        for oracle in (*CLOSED, *(VALUES if seed % SAMPLE == 0 else ()), *OPEN):
            yield oracle, seed


def complaint(oracle: Oracle, seed: int) -> str:
    """What a judge says of a new program, or the error with which inference breaks down."""
    program = part_of((open_program if oracle in OPEN else closed_program)(seed), oracle)
    project.boxes.cache_clear()
    try:
        with time_limit(SECONDS):
            return oracle(program, Random(seed))
    except Exception as error:
        return repr(error)
    finally:
        project.boxes.cache_clear()


def finds(bug: Bug, oracle: Oracle, seed: int) -> bool:
    """A judge complains of a program with the bug, and not without."""
    with pytest.MonkeyPatch.context() as patch:
        bug.seed_it(patch)
        message = complaint(oracle, seed)
    return bool(message) and not complaint(oracle, seed)


@pytest.mark.parametrize("name", BUGS)
def test_a_seeded_bug_is_found(name: str) -> None:
    bug = BUGS[name]
    assert any(finds(bug, *case) for case in chain([(bug.oracle, bug.seed)], cases()))


def test_there_are_enough_bugs() -> None:
    assert len(BUGS) >= 20
