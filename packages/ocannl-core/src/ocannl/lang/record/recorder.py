"""The recorder: assignments over nodes, written as Python assignments.

    @oc.cd
    def decay(p, *, rate):
        p -= rate * p

    step = decay(p, rate=0.1)            # code; nothing ran
    with oc.cd("merge") as merge: ...    # the same recorder as a context manager

The code of an expression is placed where the expression was written; unused expressions are dead code and eliminated.
The root of a right side merges into the assignment: one primitive or contraction of up to three operands.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from contextvars import Token
from types import FrameType
from typing import Any, ParamSpec, overload

from ocannl.base.errors import CodeError
from ocannl.base.traceback_filtering import public_class
from ocannl.ir.tnode import TNode
from ocannl.lang.blocks import function_name, is_suspendable
from ocannl.lang.core.slots import parse_assignment
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.record.assignments import store_value, write_assignment
from ocannl.lang.record.code import Code, Heading, Step, recorder
from ocannl.lang.record.statement import Statement
from ocannl.lang.record.threefry_assignment import assign_threefry, threefry_sign

P = ParamSpec("P")
Entry = Any  # Tensor | Statement | Code | (text of a heading, entries)
INTERNAL = ("begin", "end", "note", "splice", "record", "is_current", "assign_augmented", "assign_item")


@public_class(exclude=INTERNAL)
class Recording(Code):
    """Code being recorded; complete when the recorder has ended."""

    __slots__ = ("consumed", "entries", "is_complete", "_frame", "_text", "_token", "_updated")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.entries: list[Entry] = []
        self.consumed: set[Tensor] = set()  # roots merged into assignments: they constrain no shapes
        self.is_complete = False
        self._text = text
        self._token: Token[Any] | None = None
        self._frame: FrameType | None = None
        self._updated: Tensor | None = None

    # --- the recorder ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._token = recorder.set(self)

    def end(self) -> None:
        assert self._token is not None
        recorder.reset(self._token)
        items, self.keep_reasons = _assemble(self.entries, self.consumed)
        self.items = (Heading(lambda: self._text, Code(items)),) if self._text else items
        self.is_complete = True

    def note(self, expression: Tensor) -> None:
        self._refuse_suspended()
        self.entries.append(expression)

    def splice(self, code: Code) -> None:
        if isinstance(code, Recording) and not code.is_complete:
            raise CodeError("code cannot contain itself: its recorder has not ended")
        self._refuse_suspended()
        self.entries.append(code)

    def record(self, statement: Statement) -> None:
        self._refuse_suspended()
        self.entries.append(statement)

    def _refuse_suspended(self) -> None:
        """Raises CodeError if a generator yielded inside `with oc.cd():`, since its caller's code would be recorded."""
        if self._frame is None:
            return
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame is not self._frame:
            frame = frame.f_back
        if frame is None:
            recorder.set(None)
            raise CodeError(
                f"`{self._frame.f_code.co_name}` was suspended inside its `with oc.cd(...)`, which would record "
                "statements of its caller; end the recorder before `yield` and `await`"
            )

    def is_current(self, expression: Tensor) -> bool:
        """Whether the expression was written in this recorder with no statement after it, so that its operands are
        unmodified."""
        for entry in reversed(self.entries):
            if entry is expression:
                return True
            if not isinstance(entry, Tensor):
                return False
        return False

    def assign_augmented(self, lhs: Tensor, spelling: str, value: object) -> None:
        write_assignment(self, lhs, *parse_assignment(spelling), value, None)
        self._updated = lhs

    def assign_item(self, lhs: Tensor, key: object, value: object) -> None:
        if key is Ellipsis:
            store_value(self, lhs, value)
        elif sign := threefry_sign(key):
            assign_threefry(self, lhs, sign, value)
        elif isinstance(key, tuple) and len(key) == 2:
            write_assignment(self, lhs, *parse_assignment(key[0]), value, key[1])
        elif isinstance(key, str):
            write_assignment(self, lhs, *parse_assignment(key), value, None)
        elif value is not self._updated or value is None:  # else this ends `lhs[n] += e`
            raise CodeError(f"`{lhs.label}[n]` is updated in place, by `+=`; to replace it: `{lhs.label}[n][...] = e`")

    # --- as a context manager ----------------------------------------------------------------------------------------

    @overload
    def __call__(self, /) -> None: ...
    @overload
    def __call__(self, function: Callable[P, object], /) -> Callable[P, Code]: ...
    def __call__(self, function: Callable[..., Any] | None = None, /) -> Any:
        """Splices the code; `@oc.cd("title")` decorates a function whose code has this title."""
        if function is None:
            return super().__call__()
        return _recording_function(function, self._text)

    def __enter__(self) -> Recording:
        if self.is_complete or recorder.get() is self:
            raise CodeError("a recorder is used once; call oc.cd again")
        self._frame = sys._getframe(1)
        self.begin()
        return self

    def __exit__(self, kind: object = None, error: BaseException | None = None, trace: object = None) -> None:
        _add_unbound_note(error)
        is_same_frame = recorder.get() is self and sys._getframe(1) is self._frame
        self._frame = None
        if is_same_frame:
            self.end()
            return
        recorder.set(None)
        raise CodeError("a recorder must end in the function that began it; nothing is recorded any more")

    def elaborate(self) -> Any:
        if not self.is_complete:
            raise CodeError("this code is still being recorded; use it after its `with` block")
        return super().elaborate()


