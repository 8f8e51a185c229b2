"""Emits the reduction loops of products of tiles."""

from __future__ import annotations

from collections.abc import Callable

from ocannl.ir.affine import Sym
from ocannl.ir.loops import For

LoopEmitter = Callable[[Sym, int | str, int | str, int, Callable[[], None]], None]
"""Emits a loop over a symbol from a first value to a limit, in steps, whose body the last argument emits."""


def emit_reduction(loops: tuple[For, ...], pairs: int, emit_loop: LoopEmitter, emit_step: Callable[[], None]) -> None:
    """Emits nested loops, whose innermost step processes a number of pairs."""
    if not loops:
        emit_step()
        return
    sym, inner = loops[0].sym, loops[1:]
    step = 1 if inner else pairs
    emit_loop(sym, sym.lo, sym.hi + 1, step, lambda: emit_reduction(inner, pairs, emit_loop, emit_step))
