"""A compiled program: code, and all that a context has to know to bind and run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ocannl.backend.api import Code
from ocannl.ir.assign import Comp
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.index import Sym
from ocannl.ir.loops import Access, Fact, Home, Proc
from ocannl.ir.text import print_proc
from ocannl.ir.tnode import Placement, TNode
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize
from ocannl.opt.schedule import Choices


@dataclass(frozen=True, slots=True)
class Link:
    """An array that code is bound to, in the order in which `Backend.link` takes them."""

    node: TNode
    access: Access


def links(proc: Proc) -> tuple[Link, ...]:
    """The arrays outside of the program that it works on."""
    found = []
    for buf in proc.bufs:
        if buf.home is Home.POOL:
            assert buf.node is not None, f"the pool array `{buf.name}` of `{proc.name}` belongs to no node"
            found.append(Link(buf.node, buf.access))
    return tuple(found)


class Stages(dict[str, str]):
    """The printed program after each pass, by the name of the pass; printed as a whole, what each has made of it."""

    def __str__(self) -> str:
        parts, last = [], None
        for name, text in self.items():
            parts.append(f"--- {name}: nothing changes\n" if text == last else f"--- {name}\n{text}")
            last = text
        return "".join(parts)


@dataclass(frozen=True)
class Program:
    """Not bound to any context."""

    name: str
    comp: Comp
    asked: Mapping[TNode, str]  # the nodes that somebody wants to keep, and who
    code: Code
    links: tuple[Link, ...]
    syms: tuple[Sym, ...]
    arena_bytes: int
    facts: tuple[Fact, ...]
    capabilities: Capabilities  # of the backend that compiled it
    choices: Choices  # of plans, where not by the model

    def rebuilt(self, on_stage: Callable[[str, Proc], None] = lambda name, proc: None) -> Proc:
        """The loops that were compiled, made once more: code is kept, and not what it was made from."""
        lowered = lower(self.comp, self.name)
        on_stage("lower", lowered)
        return optimize(lowered, self.asked, self.capabilities, on_stage, choose=lambda proc: self.choices)

    @cached_property
    def stages(self) -> Stages:
        found: list[tuple[str, Proc]] = []
        self.rebuilt(lambda name, proc: found.append((name, proc)))
        printed = {key: print_proc(proc) for key, proc in {id(p): p for _, p in found}.items()}  # many are the same
        return Stages((name, printed[id(proc)]) for name, proc in found)

    @property
    def inputs(self) -> tuple[TNode, ...]:
        """The nodes that must hold something when the program starts."""
        reading = (Access.IN, Access.INOUT, Access.CONST)
        return tuple(link.node for link in self.links if link.access in reading)

    @property
    def merged(self) -> tuple[TNode, ...]:
        """The nodes whose merge buffers the program reads."""
        return tuple(link.node for link in self.links if link.access is Access.MERGE)

    @property
    def outputs(self) -> tuple[TNode, ...]:
        return tuple(link.node for link in self.links if link.access in (Access.OUT, Access.INOUT))

    @property
    def temporaries(self) -> tuple[Fact, ...]:
        return tuple(fact for fact in self.facts if fact.placement is Placement.TEMPORARY)
