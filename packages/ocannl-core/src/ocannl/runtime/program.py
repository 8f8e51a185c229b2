"""Compiled programs: code with the metadata needed to bind and run it in a context."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ocannl.backend.api import CompiledCode
from ocannl.ir.affine import Sym
from ocannl.ir.assign import Comp
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import AccessMode, Fact, MemorySpace, Proc
from ocannl.ir.precomputed import precomputed_buffers
from ocannl.ir.printer import print_proc
from ocannl.ir.tnode import Placement, TNode
from ocannl.lower.lower import lower
from ocannl.opt.memory.precompute_weight_arrays import weights_of
from ocannl.opt.pipeline import optimize
from ocannl.opt.schedule.schedule import PlanChoices


@dataclass(frozen=True, slots=True)
class Link:
    """An external array of a program, in the order of `Backend.link`."""

    node: TNode
    access: AccessMode


def links(proc: Proc) -> tuple[Link, ...]:
    """Returns the external arrays of a program; precomputed arrays, which belong to no node, follow them."""
    result = []
    for buf in proc.bufs:
        if buf.space is MemorySpace.GLOBAL and buf.access is not AccessMode.PRECOMPUTED:
            assert buf.node is not None, f"the global array `{buf.name}` of `{proc.name}` belongs to no node"
            result.append(Link(buf.node, buf.access))
    return tuple(result)


@dataclass(frozen=True, slots=True)
class Precomputed:
    """The precomputed arrays of a program: their sizes, that of the flag first, and the weights they depend on."""

    sizes_bytes: tuple[int, ...] = ()
    weights: tuple[TNode, ...] = ()

    @staticmethod
    def of(proc: Proc) -> Precomputed:
        nodes = tuple([buf.node for buf in weights_of(proc) if buf.node is not None])
        return Precomputed(tuple([buf.nbytes for buf in precomputed_buffers(proc)]), nodes)


class Stages(dict[str, str]):
    """The printed program after each pass, keyed by the name of the pass; `str` shows each change."""

    def __str__(self) -> str:
        parts, last = [], None
        for name, text in self.items():
            parts.append(f"--- {name}: nothing changes\n" if text == last else f"--- {name}\n{text}")
            last = text
        return "".join(parts)


@dataclass(frozen=True)
class Program:
    """A compiled program that is not bound to a context."""

    name: str
    comp: Comp
    keep_reasons: Mapping[TNode, str]  # the nodes to keep, with the reason
    code: CompiledCode
    links: tuple[Link, ...]
    syms: tuple[Sym, ...]
    arena_bytes: int
    facts: tuple[Fact, ...]
    capabilities: Capabilities  # of the backend that compiled it
    choices: PlanChoices  # of plans that differ from the cost model's
    plain: frozenset[str] = frozenset()  # passes that ran in their plain form, after a defect
    precomputed: Precomputed = Precomputed()

    def rebuild(self, on_stage: Callable[[str, Proc], None] = lambda name, proc: None) -> Proc:
        """Recomputes the optimized loops, which are not stored with the code."""
        lowered = lower(self.comp, self.name)
        on_stage("lower", lowered)
        return optimize(
            lowered, self.keep_reasons, self.capabilities, on_stage, choose=lambda proc: self.choices, plain=self.plain
        )

    @cached_property
    def stages(self) -> Stages:
        snapshots: list[tuple[str, Proc]] = []
        self.rebuild(lambda name, proc: snapshots.append((name, proc)))
        procs = {id(proc): proc for _, proc in snapshots}  # a pass without effect returns the same object
        printed = {key: print_proc(proc) for key, proc in procs.items()}
        return Stages((name, printed[id(proc)]) for name, proc in snapshots)

    @property
    def inputs(self) -> tuple[TNode, ...]:
        """The nodes that must be initialized before the program runs."""
        reading = (AccessMode.IN, AccessMode.INOUT, AccessMode.CONST)
        return tuple(link.node for link in self.links if link.access in reading)

    @property
    def merged(self) -> tuple[TNode, ...]:
        """The nodes whose merge buffers the program reads."""
        return tuple(link.node for link in self.links if link.access is AccessMode.MERGE)

    @property
    def outputs(self) -> tuple[TNode, ...]:
        return tuple(link.node for link in self.links if link.access in (AccessMode.OUT, AccessMode.INOUT))

    @property
    def temporaries(self) -> tuple[Fact, ...]:
        return tuple(fact for fact in self.facts if fact.placement is Placement.TEMPORARY)
