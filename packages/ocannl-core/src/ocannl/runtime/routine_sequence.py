"""Sequences of routines, which compute together what a single routine would."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ocannl.base.errors import CodeError
from ocannl.ir.tnode import TNode
from ocannl.runtime.routine import Routine


class RoutineSequence:
    """Routines of one context that are called in order."""

    def __init__(self, routines: Sequence[Routine]) -> None:
        self.routines = tuple(routines)

    def calls(self, symbols: Mapping[str, Any]) -> list[Callable[[], None]]:
        """The calls of all routines, each with the symbols that it has.

        Raises: CodeError, DataError for a symbol of none and for missing or invalid values; no routine is called then.
        """
        listed = [routine.program.syms for routine in self.routines]
        names = {sym.name for syms in listed for sym in syms}
        unknown = next((name for name in symbols if name not in names), None)
        if unknown is not None:
            raise CodeError(f"`{self.routines[0].name}` has no symbol `{unknown}`")
        values = [{sym.name: symbols[sym.name] for sym in syms if sym.name in symbols} for syms in listed]
        for routine, arguments in zip(self.routines, values, strict=True):
            routine.check_symbols(arguments)
        return [partial(routine, **arguments) for routine, arguments in zip(self.routines, values, strict=True)]

    def source(self) -> str:
        return "\n".join(routine.source() for routine in self.routines)

    @property
    def inputs(self) -> tuple[TNode, ...]:
        """The nodes that must be initialized before the first routine."""
        written: set[TNode] = set()
        inputs: dict[TNode, None] = {}
        for routine in self.routines:
            inputs.update((node, None) for node in routine.inputs if node not in written)
            written.update(routine.outputs)
        return tuple(inputs)

    @property
    def outputs(self) -> tuple[TNode, ...]:
        return tuple(dict.fromkeys(node for routine in self.routines for node in routine.outputs))
