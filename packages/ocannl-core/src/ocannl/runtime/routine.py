"""Routines: programs bound to the arrays of one context, called with the values of their static symbols."""

from __future__ import annotations

import difflib
import operator
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

import numpy as np

from ocannl.backend.api import DirectCallable, Entry, SharedInt64
from ocannl.base import extensions, html_text, spelling
from ocannl.base.config import TRACE
from ocannl.base.errors import ArgumentError, BackendError, CodeError, DataError
from ocannl.base.traceback_filtering import public, public_class
from ocannl.ir.affine import Sym
from ocannl.ir.tnode import Decision, TNode
from ocannl.runtime.binding import Binding
from ocannl.runtime.context_protocol import ExecutionContext
from ocannl.runtime.host_calls import PartsEntry
from ocannl.runtime.profile import Profile, profile
from ocannl.runtime.program import Program, Stages
from ocannl.runtime.saved_text import save_text
from ocannl.runtime.trace import with_trace

if TYPE_CHECKING:
    from ocannl.runtime.device_arrays import Resident

NO_EPOCH = -2  # differs from every epoch


@public_class()
class Routine:
    """A compiled routine, created by `Context.compile`. A call executes the program, or submits it to the queue.

    Symbols and inputs are checked first; an error in a check has no effect on arrays. An exception during execution (an
    interrupt) leaves the outputs of the routine uninitialized.
    """

    __slots__ = (
        "__weakref__", "_arrays", "_bound", "_checked_epoch", "_context", "_entry", "_immediate", "_lock", "_program",
        "_syms", "_written",
    )  # fmt: skip

    def __init__(
        self,
        context: ExecutionContext,
        program: Program,
        bound: Binding,
        written: Sequence[Resident],
    ) -> None:
        entry: Entry = bound.entry
        self._context = context
        self._lock = context.lock
        self._arrays = context.arrays
        self._program = program
        self._immediate = context.queue.immediate
        has_parts = isinstance(entry, PartsEntry)
        self._entry = entry if self._immediate or has_parts else partial(context.queue.submit, entry)
        lines = TRACE.get()
        if lines and not has_parts:
            self._entry = with_trace(context, program, self._entry, lines)
        self._written = dict.fromkeys(written)
        self._bound = bound
        self._checked_epoch = SharedInt64(NO_EPOCH)  # in this epoch, calls are valid and leave validity unchanged
        self._syms: Mapping[str, Sym] = {sym.name: sym for sym in program.syms}

    def __getattr__(self, name: str) -> NoReturn:
        raise spelling.missing(self, name, spelling.ROUTINE)

    def __getitem__(self, key: object) -> NoReturn:
        raise ArgumentError("a routine holds no values: call it, and read ctx[t] for a tensor that it computes")

    def __call__(self, /, **symbols: Any) -> None:
        values = self._values(symbols) if symbols or self._syms else ()
        with self._lock:
            must_check = self._checked_epoch.value != self._lock.epoch
            if must_check:
                self._context.prepare_run(self._program)
                self._bound.prepare_run()
            try:
                if self._entry(*values):
                    raise BackendError(f"routine `{self.name}` was cancelled")
            except BaseException:
                self._arrays.invalidate(self._written)
                raise
            if not self._immediate:
                self._arrays.add_pending(self._written)
            if must_check:
                self._context.record_run(self._program)
                if self._bound.is_settled:
                    self._checked_epoch.value = self._lock.epoch

    def check_symbols(self, symbols: Mapping[str, object]) -> None:
        """Raises: CodeError or DataError unless a call with these symbols would be valid."""
        self._values(symbols)

    def _values(self, symbols: Mapping[str, object]) -> list[int]:
        values = []
        for name, sym in self._syms.items():
            value = symbols.get(name)
            if type(value) is not int:
                value = self._integer(name, symbols)
            if not sym.lo <= value <= sym.hi:
                bounds = f"{sym.lo} <= {name} < {sym.hi + 1}"
                raise DataError(f"symbol `{name}` of routine `{self.name}` must satisfy {bounds}, but is {value}")
            values.append(value)
        if len(symbols) > len(values):
            self._refuse_unknown(symbols)
        return values

    def _integer(self, name: str, symbols: Mapping[str, object]) -> int:
        if name not in symbols:
            raise CodeError(f"routine `{self.name}` needs the symbol `{name}`, e.g. {self.name}({self._example()})")
        number = symbols[name]
        if isinstance(number, bool | np.bool_) or not isinstance(number, SupportsIndex):
            raise CodeError(f"symbol `{name}` of routine `{self.name}` is an integer, not {number!r}")
        return operator.index(number)

    def _refuse_unknown(self, symbols: Mapping[str, object]) -> None:
        name = next(n for n in symbols if n not in self._syms)
        if not self._syms:
            raise CodeError(f"routine `{self.name}` has no symbols, but `{name}` is given")
        close = difflib.get_close_matches(name, self._syms, 1)
        hint = f"did you mean `{close[0]}`?" if close else f"it has {', '.join(self._syms)}"
        raise CodeError(f"routine `{self.name}` has no symbol `{name}`; {hint}")

    def _example(self) -> str:
        return ", ".join(f"{s.name}={s.lo}" for s in self._syms.values())

    # ------------------------------------------------------------------------------------------------- inspection

    @property
    def name(self) -> str:
        return self._program.name

    @property
    def program(self) -> Program:
        """The compiled program, which is not bound to the context."""
        return self._program

    @property
    def context(self) -> ExecutionContext:
        """The context with the arrays of the routine."""
        return self._context

    @property
    def inputs(self) -> tuple[TNode, ...]:
        """The nodes that must be initialized before a call."""
        return self._program.inputs

    @property
    def outputs(self) -> tuple[TNode, ...]:
        """The nodes written by a call."""
        return self._program.outputs

    @property
    def placements(self) -> Mapping[TNode, Decision]:
        """The placement of each node of the routine, and the rule that decided it."""
        return {fact.node: Decision(fact.placement, fact.pass_name) for fact in self._program.facts}

    def source(self) -> str:
        """Returns the generated source text."""
        return self._program.code.source

    def stages(self) -> Stages:
        """Returns the printed program as lowered and after each pass, keyed by the name of the pass."""
        return self._program.stages

    def save_text(self, folder: str | PathLike[str]) -> list[Path]:
        """Writes the assignments, the program after each pass and the generated source to files in a folder, named
        after the routine. Returns the paths."""
        return save_text(self._program, self._context.backend, folder)

    def profile(self, calls: int = 10, **symbols: Any) -> Profile:
        """Measures the time and memory traffic of each loop nest, or part of one, over a number of calls. All arrays
        are restored afterwards."""
        return profile(self._context, self._program, calls, self._values(symbols))

    @property
    def precomputed_bytes(self) -> int:
        """The memory for arrays that depend on weights only and are kept from one call to the next."""
        return sum(arrays.slab.size_bytes for arrays in self._bound.precomputed)

    @property
    def repacks_weights(self) -> bool:
        """Whether every call computes these arrays, because other routines or libraries may write the weights."""
        is_checked = self._checked_epoch.value == self._lock.epoch
        return not is_checked and any(arrays.may_change for arrays in self._bound.precomputed)

    def explore(self, path: str | PathLike[str], *, profile: Profile | None = None) -> Path:
        """Writes a page of HTML that shows the routine from its Python source to the generated code, with the times of
        a profile. Needs the distribution ocannl-explorer."""
        page: Path = extensions.load("explore")(self, path, profile=profile)  # type: ignore[misc]
        return page

    def __repr__(self) -> str:
        symbols = ", ".join(f"{s.name} in {s.lo}..{s.hi + 1}" for s in self._syms.values())
        return f"<routine {self.name}({symbols}) on {self._context.backend.name}>"

    def _repr_html_(self) -> str:
        """A table of the arrays, with their placements."""
        rows = [
            (node.path or node.label, ", ".join(map(str, node.dims)), str(node.precision), str(decision.placement),
             decision.author)
            for node, decision in self.placements.items()
        ]  # fmt: skip
        columns = ("array", "sizes", "type", "placement", "decided by")
        return html_text.title(repr(self)) + html_text.table(columns, rows)

    def __reduce__(self) -> str:
        raise CodeError(f"routine `{self.name}` is bound to memory of this process; compile it in the other process")


