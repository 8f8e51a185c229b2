"""Code before elaboration: a sequence of steps that yield assignments once shapes are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ocannl.base import html_text, training_names
from ocannl.base.errors import CodeError
from ocannl.base.spelling import refused, with_answers
from ocannl.base.traceback_filtering import public_class
from ocannl.ir.assign import Comp, LabeledBlock, Seq
from ocannl.ir.printer import print_comp
from ocannl.ir.tnode import TNode

Target = TypeVar("Target", contravariant=True)
Step = Callable[[], Iterable[Comp]]
"""Yields the code of one statement; finishes inference of the tensors in it."""


class Recorder(Protocol[Target]):
    """The active recorder, which collects statements about tensors, of type `Target`."""

    def splice(self, code: Code) -> None: ...

    def note(self, expression: Target) -> None:
        """Records that an expression was built."""
        ...

    def assign_augmented(self, lhs: Target, spelling: str, value: object) -> None:
        """Records an augmented assignment, such as `lhs += value`."""
        ...

    def assign_item(self, lhs: Target, key: object, value: object) -> None:
        """Records `lhs[key] = value`, where `key` is `...`, an operator, or an operator and a spec."""
        ...


recorder: ContextVar[Recorder[Any] | None] = ContextVar("ocannl_recorder", default=None)
state_recorder: ContextVar[Recorder[Any] | None] = ContextVar("ocannl_state_recorder", default=None)
"""Records the assignments to states in the block that is applied; None in blocks without states."""


@dataclass(frozen=True, slots=True)
class Heading:
    """Code under a heading, which names generated functions and files."""

    text: Callable[[], str]
    code: Code


@dataclass(frozen=True, slots=True)
class Elaborated:
    """The input of a compilation: assignments, the nodes to keep with the reasons, and the name of the routine."""

    comp: Comp
    keep_reasons: Mapping[TNode, str]
    name: str


@with_answers(training_names.CODE)
@public_class()
class Code:
    """A piece of code. Inside a recorder, a call splices it in; a mere reference records nothing.

    `keep_reasons` maps the nodes whose values must be kept to the reason.
    """

    __slots__ = ("items", "keep_reasons")

    def __init__(self, items: tuple[Step | Heading, ...] = (), keep_reasons: Mapping[TNode, str] | None = None) -> None:
        self.items = items
        self.keep_reasons: Mapping[TNode, str] = keep_reasons or {}

    def __call__(self) -> None:
        active = recorder.get()
        if active is None:
            raise CodeError("code is spliced by calling it inside `oc.cd`; to run it use ctx.run(code)")
        active.splice(self)

    __add__ = refused("code is sequenced: write oc.seq(first, second)")
    __getitem__ = __iter__ = refused("code has no parts: print it, or write routine.profile() for their times")

    def elaborate(self) -> Elaborated:
        """The assignments; finishes inference of all tensors in the code."""
        titles = [item.text() for item in self.items if isinstance(item, Heading)]
        titles += [f"{node.label} forward" for node in self.keep_reasons]
        return Elaborated(self._comp(), dict(self.keep_reasons), titles[0] if titles else "")

    def __str__(self) -> str:
        """The assignments, one per line, with their iteration domains."""
        return print_comp(self._comp())

    def _comp(self) -> Seq:
        out: list[Comp] = []
        for item in self.items:
            if isinstance(item, Heading):
                out.append(LabeledBlock(item.text(), item.code._comp()))
            else:
                out.extend(item())
        return Seq(tuple(out))

    def __repr__(self) -> str:
        count = self._count()
        return f"<code: {count} statement{'s' * (count != 1)}>"

    def _repr_html_(self) -> str:
        return html_text.title(repr(self)) + html_text.code(str(self))

    def _count(self) -> int:
        return sum(item.code._count() if isinstance(item, Heading) else 1 for item in self.items)

    def __bool__(self) -> bool:
        raise CodeError("code has no truth value; compile it with ctx.compile(code) or run it with ctx.run(code)")


def seq(*codes: Code) -> Code:
    """Concatenates pieces of code."""
    for code in codes:
        if not isinstance(code, Code):
            raise CodeError(f"oc.seq takes code such as t.forward or the result of an `oc.cd` function, not {code!r}")
    keep_reasons = {node: why for code in codes for node, why in code.keep_reasons.items()}
    return Code(tuple(item for code in codes for item in code.items), keep_reasons)


def titled(text: str | Callable[[], str], code: Code) -> Code:
    """The code under a heading."""
    return Code((Heading(text if callable(text) else lambda: text, code),), code.keep_reasons)
