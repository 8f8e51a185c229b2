"""Code that is not elaborated yet: a sequence of steps, each of which gives assignments once shapes are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ocannl.base.errors import CodeError
from ocannl.ir.assign import Assign, Block, Comp, Seq
from ocannl.ir.text import print_comp
from ocannl.ir.tnode import TNode

if TYPE_CHECKING:
    from ocannl.lang.core.tensor import Tensor

Step = Callable[[], Iterable[Assign]]
"""Gives the assignments of one statement; asking finishes the inference of what it mentions."""


class Recorder(Protocol):
    """Whoever collects statements at the moment."""

    def splice(self, code: Code) -> None: ...

    def note(self, expression: Tensor) -> None:
        """An expression was written."""
        ...

    def assign_in_place(self, lhs: Tensor, spelling: str, value: object) -> None:
        """`lhs += value` and its likes."""
        ...

    def assign_item(self, lhs: Tensor, key: object, value: object) -> None:
        """`lhs[key] = value`: dots, a spelling, or a spelling and a spec."""
        ...


recorder: ContextVar[Recorder | None] = ContextVar("ocannl_recorder", default=None)


@dataclass(frozen=True, slots=True)
class Heading:
    """Code under a comment that names generated functions and files."""

    text: Callable[[], str]
    code: Code


@dataclass(frozen=True, slots=True)
class Elaborated:
    """What a context compiles: assignments, the nodes somebody asked for (and how), and a name for the routine."""

    comp: Comp
    asked: Mapping[TNode, str]
    name: str


class Code:
    """A piece of code. Inside a recorder, calling it splices it in; mentioning it records nothing.

    `asked` are the nodes whose values somebody wants to read afterwards, and how they said so.
    """

    __slots__ = ("asked", "items")

    def __init__(self, items: tuple[Step | Heading, ...] = (), asked: Mapping[TNode, str] | None = None) -> None:
        self.items = items
        self.asked: Mapping[TNode, str] = asked or {}

    def __call__(self) -> None:
        active = recorder.get()
        if active is None:
            raise CodeError("code is spliced by calling it inside `oc.cd`; to run it use ctx.run(code)")
        active.splice(self)

    def elaborate(self) -> Elaborated:
        """The assignments themselves; finishes inference of everything mentioned."""
        titles = [item.text() for item in self.items if isinstance(item, Heading)]
        titles += [f"{node.label} forward" for node in self.asked]
        return Elaborated(self._comp(), dict(self.asked), titles[0] if titles else "")

    def __str__(self) -> str:
        """The assignments, one a line, each with the box it runs over."""
        return print_comp(self._comp())

    def _comp(self) -> Seq:
        out: list[Comp] = []
        for item in self.items:
            if isinstance(item, Heading):
                out.append(Block(item.text(), item.code._comp()))
            else:
                out.extend(item())
        return Seq(tuple(out))

    def __repr__(self) -> str:
        count = self._count()
        return f"<code: {count} statement{'s' * (count != 1)}>"

    def _count(self) -> int:
        return sum(item.code._count() if isinstance(item, Heading) else 1 for item in self.items)

    def __bool__(self) -> bool:
        raise CodeError("code has no truth value; compile it with ctx.compile(code) or run it with ctx.run(code)")


def seq(*codes: Code) -> Code:
    """The pieces of code one after another."""
    for code in codes:
        if not isinstance(code, Code):
            raise CodeError(f"oc.seq takes code such as t.forward or the result of an `oc.cd` function, not {code!r}")
    asked = {node: why for code in codes for node, why in code.asked.items()}
    return Code(tuple(item for code in codes for item in code.items), asked)


def titled(text: str | Callable[[], str], code: Code) -> Code:
    """The same code under a heading."""
    return Code((Heading(text if callable(text) else lambda: text, code),), code.asked)