class DirectRoutine(Routine):
    """A routine whose calls bypass Python while the epoch is unchanged since the last check."""

    __slots__ = ("__call__",)

    __call__: Callable[..., None]

    def __init__(
        self,
        context: ExecutionContext,
        program: Program,
        bound: Binding,
        entry: DirectCallable,
        written: Sequence[Resident],
    ) -> None:
        super().__init__(context, program, bound, written)
        routine_ref = weakref.ref(self)  # a strong reference would form a cycle

        @public  # called by native code, thus the outermost frame of the framework
        def fallback(*args: Any, **symbols: Any) -> None:
            routine, _memory = routine_ref(), bound  # direct calls use the memory as long as this function lives
            if routine is None:
                raise CodeError(f"routine `{program.name}` is no more, only its `__call__`")
            Routine.__call__(routine, *args, **symbols)

        self.__call__ = entry.vectorcall(context.lock.epoch_if_free, self._checked_epoch, program.syms, fallback)


def routine(
    context: ExecutionContext, program: Program, bound: Binding, written: Sequence[Resident]
) -> Routine:
    """Creates a `DirectRoutine` if the entry supports direct calls, otherwise a `Routine`."""
    entry = bound.entry
    if isinstance(entry, DirectCallable) and context.queue.immediate and not TRACE.get():
        return DirectRoutine(context, program, bound, entry, written)
    return Routine(context, program, bound, written)
