"""The passes, in order: read this first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import Proc
from ocannl.ir.tnode import TNode
from ocannl.opt.again import again
from ocannl.opt.fold import fold
from ocannl.opt.fuse import fuse
from ocannl.opt.gather import gather
from ocannl.opt.inline import inline
from ocannl.opt.invert import invert
from ocannl.opt.join import join
from ocannl.opt.layout import layout
from ocannl.opt.memory import memory
from ocannl.opt.number import number
from ocannl.opt.online import online
from ocannl.opt.outer import outer
from ocannl.opt.pad import pad
from ocannl.opt.parts import parts
from ocannl.opt.phase import phase
from ocannl.opt.poll import poll
from ocannl.opt.prefetch import prefetch
from ocannl.opt.rows import rows
from ocannl.opt.schedule import BY_MODEL, Choices, schedule
from ocannl.opt.settle import settle
from ocannl.opt.share import share
from ocannl.opt.stream import stream
from ocannl.opt.sweep import sweep
from ocannl.opt.unite import unite


@dataclass(frozen=True, slots=True)
class Pass:
    name: str
    run: Callable[[Proc], Proc]
    when: bool = True


Chooser = Callable[[Proc], Choices]


def by_model(proc: Proc) -> Choices:
    """All plans as the model has them."""
    return BY_MODEL


def passes(asked: Mapping[TNode, str], capabilities: Capabilities, choose: Chooser = by_model) -> tuple[Pass, ...]:
    """What happens to a lowered program, first to last. Any of them can be left out."""
    grouped, far = capabilities.scheduled or capabilities.grouped, capabilities.caches.far_bytes
    divided = capabilities.scheduled or capabilities.lanes > 0
    return (
        Pass("settle", lambda proc: settle(proc, asked)),  # the others remove temporaries, never what is kept
        Pass("fold", fold),
        Pass("join", join),  # before `inline`, which takes stores
        Pass("inline", lambda proc: inline(proc, grouped)),  # after `fold`: costs are true
        Pass("gather", gather),  # after `inline`: tests of indices are where they are asked
        Pass("unite", unite),  # after `inline`: fewer arrays are left
        Pass("sweep", sweep),  # after these, which leave dead nests behind
        Pass("invert", invert, when=grouped),  # after `gather`, which wants the loops of the scatter
        Pass("fuse", fuse, when=grouped),  # after `sweep`: what is dead is nobody's business
        Pass("layout", lambda proc: layout(proc, capabilities), when=grouped),  # of what `fuse` left
        Pass("outer", lambda proc: outer(proc, capabilities), when=capabilities.scheduled),  # strides are known
        Pass("pad", pad, when=capabilities.scheduled),  # after `outer`, which drops axes
        Pass("again", again, when=capabilities.online),  # before `online`, which keeps what others read
        Pass("online", online, when=capabilities.online),  # before `rows`, which takes softmax apart by rows alone
        Pass("rows", lambda proc: rows(proc, capabilities), when=grouped),  # strides are final
        Pass("parts", lambda proc: parts(proc, lanes=capabilities.lanes), when=divided),  # after `rows`
        Pass("schedule", lambda proc: schedule(proc, capabilities, choose(proc)), when=capabilities.scheduled),
        Pass("number", number, when=grouped),  # after `schedule`, which takes perfect nests
        Pass("prefetch", lambda proc: prefetch(proc, far), when=capabilities.scheduled),  # after `schedule`:
        Pass("stream", lambda proc: stream(proc, far), when=capabilities.scheduled),  # these look at vectors
        Pass("phase", phase, when=capabilities.scheduled),  # after `stream`, which looks at nests by themselves
        Pass("share", share, when=capabilities.scheduled),  # before `poll`, which divides loops
        Pass("poll", poll, when=capabilities.scheduled),
        Pass("memory", lambda proc: memory(proc, capabilities.alignment_bytes)),  # last: knows who lives with whom
    )


def optimize(
    proc: Proc,
    asked: Mapping[TNode, str],
    capabilities: Capabilities,
    on_stage: Callable[[str, Proc], None] | None = None,
    without: frozenset[str] = frozenset(),
    choose: Chooser = by_model,
) -> Proc:
    """The program that a backend gets: same results in every kept node, summed perhaps in another order.

    `asked` are the nodes that somebody wants to look at afterwards, and who; `on_stage` sees the program after each
    pass; passes named in `without` are left out; `choose` may prefer other plans than the model.
    """
    table = passes(asked, capabilities, choose)
    unknown = without - {each.name for each in table}
    if unknown:
        known = ", ".join(each.name for each in table)
        raise ValueError(f"no pass is called {', '.join(sorted(unknown))}; there are {known}")
    for each in table:
        if each.when and each.name not in without:
            proc = each.run(proc)
            if on_stage is not None:
                on_stage(each.name, proc)
    return proc


def finished(proc: Proc, capabilities: Capabilities, choices: Choices) -> Proc:
    """The program after the last passes, from that on which makes these choices."""
    table = passes({}, capabilities, lambda proc: choices)
    first = [each.name for each in table].index("schedule")
    for each in table[first:]:
        proc = each.run(proc)
    return proc
