"""Nests in whichever way of the backend's is the fastest."""

from __future__ import annotations

from ocannl.backend.api import Code, Tunable
from ocannl.base.errors import CompileError
from ocannl.codegen.nests import nests
from ocannl.ir.loops import Proc
from ocannl.ir.work import work
from ocannl.opt import machine_model as machine
from ocannl.opt.search import winner
from ocannl.runtime.benchmark import Timer
from ocannl.runtime.profile import program_of


def tuned(proc: Proc, backend: Tunable, timer: Timer) -> tuple[int, ...]:
    """The way of each nest; the longest nests are tried first, while there is time."""
    pieces = [program_of(f"{proc.name}_{place}", proc, nest) for place, nest in enumerate(nests(proc))]
    amounts = [work(piece.body) for piece in pieces]
    found = [0] * len(pieces)
    for place in sorted(range(len(pieces)), key=lambda place: (-amounts[place], place)):
        piece, ways = pieces[place], backend.ways(pieces[place])
        found[place] = ways[0]
        if amounts[place] < machine.MIN_AUTOTUNED_OPS or len(ways) == 1:
            continue
        known = timer.recall(piece)
        if known is None or len(known) != 1 or known[0] not in ways:
            way = _fastest(piece, backend, timer)
            if way is None:
                continue
            known = (way,)
            timer.remember(piece, known)
        (found[place],) = known
    return tuple(found)


def _fastest(piece: Proc, backend: Tunable, timer: Timer) -> int | None:
    if timer.is_late():
        return None
    ways = backend.ways(piece)
    codes = [_compiled(piece, backend, way) for way in ways]
    took = timer.compared([piece] * len(ways), codes)
    if took is None:
        return None
    return ways[winner(took)]


def _compiled(piece: Proc, backend: Tunable, way: int) -> Code | None:
    try:
        return backend.compile_in([piece], [[way]])
    except CompileError:
        return None
