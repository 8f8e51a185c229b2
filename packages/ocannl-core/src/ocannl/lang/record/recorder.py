"""Recorded code: assignments over nodes, written as Python's own.

    @oc.cd
    def decay(p, *, rate):
        p -= rate * p

    step = decay(p, rate=0.1)            # code; nothing ran
    with oc.cd("merge") as merge: ...    # the same recorder as a context manager

An expression's own code stands where it was written, and vanishes if nothing uses it. The root of a right side is taken
apart: one primitive, or one contraction, of up to three operands becomes the assignment itself.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from contextvars import Token
from types import FrameType
from typing import Any, ParamSpec, overload

from ocannl.base.errors import CodeError
from ocannl.ir.tnode import TNode
from ocannl.lang.blocks import called, is_suspended
from ocannl.lang.core.slots import spelled
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.record.assignments import write, write_naturally
from ocannl.lang.record.code import Code, Heading, Step, recorder
from ocannl.lang.record.statement import Statement

P = ParamSpec("P")
Entry = Any  # Tensor | Statement | Code | (text of a heading, entries)


class Recording(Code):
    """Code that is being recorded; complete once its recorder has ended."""

    __slots__ = ("consumed", "ended", "entries", "_frame", "_text", "_token", "_updated")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.entries: list[Entry] = []
        self.consumed: set[Tensor] = set()  # roots that assignments have taken apart: of themselves they say nothing
        self.ended = False
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
        items, self.asked = _assemble(self.entries, self.consumed)
        self.items = (Heading(lambda: self._text, Code(items)),) if self._text else items
        self.ended = True

    def note(self, expression: Tensor) -> None:
        self._refuse_suspended()
        self.entries.append(expression)

    def splice(self, code: Code) -> None:
        if isinstance(code, Recording) and not code.ended:
            raise CodeError("code cannot contain itself: its recorder has not ended")
        self._refuse_suspended()
        self.entries.append(code)

    def record(self, statement: Statement) -> None:
        self._refuse_suspended()
        self.entries.append(statement)

    def _refuse_suspended(self) -> None:
        """A generator that yields inside of `with oc.cd():` would record what its caller writes."""
        if self._frame is None:
            return
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame is not self._frame:
            frame = frame.f_back
        if frame is None:
            recorder.set(None)
            raise CodeError(
                f"`{self._frame.f_code.co_name}` was left inside its `with oc.cd(...)`, which would record what is "
                "written here; end the recorder before `yield` and `await`"
            )

    def holds(self, expression: Tensor) -> bool:
        """Whether the expression was written in this recorder, with no statement since: its operands still hold what
        they held then."""
        for entry in reversed(self.entries):
            if entry is expression:
                return True
            if not isinstance(entry, Tensor):
                return False
        return False

    def assign_in_place(self, lhs: Tensor, spelling: str, value: object) -> None:
        write(self, lhs, *spelled(spelling), value, None)
        self._updated = lhs

    def assign_item(self, lhs: Tensor, key: object, value: object) -> None:
        if key is Ellipsis:
            write_naturally(self, lhs, value)
        elif isinstance(key, tuple) and len(key) == 2:
            write(self, lhs, *spelled(key[0]), value, key[1])
        elif isinstance(key, str):
            write(self, lhs, *spelled(key), value, None)
        elif value is not self._updated or value is None:  # else this ends `lhs[n] += e`
            raise CodeError(f"`{lhs.label}[n]` is updated in place, by `+=`; to replace it: `{lhs.label}[n][...] = e`")

    # --- as a context manager ----------------------------------------------------------------------------------------

    @overload
    def __call__(self) -> None: ...
    @overload
    def __call__(self, function: Callable[P, object]) -> Callable[P, Code]: ...
    def __call__(self, function: Callable[..., Any] | None = None) -> Any:
        """Splices the code; `@oc.cd("title")` decorates a function whose code has this title."""
        if function is None:
            return super().__call__()
        return _recorded(function, self._text)

    def __enter__(self) -> Recording:
        if self.ended or recorder.get() is self:
            raise CodeError("a recorder is used once; call oc.cd again")
        self._frame = sys._getframe(1)
        self.begin()
        return self

    def __exit__(self, kind: object = None, error: BaseException | None = None, trace: object = None) -> None:
        _explain(error)
        same = recorder.get() is self and sys._getframe(1) is self._frame
        self._frame = None
        if same:
            self.end()
            return
        recorder.set(None)
        raise CodeError("a recorder must end in the function that began it; nothing is recorded any more")

    def elaborate(self) -> Any:
        if not self.ended:
            raise CodeError("this code is still being recorded; use it after its `with` block")
        return super().elaborate()


@overload
def cd(what: Callable[P, object], /) -> Callable[P, Code]: ...
@overload
def cd(what: str = "", /) -> Recording: ...
def cd(what: Any = "", /) -> Any:
    """Records code: as a decorator of a function that writes assignments, or as `with oc.cd("title") as code:`."""
    if isinstance(what, str):
        return Recording(what)
    return _recorded(what, "")


def _recorded(what: Callable[..., Any], title: str) -> Callable[..., Code]:
    if not callable(what):
        raise CodeError(f"oc.cd decorates a function or takes a title, not {what!r}")
    if is_suspended(what):
        raise CodeError(f"`{called(what, 'lambda')}` is a generator or a coroutine; a recorder must end where it began")

    @functools.wraps(what)
    def record(*args: Any, **settings: Any) -> Code:
        recording = Recording(title or called(what, "code"))
        recording.begin()
        try:
            what(*args, **settings)
        except UnboundLocalError as error:
            _explain(error)
            raise
        finally:
            recording.end()
        return recording

    return record


def _explain(error: BaseException | None) -> None:
    """Python takes a name that a function assigns for one of its own, so `p += e` of an outer `p` finds nothing."""
    if isinstance(error, UnboundLocalError):
        error.add_note('to update a tensor of an outer function: `p["=+"] = e`, `p[...] = e`, or oc.assign(p, ...)')


class comment:
    """`with oc.comment("text", t):` inside a recorder: what is written is headed by the text and the labels."""

    def __init__(self, *words: object) -> None:
        self.words = words

    def _text(self) -> str:
        return " ".join(w.label if isinstance(w, Tensor) else str(w) for w in self.words)

    def __enter__(self) -> None:
        active = recorder.get()
        if not isinstance(active, Recording):
            raise CodeError("oc.comment heads code inside `oc.cd`")
        self.active = active
        self.mark = len(active.entries)

    def __exit__(self, *exception: object) -> None:
        inner = self.active.entries[self.mark :]
        del self.active.entries[self.mark :]
        self.active.entries.append((self._text, inner))


def _assemble(entries: list[Entry], consumed: set[Tensor]) -> tuple[tuple[Step | Heading, ...], dict[TNode, str]]:
    """The steps of what was recorded: expressions that something uses, each where it was written."""
    live: set[Tensor] = set()
    _mark(entries, live)
    asked: dict[TNode, str] = {}
    return tuple(_steps(entries, live, consumed, asked)), asked


def _mark(entries: list[Entry], live: set[Tensor]) -> None:
    """From the end, since an expression is used only after it was written."""
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
    entries: list[Entry], live: set[Tensor], consumed: set[Tensor], asked: dict[TNode, str]
) -> Iterable[Step | Heading]:
    for entry in entries:
        match entry:
            case Tensor():
                if entry in live or entry not in consumed:
                    entry.emit()  # also of what nothing uses: its shape constraints stay
                if entry in live:
                    yield entry.value_code
            case Statement():
                yield entry
            case Code():
                asked.update(entry.asked)
                yield from entry.items
            case (text, inner):
                steps = tuple(_steps(inner, live, consumed, asked))
                yield Heading(text, Code(steps))
