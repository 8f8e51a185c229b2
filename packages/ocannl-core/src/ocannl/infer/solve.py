"""The loop over the stages of inference: read this first.

Constraints are propagated when they are emitted: whatever follows from what is known is drawn at once. What remains
open is decided only when somebody asks, for the tensors connected to the one that was asked, by the stages below. After
a stage has decided something, consequences are drawn, and the stages start again from the first.
"""

from __future__ import annotations

from ocannl.infer import close_axes, close_rows
from ocannl.infer.broadcast import settle
from ocannl.infer.close import Closing, Open, Stage, ask_more, commit
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
    ("spare parts of concatenations vanish", close_axes.drop_spare),
    ("axes of leaves that nobody told are 1", close_axes.free_leaves),
    ("what is computed is 1", close_axes.shrink_computed),
)


def propagate(trail: Trail) -> None:
    """Draw consequences until there are none."""
    queue = trail.queue
    while queue:
        item = queue.popleft()
        if isinstance(item, Dim):
            settle(trail, item)
        else:
            trail.cause = item.cause
            item.fire(trail)


def conclude(trail: Trail, it: Open, closings: list[Closing]) -> None:
    """Make decisions, and draw the consequences."""
    trail.cause = None
    try:
        for closing in closings:
            commit(trail, closing)
        propagate(trail)
    except Mismatch as mismatch:
        mismatch.causes = mismatch.causes or (trail.cause,)
        ask_more(mismatch, it)
        raise


def decide(trail: Trail, it: Open) -> None:
    """Stage after stage, until nothing is open."""
    propagate(trail)
    it.refresh()
    while it.rows:
        for _name, stage in STAGES:
            closings = stage(it)
            if closings:
                conclude(trail, it, closings)
                break
        else:
            raise AssertionError("the last stage closes whatever is open")
        it.refresh()
