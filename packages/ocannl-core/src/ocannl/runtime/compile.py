r"""The compilation driver, which composes the stages.

    Comp --lower--> Proc --optimize--> Proc --backend.compile--> Program
      \__________________ compilation cache ___________________/

Both paths give equal results, including the placement decisions of nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from time import perf_counter

from ocannl.backend.api import Backend, Code, Tunable
from ocannl.base.config import VERIFY
from ocannl.base.errors import CodeError
from ocannl.base.gc_pause import gc_paused
from ocannl.base.log import logger
from ocannl.ir.affine import Sym
from ocannl.ir.assign import Comp
from ocannl.ir.canon import canonical
from ocannl.ir.loops import Proc
from ocannl.ir.tnode import Decision, TNode
from ocannl.ir.verify import Stage, verify
from ocannl.lower.lower import lower
from ocannl.opt.autotune import autotune
from ocannl.opt.pipeline import optimize
from ocannl.opt.schedule.schedule import MODEL_CHOICES, PlanChoices
from ocannl.runtime import compile_cache
from ocannl.runtime.autotune_variants import fastest_variants
from ocannl.runtime.benchmark import Autotuner
from ocannl.runtime.program import Program, links

_log = logger("runtime.compile")


@dataclass(frozen=True, slots=True)
class Job:
    """A computation to compile: `keep_reasons` maps the nodes to keep to the reason; `name` is an identifier."""

    code: Comp
    keep_reasons: Mapping[TNode, str]
    name: str


def compile_programs(jobs: Sequence[Job], backend: Backend, autotuner: Autotuner | None = None) -> list[Program]:
    """Compiles all jobs that are not cached in one run of the backend; their names are distinct. Plans come from the
    `autotuner` if there is one, otherwise from the cost model."""
    with gc_paused():
        return _compiled(jobs, backend, autotuner)


def _compiled(jobs: Sequence[Job], backend: Backend, autotuner: Autotuner | None) -> list[Program]:
    canons = [canonical(job.code, job.keep_reasons) for job in jobs]
    for canon in canons:
        _refuse_ambiguous(canon.statics)
    plans = autotuner.plan_origin if autotuner else "by the model"
    keys = [compile_cache.key(canon, job.name, backend, plans) for canon, job in zip(canons, jobs, strict=True)]
    with ExitStack() as locks:
        for key in sorted(keys):  # a global order prevents deadlock
            locks.enter_context(compile_cache.single_flight(key))
        names = [job.name for job in jobs]
        cached = [compile_cache.lookup(*lookup_args, backend) for lookup_args in zip(keys, canons, names, strict=True)]
        missing = [job for job, program in zip(jobs, cached, strict=True) if program is None]
        compiled = iter(_built(missing, backend, autotuner))
        programs = []
        for key, canon, lookup_args in zip(keys, canons, cached, strict=True):
            program, final = next(compiled) if lookup_args is None else (lookup_args, False)
            if final:
                compile_cache.insert(key, canon, program)
            programs.append(program)
    for fact in (fact for program in programs for fact in program.facts):
        fact.node.last_decision = Decision(fact.placement, fact.pass_name)
    return programs


@dataclass(frozen=True, slots=True)
class _Draft:
    """A program that has passed all stages except the backend. It is not final if autotuning ran out of time."""

    job: Job
    proc: Proc
    choices: PlanChoices
    variants: tuple[int, ...]  # one for each nest, if the backend is `Tunable`
    final: bool


def _built(jobs: Sequence[Job], backend: Backend, autotuner: Autotuner | None) -> list[tuple[Program, bool]]:
    """Compiles the jobs; returns each program, and whether it is final."""
    if not jobs:
        return []
    stopwatch = _Stopwatch()
    drafts = [_drafted(job, backend, stopwatch, autotuner) for job in jobs]
    procs = [draft.proc for draft in drafts]
    if autotuner is not None and isinstance(backend, Tunable):
        code = backend.compile_variants(procs, [draft.variants for draft in drafts])
    else:
        code = backend.compile(procs)
    stopwatch.lap(backend.name)
    _log.info("compiled %s for %s in %s", ", ".join(f"`{job.name}`" for job in jobs), backend.name, stopwatch)
    return [(_program(draft, code, backend), draft.final) for draft in drafts]


def _program(draft: _Draft, code: Code, backend: Backend) -> Program:
    job, proc = draft.job, draft.proc
    return Program(
        job.name, job.code, job.keep_reasons, code, links(proc), proc.syms, proc.arena, proc.facts,
        backend.capabilities, draft.choices,
    )  # fmt: skip


def _drafted(job: Job, backend: Backend, stopwatch: _Stopwatch, autotuner: Autotuner | None) -> _Draft:
    """Runs lowering and optimization, with verification according to the setting `verify`."""
    checks = VERIFY.get()
    alignment = backend.capabilities.alignment_bytes

    def check(proc: Proc, stage: Stage) -> None:
        verify(proc, stage, alignment_bytes=alignment)
        stopwatch.lap("verify")

    def on_stage(stage: str, proc: Proc) -> None:
        stopwatch.lap(stage)
        if checks == "every":
            check(proc, "placed" if stage == "allocate_memory" else "optimized")

    def lowered() -> Proc:
        proc = lower(job.code, job.name)
        stopwatch.lap("lower")
        if checks != "off":
            check(proc, "lowered")
        return proc

    benchmark = autotuner.timer() if autotuner else None
    choices: PlanChoices = MODEL_CHOICES

    def choose(nests: Proc) -> PlanChoices:
        nonlocal choices
        if benchmark is not None:
            choices = autotune(nests, backend.capabilities, benchmark)
            stopwatch.lap("autotune")
        return choices

    proc = optimize(lowered(), job.keep_reasons, backend.capabilities, on_stage, choose=choose)
    if checks == "ends":
        check(proc, "placed")
    variants: tuple[int, ...] = ()
    if benchmark is not None and isinstance(backend, Tunable):
        variants = fastest_variants(proc, backend, benchmark)
    return _Draft(job, proc, choices, variants, benchmark is None or not benchmark.has_expired)


class _Stopwatch:
    """Accumulates the time of each stage."""

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
