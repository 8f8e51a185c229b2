"""The loop over the stages of inference: read this first.

Constraints are propagated when they are emitted: whatever follows from what is known is drawn at once. What remains
open is decided only when somebody asks, for the tensors connected to the one that was asked, by the stages below. After
a stage has decided something, consequences are drawn, and the stages start again from the first.
"""

from __future__ import annotations

from ocannl.infer import close_axes, close_rows
from ocannl.infer.broadcast import propagate_axis
from ocannl.infer.close import Default, Stage, Undecided, commit, suggest_leaf_axes
from ocannl.infer.mismatch import Mismatch
from ocannl.infer.terms import Dim
from ocannl.infer.trail import Trail

STAGES: tuple[tuple[str, Stage], ...] = (
    ("rows of leaves grow to their uses", close_rows.grow_leaves),
    ("operands have the axes of their results", close_rows.fit_operands),
    ("axes of counted rows fit their uses", close_axes.fit_counted),
    ("counted rows are filled", close_rows.fill_counted),
    ("equal rows are laid over each other", close_rows.overlap_rows),
    ("rows end", close_rows.end_rows),
    ("axes of leaves fit their uses", close_axes.fit_leaves),
    ("indexed axes reach their indices", close_axes.reach_indices),
    ("axes in arithmetic fit their uses", close_axes.fit_arithmetic),
    ("spare parts of concatenations vanish", close_axes.drop_unused_parts),
    ("axes of leaves that nobody told are 1", close_axes.default_leaves),
    ("what is computed is 1", close_axes.shrink_computed),
)


def propagate(trail: Trail) -> None:
    """Draw consequences until there are none."""
    queue = trail.queue
    while queue:
        item = queue.popleft()
        if isinstance(item, Dim):
            propagate_axis(trail, item)
        else:
            trail.cause = item.cause
            item.fire(trail)


def apply_defaults(trail: Trail, undecided: Undecided, defaults: list[Default]) -> None:
    """Make decisions, and draw the consequences."""
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
    """Stage after stage, until nothing is open."""
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
