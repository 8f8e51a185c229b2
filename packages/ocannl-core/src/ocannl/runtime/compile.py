r"""From a computation to a compiled program: the one place where the stages are composed.

    Comp --lower--> Proc --optimize--> Proc --backend.compile--> Program
      \_______________ what was compiled before _______________/

Both ways come to the same, the decisions about nodes included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from time import perf_counter

from ocannl.backend.api import Backend, Code, Tunable
from ocannl.base.config import VERIFY
from ocannl.base.errors import CodeError
from ocannl.base.gc_pause import resting
from ocannl.base.log import logger
from ocannl.ir.assign import Comp
from ocannl.ir.canon import canonical
from ocannl.ir.index import Sym
from ocannl.ir.loops import Proc
from ocannl.ir.tnode import Decision, TNode
from ocannl.ir.verify import Stage, verify
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize
from ocannl.opt.schedule import BY_MODEL, Choices
from ocannl.opt.search import search
from ocannl.runtime import compile_cache
from ocannl.runtime.autotune_variants import tuned
from ocannl.runtime.benchmark import Searcher
from ocannl.runtime.program import Program, links

_log = logger("runtime.compile")


@dataclass(frozen=True, slots=True)
class Job:
    """A computation to compile: `asked` are the nodes that somebody wants to keep, and who; `name` is an identifier."""

    code: Comp
    asked: Mapping[TNode, str]
    name: str


def compile_programs(jobs: Sequence[Job], backend: Backend, searcher: Searcher | None = None) -> list[Program]:
    """All in one run of the backend, but those that were compiled before; names are distinct. With a `searcher`, plans
    are those that it finds to be the fastest."""
    with resting():
        return _compiled(jobs, backend, searcher)


def _compiled(jobs: Sequence[Job], backend: Backend, searcher: Searcher | None) -> list[Program]:
    canons = [canonical(job.code, job.asked) for job in jobs]
    for canon in canons:
        _refuse_ambiguous(canon.statics)
    plans = searcher.words if searcher else "by the model"
    keys = [compile_cache.key(canon, job.name, backend, plans) for canon, job in zip(canons, jobs, strict=True)]
    with ExitStack() as held:
        for key in sorted(keys):  # one order for all threads
            held.enter_context(compile_cache.one_at_a_time(key))
        names = [job.name for job in jobs]
        found = [compile_cache.recall(*known, backend) for known in zip(keys, canons, names, strict=True)]
        rest = [job for job, program in zip(jobs, found, strict=True) if program is None]
        new = iter(_built(rest, backend, searcher))
        programs = []
        for key, canon, known in zip(keys, canons, found, strict=True):
            program, final = next(new) if known is None else (known, False)
            if final:
                compile_cache.remember(key, canon, program)
            programs.append(program)
    for fact in (fact for program in programs for fact in program.facts):
        fact.node.decided = Decision(fact.placement, fact.author)
    return programs


@dataclass(frozen=True, slots=True)
class _Draft:
    """A program that has gone through all stages but the backend. It is not final while plans are still to be tried."""

    job: Job
    proc: Proc
    choices: Choices
    ways: tuple[int, ...]  # of its nests, where the backend has several
    final: bool


def _built(jobs: Sequence[Job], backend: Backend, searcher: Searcher | None) -> list[tuple[Program, bool]]:
    """The programs, and whether they are final."""
    if not jobs:
        return []
    watch = _Watch()
    drafts = [_drafted(job, backend, watch, searcher) for job in jobs]
    procs = [draft.proc for draft in drafts]
    if searcher is not None and isinstance(backend, Tunable):
        made = backend.compile_in(procs, [draft.ways for draft in drafts])
    else:
        made = backend.compile(procs)
    watch.lap(backend.name)
    _log.info("compiled %s for %s in %s", ", ".join(f"`{job.name}`" for job in jobs), backend.name, watch)
    return [
        (_program(draft, made, backend), draft.final) for draft in drafts
    ]


def _program(draft: _Draft, code: Code, backend: Backend) -> Program:
    job, proc = draft.job, draft.proc
    return Program(
        job.name, job.code, job.asked, code, links(proc), proc.syms, proc.arena, proc.facts, backend.capabilities,
        draft.choices,
    )  # fmt: skip


def _drafted(job: Job, backend: Backend, watch: _Watch, searcher: Searcher | None) -> _Draft:
    """Through the stages, each checked as the setting `verify` says."""
    checks = VERIFY.get()
    alignment = backend.capabilities.alignment_bytes

    def check(proc: Proc, stage: Stage) -> None:
        verify(proc, stage, alignment_bytes=alignment)
        watch.lap("verify")

    def see(stage: str, proc: Proc) -> None:
        watch.lap(stage)
        if checks == "every":
            check(proc, "placed" if stage == "memory" else "optimized")

    def lowered() -> Proc:
        proc = lower(job.code, job.name)
        watch.lap("lower")
        if checks != "off":
            check(proc, "lowered")
        return proc

    timer = searcher.timer() if searcher else None
    choices: Choices = BY_MODEL

    def choose(nests: Proc) -> Choices:
        nonlocal choices
        if timer is not None:
            choices = search(nests, backend.capabilities, timer)
            watch.lap("search")
        return choices

    proc = optimize(lowered(), job.asked, backend.capabilities, see, choose=choose)
    if checks == "ends":
        check(proc, "placed")
    ways = tuned(proc, backend, timer) if timer is not None and isinstance(backend, Tunable) else ()
    return _Draft(job, proc, choices, ways, timer is None or not timer.is_over)


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


def _refuse_ambiguous(statics: Sequence[Sym]) -> None:
    seen: set[str] = set()
    for name in (s.name for s in statics):
        if name in seen:
            raise CodeError(f"two different symbols of this code are called `{name}`; give one of them another name")
        seen.add(name)
