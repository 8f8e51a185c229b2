"""A routine: a program bound to the arrays of one context, called with the values of its static symbols."""

from __future__ import annotations

import difflib
import operator
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from ocannl.backend.api import Brief, Entry, Number
from ocannl.base.config import TRACE
from ocannl.base.errors import BackendError, CodeError, DataError
from ocannl.ir.index import Sym
from ocannl.ir.tnode import Decision, TNode
from ocannl.runtime.profile import Profile, profile
from ocannl.runtime.program import Program, Stages
from ocannl.runtime.trace import traced

if TYPE_CHECKING:
    from ocannl.runtime.arrays import Resident
    from ocannl.runtime.context import Context

UNKNOWN = -2  # no state


class Routine:
    """Made by `Context.compile`. Calling it is one native call, or puts one into the context's queue.

    Before that, symbols and inputs are checked; an error at that point changes nothing. An exception out of the call
    itself (an interrupt) leaves what the routine writes uninitialized.
    """

    __slots__ = (
        "__weakref__", "_arrays", "_context", "_entry", "_held", "_immediate", "_program", "_settled", "_syms", "_turn",
        "_written",
    )  # fmt: skip

    def __init__(
        self, context: Context, program: Program, entry: Entry, written: Sequence[Resident], held: Sequence[object]
    ) -> None:
        self._context = context
        self._turn = context.lock
        self._arrays = context.arrays
        self._program = program
        self._immediate = context.queue.immediate
        self._entry = entry if self._immediate else partial(context.queue.submit, entry)
        lines = TRACE.get()
        if lines:
            self._entry = traced(context, program, self._entry, lines)
        self._written = dict.fromkeys(written)
        self._held = held  # the memory that the entry is bound to
        self._settled = Number(UNKNOWN)  # the state of the arrays in which a call is allowed and changes none
        self._syms: Mapping[str, Sym] = {sym.name: sym for sym in program.syms}

    def __call__(self, /, **symbols: Any) -> None:
        values = self._values(symbols) if symbols or self._syms else ()
        with self._turn:
            fresh = self._settled.value != self._turn.state
            if fresh:
                self._context.require(self._program)
            try:
                if self._entry(*values):
                    raise BackendError(f"routine `{self.name}` was cancelled")
            except BaseException:
                self._arrays.break_off(self._written)
                raise
            if not self._immediate:
                self._arrays.expect(self._written)
            if fresh:
                self._context.account(self._program)
                self._settled.value = self._turn.state

    def _values(self, given: Mapping[str, object]) -> list[int]:
        values = []
        for name, sym in self._syms.items():
            value = given.get(name)
            if type(value) is not int:
                value = self._integer(name, given)
            if not sym.lo <= value <= sym.hi:
                bounds = f"{sym.lo} <= {name} < {sym.hi + 1}"
                raise DataError(f"symbol `{name}` of routine `{self.name}` holds {bounds}, and is given as {value}")
            values.append(value)
        if len(given) > len(values):
            self._refuse_unknown(given)
        return values

    def _integer(self, name: str, given: Mapping[str, object]) -> int:
        if name not in given:
            raise CodeError(f"routine `{self.name}` needs the symbol `{name}`, e.g. {self.name}({self._example()})")
        number = given[name]
        if isinstance(number, bool | np.bool_) or not isinstance(number, SupportsIndex):
            raise CodeError(f"symbol `{name}` of routine `{self.name}` is an integer, not {number!r}")
        return operator.index(number)

    def _refuse_unknown(self, given: Mapping[str, object]) -> None:
        name = next(n for n in given if n not in self._syms)
        if not self._syms:
            raise CodeError(f"routine `{self.name}` has no symbols, so `{name}` means nothing to it")
        close = difflib.get_close_matches(name, self._syms, 1)
        hint = f"did you mean `{close[0]}`?" if close else f"it has {', '.join(self._syms)}"
        raise CodeError(f"routine `{self.name}` has no symbol `{name}`; {hint}")

    def _example(self) -> str:
        return ", ".join(f"{s.name}={s.lo}" for s in self._syms.values())

    # ------------------------------------------------------------------------------------------------- what it is

    @property
    def name(self) -> str:
        return self._program.name

    @property
    def inputs(self) -> tuple[TNode, ...]:
        """The nodes that must hold something before a call."""
        return self._program.inputs

    @property
    def outputs(self) -> tuple[TNode, ...]:
        """The nodes that hold something new after a call."""
        return self._program.outputs

    @property
    def placements(self) -> Mapping[TNode, Decision]:
        """Where this routine put each node it mentions, and which rule said so."""
        return {fact.node: Decision(fact.placement, fact.author) for fact in self._program.facts}

    def source(self) -> str:
        """The generated text."""
        return self._program.code.source

    def stages(self) -> Stages:
        """The printed program as lowered and after each pass, by the name of the pass; printed, all in a row."""
        return self._program.stages

    def profile(self, calls: int = 10, **symbols: Any) -> Profile:
        """What each loop nest or part of one takes, in time and in bytes, over a number of calls that leave all arrays
        as they are."""
        return profile(self._context, self._program, calls, self._values(symbols))

    def __repr__(self) -> str:
        symbols = ", ".join(f"{s.name} in {s.lo}..{s.hi + 1}" for s in self._syms.values())
        return f"<routine {self.name}({symbols}) on {self._context.backend.name}>"

    def __reduce__(self) -> str:
        raise CodeError(f"routine `{self.name}` is bound to memory of this process; compile it anew where it is needed")


class DirectRoutine(Routine):
    """One whose calls go straight to compiled code when nothing has to be checked, and as any other's when it has."""

    __slots__ = ("__call__",)

    __call__: Callable[..., None]

    def __init__(
        self, context: Context, program: Program, entry: Brief, written: Sequence[Resident], held: Sequence[object]
    ) -> None:
        super().__init__(context, program, entry, written, held)
        this = weakref.ref(self)  # or it would live until somebody looks for cycles

        def otherwise(*given: Any, **symbols: Any) -> None:
            routine = this()
            if routine is None:
                raise CodeError(f"routine `{program.name}` is no more, only its `__call__`")
            Routine.__call__(routine, *given, **symbols)

        self.__call__ = entry.direct(context.lock.open, self._settled, program.syms, otherwise)


def routine(
    context: Context, program: Program, entry: Entry, written: Sequence[Resident], held: Sequence[object]
) -> Routine:
    """The one that the entry allows."""
    if isinstance(entry, Brief) and context.queue.immediate and not TRACE.get():
        return DirectRoutine(context, program, entry, written, held)
    return Routine(context, program, entry, written, held)
