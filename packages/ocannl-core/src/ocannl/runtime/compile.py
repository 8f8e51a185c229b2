r"""From a computation to a compiled program: the one place where the stages are composed.

    Comp --lower--> Proc --optimize--> Proc --backend.compile--> Program
      \_______________ what was compiled before _______________/

Both ways come to the same, the decisions about nodes included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter

from ocannl.backend.api import Backend
from ocannl.base.config import VERIFY
from ocannl.base.errors import CodeError
from ocannl.base.log import logger
from ocannl.ir.assign import Comp
from ocannl.ir.canon import canonical
from ocannl.ir.index import Sym
from ocannl.ir.loops import Home, Proc
from ocannl.ir.tnode import Decision, TNode
from ocannl.ir.verify import Stage, verify
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize
from ocannl.runtime import reuse
from ocannl.runtime.program import Link, Program

_log = logger("runtime.compile")


def compile_program(code: Comp, asked: Mapping[TNode, str], name: str, backend: Backend) -> Program:
    """`asked` are the nodes that somebody wants to keep, and who; `name` is an identifier."""
    canon = canonical(code, asked)
    _refuse_ambiguous(canon.statics)
    key = reuse.key(canon, name, backend)
    with reuse.one_at_a_time(key):
        program = reuse.recall(key, canon, name, backend)
        if program is None:
            program = build(code, asked, name, backend)
            reuse.remember(key, canon, program)
    for fact in program.facts:
        fact.node.decided = Decision(fact.placement, fact.author)
    return program


def build(code: Comp, asked: Mapping[TNode, str], name: str, backend: Backend) -> Program:
    """Through all stages, each checked as the setting `verify` says."""
    checks = VERIFY.get()
    alignment = backend.capabilities.alignment_bytes
    watch = _Watch()
    lowered = lower(code, name)
    watch.lap("lower")
    stages: list[tuple[str, Proc | str]] = [("lower", lowered)]

    def check(proc: Proc, stage: Stage) -> None:
        verify(proc, stage, alignment_bytes=alignment)
        watch.lap("verify")

    def see(stage: str, proc: Proc) -> None:
        watch.lap(stage)
        stages.append((stage, proc))
        if checks == "every":
            check(proc, "placed" if stage == "memory" else "optimized")

    if checks != "off":
        check(lowered, "lowered")
    proc = optimize(lowered, asked, backend.capabilities, see)
    if checks == "ends":
        check(proc, "placed")
    made = backend.compile([proc])
    watch.lap(backend.name)
    _log.info("compiled `%s` for %s in %s", name, backend.name, watch)
    return Program(name, code, asked, made, links(proc), proc.syms, proc.arena, proc.facts, tuple(stages))


class _Watch:
    """What each stage takes."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = perf_counter()

    def lap(self, stage: str) -> None:
        now = perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self.last
        self.last = now

    def __str__(self) -> str:
        laps = ", ".join(f"{stage} {seconds * 1e3:.1f}" for stage, seconds in self.seconds.items())
        return f"{sum(self.seconds.values()) * 1e3:.1f} ms: {laps}"


def rebuilt(program: Program, backend: Backend) -> Proc:
    """The loops that were compiled, also where only their text is left."""
    return optimize(lower(program.comp, program.name), program.asked, backend.capabilities)


def links(proc: Proc) -> tuple[Link, ...]:
    """The arrays outside of the program that it works on."""
    found = []
    for buf in proc.bufs:
        if buf.home is Home.POOL:
            assert buf.node is not None, f"the pool array `{buf.name}` of `{proc.name}` belongs to no node"
            found.append(Link(buf.node, buf.access))
    return tuple(found)


def _refuse_ambiguous(statics: Sequence[Sym]) -> None:
    seen: set[str] = set()
    for name in (s.name for s in statics):
        if name in seen:
            raise CodeError(f"two different symbols of this code are called `{name}`; give one of them another name")
        seen.add(name)
