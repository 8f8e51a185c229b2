"""The solver: propagation, and defaulting in stages. Read this first.

Constraints are propagated to a fixpoint when they are emitted. Terms that remain undecided are defaulted only when a
shape is queried, for the tensors connected to it, by the stages below. After a stage has committed defaults, their
consequences are propagated, and the stages start again from the first.
"""

from __future__ import annotations

from ocannl.infer import default_axes, default_rows, row_overlaps
from ocannl.infer.broadcast import propagate_axis
from ocannl.infer.defaults import Default, Stage, Undecided, commit, suggest_leaf_axes
from ocannl.infer.mismatch import Mismatch
from ocannl.infer.terms import DimVar, Trail

STAGES: tuple[tuple[str, Stage], ...] = (
    ("rows of leaves grow to their uses", default_rows.grow_leaves),
    ("axes of counted rows fit their uses", default_axes.fit_counted),
    ("counted rows are filled", default_rows.fill_counted),
    ("equal rows are laid over each other", row_overlaps.overlap_rows),
    ("rows end", default_rows.end_rows),
    ("names that nothing sizes are refused", default_axes.refuse_unsized_names),
    ("axes of leaves fit their uses", default_axes.fit_leaves),
    ("indexed axes reach their indices", default_axes.reach_indices),
    ("axes in arithmetic fit their uses", default_axes.fit_arithmetic),
    ("unconstrained axes of leaves are 1", default_axes.default_leaves),
    ("spare parts of concatenations vanish", default_axes.drop_unused_parts),
    ("computed axes are 1", default_axes.shrink_computed),
)


def propagate(trail: Trail) -> None:
    """Propagates queued changes to a fixpoint."""
    queue = trail.queue
    while queue:
        item = queue.popleft()
        if isinstance(item, DimVar):
            propagate_axis(trail, item)
        else:
            trail.cause = item.cause
            item.fire(trail)


def apply_defaults(trail: Trail, undecided: Undecided, defaults: list[Default]) -> None:
    """Commits defaults, and propagates their consequences."""
    trail.cause = None
    try:
        for default in defaults:
            commit(trail, default)
        propagate(trail)
    except Mismatch as mismatch:
        mismatch.causes = mismatch.causes or (trail.cause,)
        suggest_leaf_axes(mismatch, undecided)
        raise


def decide(trail: Trail, undecided: Undecided) -> None:
    """Runs the stages until all terms are decided."""
    propagate(trail)
    undecided.refresh()
    while undecided.rows:
        for _name, stage in STAGES:
            defaults = stage(undecided)
            if defaults:
                apply_defaults(trail, undecided, defaults)
                break
        else:
            raise AssertionError("the last stage closes whatever is open")
        undecided.refresh()
