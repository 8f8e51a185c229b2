"""Overlap of communication and computation, without threads: sums continue between the parts of a computation."""

from __future__ import annotations

from ocannl.runtime.world import Completion, World
from ocannl.train.slab_sums import Completions


class SumInProgress:
    """A sum, and the completion that it waits for; None at its end."""

    def __init__(self, completions: Completions) -> None:
        self._completions = completions
        self.awaited: Completion | None = next(completions, None)

    def advance(self) -> bool:
        """Continues as far as possible without waiting. Returns false at the end."""
        while self.awaited is not None and self.awaited.is_done():
            self.awaited = next(self._completions, None)
        return self.awaited is not None


class Overlap:
    """The sums in progress during a step."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sums: list[SumInProgress] = []

    def begin(self, completions: Completions) -> None:
        """Adds a sum, and continues all."""
        self._sums.append(SumInProgress(completions))
        self._sums = [active for active in self._sums if active.advance()]

    def finish(self) -> None:
        """Waits for all sums."""
        while self._sums:
            first = self._sums[0]
            if first.awaited is not None:
                self._world.wait(first.awaited)
            self._sums = [active for active in self._sums if active.advance()]
