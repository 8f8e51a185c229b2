"""Plans that are tried: what the model says is compared with what the machine does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import Access, Home, Proc, Stmt
from ocannl.ir.names import Namer
from ocannl.ir.touch import touches
from ocannl.ir.work import work_of
from ocannl.opt import machine_model as machine
from ocannl.opt.nest import names_of
from ocannl.opt.pipeline import finished
from ocannl.opt.plan import rivals
from ocannl.opt.schedule import Choices, groups
from ocannl.opt.substitute import replace_buffers


class Timer(Protocol):
    """Who knows how long programs take, and remembers what was chosen for which nests."""

    def recall(self, nest: Proc) -> tuple[int, ...] | None:
        """What was chosen for such a nest before."""
        ...

    def remember(self, nest: Proc, chosen: tuple[int, ...]) -> None: ...

    def is_late(self) -> bool:
        """Whether the time is up; who asks has something left to do."""
        ...

    def seconds(self, rivals: Sequence[Proc]) -> list[float] | None:
        """That each of the programs takes, infinite for one that cannot be run; None if memory does not suffice."""
        ...


def search(proc: Proc, capabilities: Capabilities, timer: Timer) -> Choices:
    """The fastest of the rivals of each group in each long nest; the longest nests first, while there is time."""
    found: dict[int, tuple[int, ...]] = {}
    amounts = {place: work_of(stmt) for place, stmt in enumerate(proc.body)}
    for place in sorted(amounts, key=lambda place: (-amounts[place], place)):
        if amounts[place] < machine.MIN_AUTOTUNED_OPS:
            break
        nest = alone(proc, proc.body[place])
        names = Namer(names_of(nest))
        many = [len(rivals(group, capabilities, shared)) for group, shared in groups(proc.body[place], names)]
        if max(many, default=1) == 1:
            continue
        chosen = timer.recall(nest)
        if chosen is None or len(chosen) != len(many) or not all(0 <= n < m for n, m in zip(chosen, many, strict=True)):
            chosen = _fastest(nest, many, capabilities, timer)
            if chosen is None:
                continue  # others may be known
            timer.remember(nest, chosen)
        if any(chosen):
            found[place] = chosen
    return found


def alone(proc: Proc, stmt: Stmt) -> Proc:
    """The statement as a program of its own: it works on arrays of others, where it needs what others have made."""
    shared = touches((stmt,))
    bufs = dict.fromkeys(touch.ref.buf for touch in shared)
    written = {touch.ref.buf for touch in shared if touch.writes}
    new = {
        buf: replace(buf, home=Home.POOL, access=Access.INOUT if buf in written else Access.IN)
        for buf in bufs if buf.access in (Access.OUT, Access.INOUT, Access.TEMP)
    }  # fmt: skip
    return replace_buffers(replace(proc, bufs=tuple(bufs), body=(stmt,), facts=()), new)


def _fastest(nest: Proc, many: list[int], capabilities: Capabilities, timer: Timer) -> tuple[int, ...] | None:
    """One group after the other, the others as they are by then."""
    best = (0,) * len(many)
    for group, count in enumerate(many):
        if count == 1:
            continue
        if timer.is_late():
            return None
        some = [(*best[:group], n, *best[group + 1 :]) for n in range(count)]
        procs = [
            replace(finished(nest, capabilities, {0: choice}), name=f"{nest.name}_{n}") for n, choice in enumerate(some)
        ]
        took = timer.seconds(procs)
        if took is None:
            return None
        best = some[winner(took)]
    return best


def winner(took: Sequence[float]) -> int:
    """The first, unless another one is faster by enough."""
    best = min(range(len(took)), key=took.__getitem__)
    return best if took[best] < machine.MAX_AUTOTUNED_TIME_RATIO * took[0] else 0
