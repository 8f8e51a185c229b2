"""The loop over the stages of inference: read this first.

Constraints are propagated as soon as they are emitted: whatever follows from what is known is drawn at once. What remains
open is decided only when somebody asks, for the tensors connected to the one that was asked, by the stages below. After a
stage has decided anything, consequences are drawn, and the stages start again from the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ocannl.infer import close
from ocannl.infer.broadcast import settle
from ocannl.infer.close import Closing, Open
from ocannl.infer.terms import Dim
from ocannl.infer.trail import Trail

Stage = Callable[[Open], Iterator[Closing]]

STAGES: tuple[tuple[str, Stage], ...] = (
    ("rows of leaves grow to their uses", close.grow_leaves),
    ("equal rows that only overlap are laid apart", close.overlap_rows),
    ("rows end", close.end_rows),
    ("axes of leaves fit their uses", close.fit_leaves),
    ("indexed axes reach their indices", close.reach_indices),
    ("axes in arithmetic fit their uses", close.fit_computed),
    ("parts of concatenations that nothing needs vanish", close.drop_parts),
    ("axes of leaves without uses are 1, those of parameters an error", close.free_leaves),
    ("what is computed is 1", close.shrink_computed),
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


def decide(trail: Trail, it: Open) -> None:
    """Stage after stage, until nothing is open."""
    propagate(trail)
    it.refresh()
    while it.rows:
        for _name, stage in STAGES:
            closings = list(stage(it))
            if closings:
                for closing in closings:
                    closing(trail)
                propagate(trail)
                break
        else:
            raise AssertionError("the last stage closes whatever is open")
        it.refresh()