@overload
def cd(target: Callable[P, object], /) -> Callable[P, Code]: ...
@overload
def cd(target: str = "", /) -> Recording: ...
def cd(target: Any = "", /) -> Any:
    """Records code, as a decorator of a function that writes assignments or as `with oc.cd("title") as code:`."""
    if isinstance(target, str):
        return Recording(target)
    return _recording_function(target, "")


def _recording_function(function: Callable[..., Any], title: str) -> Callable[..., Code]:
    if not callable(function):
        raise CodeError(f"oc.cd decorates a function or takes a title, not {function!r}")
    if is_suspendable(function):
        name = function_name(function, "lambda")
        raise CodeError(f"`{name}` is a generator or a coroutine; a recorder must end where it began")

    @functools.wraps(function)
    def record(*args: Any, **settings: Any) -> Code:
        recording = Recording(title or function_name(function, "code"))
        recording.begin()
        try:
            function(*args, **settings)
        except UnboundLocalError as error:
            _add_unbound_note(error)
            raise
        finally:
            recording.end()
        return recording

    return record


def _add_unbound_note(error: BaseException | None) -> None:
    """Adds a hint to an UnboundLocalError: `p += e` makes `p` a local variable, so an outer `p` is not found."""
    if isinstance(error, UnboundLocalError):
        error.add_note('to update a tensor of an outer function: `p["=+"] = e`, `p[...] = e`, or oc.assign(p, ...)')


@public_class()
class comment:
    """`with oc.comment("text", t):` inside a recorder: puts code under a heading of the text and the labels."""

    def __init__(self, *parts: object) -> None:
        self.parts = parts

    def _text(self) -> str:
        return " ".join(p.label if isinstance(p, Tensor | TNode) else str(p) for p in self.parts)

    def __enter__(self) -> None:
        active = recorder.get()
        if not isinstance(active, Recording):
            raise CodeError("oc.comment labels code inside `oc.cd`")
        self.active = active
        self.mark = len(active.entries)

    def __exit__(self, *exception: object) -> None:
        inner = self.active.entries[self.mark :]
        del self.active.entries[self.mark :]
        self.active.entries.append((self._text, inner))


def _assemble(entries: list[Entry], consumed: set[Tensor]) -> tuple[tuple[Step | Heading, ...], dict[TNode, str]]:
    """The steps of recorded entries: statements, and the expressions that are used, in recorded order."""
    live: set[Tensor] = set()
    _mark(entries, live)
    keep_reasons: dict[TNode, str] = {}
    return tuple(_steps(entries, live, consumed, keep_reasons)), keep_reasons


def _mark(entries: list[Entry], live: set[Tensor]) -> None:
    """Liveness analysis, backwards: marks the operands of statements and of live expressions."""
    for entry in reversed(entries):
        match entry:
            case Statement():
                live.update(entry.operands)
            case Tensor() if entry in live and entry.application is not None:
                live.update(entry.application.operands)
            case (_, list() as inner):
                _mark(inner, live)
            case _:
                pass


def _steps(
    entries: list[Entry], live: set[Tensor], consumed: set[Tensor], keep_reasons: dict[TNode, str]
) -> Iterable[Step | Heading]:
    for entry in entries:
        match entry:
            case Tensor():
                if entry in live or entry not in consumed:
                    entry.emit()  # shape constraints of unused expressions still apply
                if entry in live:
                    yield entry.value_step(live)
            case Statement():
                yield entry
            case Code():
                keep_reasons.update(entry.keep_reasons)
                yield from entry.items
            case (text, inner):
                steps = tuple(_steps(inner, live, consumed, keep_reasons))
                yield Heading(text, Code(steps))
