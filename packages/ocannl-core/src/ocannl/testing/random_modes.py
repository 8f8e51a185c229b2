"""Random legal modes for the loops of a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from ocannl.base.errors import VerifyError
from ocannl.ir.affine import Sym
from ocannl.ir.loops import For, Mode, Proc
from ocannl.ir.verify import Stage, verify
from ocannl.ir.walk import Node, rewrite_body, walk

MAX_TRIP_COUNT = 40  # of an unrolled or vectorized loop


def with_random_modes(proc: Proc, random: Random, stage: Stage) -> Proc:
    """Unrolls or vectorizes most loops, innermost first, where `verify` accepts the result."""
    loops = [node for node in walk(proc.body) if isinstance(node, For) and not node.parallel_chunk]
    for candidate in reversed(loops):
        if candidate.sym.extent > MAX_TRIP_COUNT or candidate.mode is not Mode.SERIAL or random.random() < 0.2:
            continue
        wanted = random.choice((Mode.VECTORIZED, Mode.VECTORIZED, Mode.UNROLLED))
        changed = with_modes(proc, {candidate.sym: wanted})
        try:
            verify(changed, stage)
        except VerifyError:
            continue
        proc = changed
    return proc


def with_modes(proc: Proc, modes: Mapping[Sym, Mode]) -> Proc:
    def rule(node: Node) -> Node:
        return replace(node, mode=modes[node.sym]) if isinstance(node, For) and node.sym in modes else node

    return replace(proc, body=rewrite_body(proc.body, rule))
