r"""The compilation driver, which composes the stages.

    Comp --lower--> Proc --optimize--> Proc --backend.compile--> CompiledCode --> Program
      \____________________________ compilation cache ____________________________/

A context links a program to its memory; the result is a `Routine`.

Both paths give equal results, including the placement decisions of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING

from ocannl.backend.api import Backend, CompiledCode, Tunable
from ocannl.backend.returned_values import compile_code, compile_variants
from ocannl.base.config import VERIFY
from ocannl.base.errors import CodeError
from ocannl.base.gc_pause import gc_paused
from ocannl.base.log import logger
from ocannl.ir.affine import Sym
from ocannl.ir.assign import Comp
from ocannl.ir.canon import Canonical, canonical
from ocannl.ir.loops import Proc
from ocannl.ir.tnode import Decision, TNode
from ocannl.ir.verify import Stage, results_of, verify
from ocannl.lower.lower import lower
from ocannl.opt.autotune import autotune
from ocannl.opt.pipeline import optimize, stage_after
from ocannl.opt.schedule.schedule import MODEL_CHOICES, PlanChoices
from ocannl.runtime import compile_cache
from ocannl.runtime.autotune_variants import fastest_variants
from ocannl.runtime.benchmark import Autotuner
from ocannl.runtime.program import Precomputed, Program, links

if TYPE_CHECKING:  # imported after a failure only
    from ocannl.runtime.recovery import FailedCompilation

_log = logger("runtime.compile")


@dataclass(frozen=True, slots=True)
class Job:
    """A computation to compile: `keep_reasons` maps the nodes to keep to the reason; `name` is an identifier."""

    code: Comp
    keep_reasons: Mapping[TNode, str]
    name: str


def no_reservation(size_bytes: int) -> None:
    """Leaves the allocation of an arena to the link."""


@gc_paused
def compile_programs(
    jobs: Sequence[Job],
    backend: Backend,
    autotuner: Autotuner | None = None,
    reserve_arena: Callable[[int], object] = no_reservation,
) -> list[Program]:
    """Compiles all jobs that are not cached in one run of the backend; their names are distinct. Plans come from the
    `autotuner` if there is one, otherwise from the cost model. `reserve_arena` is called with the size of the largest
    arena before the backend generates code."""
    canons = [canonical(job.code, job.keep_reasons) for job in jobs]
    for canon in canons:
        _refuse_ambiguous(canon.statics)
    plans = autotuner.plan_origin if autotuner else "by the model"
    keys = [compile_cache.key(canon, job.name, backend, plans) for canon, job in zip(canons, jobs, strict=True)]
    with (lock := Lock()):  # no other context manager is released by all interrupts
        compile_cache.wait_for_compilations(keys, lock)
        requests = [_Request(*request) for request in zip(jobs, canons, keys, strict=True)]
        cached = [request.lookup(compile_cache.plain_passes(request.key), backend) for request in requests]
        missing = [request for request, program in zip(requests, cached, strict=True) if program is None]
        compiled = iter(_built(missing, backend, autotuner, reserve_arena))
        programs = [next(compiled) if program is None else program for program in cached]
    for fact in (fact for program in programs for fact in program.facts):
        fact.node.last_decision = Decision(fact.placement, fact.pass_name)
    return programs


@dataclass(frozen=True, slots=True)
class _Request:
    """A job, its canonical form and its cache key."""

    job: Job
    canon: Canonical
    key: str

    def lookup(self, plain: frozenset[str], backend: Backend) -> Program | None:
        """Returns the cached program whose `plain` passes ran in their plain form."""
        return compile_cache.lookup(compile_cache.variant_key(self.key, plain), self.canon, self.job.name, backend)

    def insert(self, program: Program, backend: Backend) -> None:
        """Adds a program to the caches. That of a defective pipeline has a key of its own."""
        compile_cache.insert(compile_cache.variant_key(self.key, program.plain), self.canon, program, backend)
        if program.plain:
            compile_cache.remember_plain_passes(self.key, program.plain)


@dataclass(frozen=True, slots=True)
class _Draft:
    """A program that has passed all stages except the backend. It is not final if autotuning ran out of time."""

    request: _Request
    proc: Proc
    choices: PlanChoices
    variants: tuple[int, ...]  # one for each nest, if the backend is `Tunable`
    final: bool
    plain: frozenset[str] = frozenset()  # passes that ran in their plain form


def _built(
    requests: Sequence[_Request],
    backend: Backend,
    autotuner: Autotuner | None,
    reserve_arena: Callable[[int], object],
) -> list[Program]:
    """Compiles the jobs, and adds the final programs to the caches."""
    if not requests:
        return []
    stopwatch = _Stopwatch()
    drafts = [_drafted(request, backend, stopwatch, autotuner) for request in requests]
    programs = [draft.request.lookup(draft.plain, backend) if draft.plain else None for draft in drafts]
    missing = [draft for draft, program in zip(drafts, programs, strict=True) if program is None]
    if arena_bytes := max((draft.proc.arena for draft in missing), default=0):
        reserve_arena(arena_bytes)
    compiled = iter(_compiled_drafts(missing, backend, autotuner))
    stopwatch.lap(backend.name)
    names = ", ".join(f"`{request.job.name}`" for request in requests)
    for position, program in enumerate(programs):
        if program is None:
            draft, code = next(compiled)
            programs[position] = program = _program(draft, code, backend)
            if draft.final:
                draft.request.insert(program, backend)
    _log.info("compiled %s for %s in %s", names, backend.name, stopwatch)
    return [program for program in programs if program is not None]


def _compiled_drafts(
    drafts: Sequence[_Draft], backend: Backend, autotuner: Autotuner | None
) -> list[tuple[_Draft, CompiledCode]]:
    """Runs the backend; returns the code of each draft. A draft that the backend fails on is replaced by a plainer one.
    """
    if not drafts:
        return []
    procs = [draft.proc for draft in drafts]
    try:
        if autotuner is not None and isinstance(backend, Tunable):
            code = compile_variants(backend, procs, [draft.variants for draft in drafts])
        else:
            code = compile_code(backend, procs)
        return [(draft, code) for draft in drafts]
    except Exception as error:  # a defect raises any class; errors of other causes are raised again
        from ocannl.runtime import recovery

        if not recovery.is_backend_defect(error):
            raise
        recovery.raise_backend_error(backend, [draft.request.job.name for draft in drafts], error)
        if len(drafts) == 1:
            return [_recovered(drafts[0], error, backend)]
        _log.info("%s compiles the programs one by one: %s", backend.name, error)
    return [pair for draft in drafts for pair in _compiled_drafts([draft], backend, autotuner)]


def _recovered(draft: _Draft, error: Exception, backend: Backend) -> tuple[_Draft, CompiledCode]:
    """Replaces a draft that the backend has failed on by a plainer one; returns it and its code, which may be cached.
    """
    from ocannl.runtime import recovery

    job, alignment = draft.request.job, backend.capabilities.alignment_bytes
    lowered = lower(job.code, job.name)
    results = results_of(lowered)

    def check(pass_name: str, proc: Proc) -> None:
        verify(proc, stage_after(pass_name), alignment_bytes=alignment, results=results)

    def compiled(proc: Proc, plain: frozenset[str]) -> CompiledCode:
        program = draft.request.lookup(plain, backend)
        return compile_code(backend, [proc]) if program is None else program.code

    failed = recovery.FailedCompilation(lowered, job.keep_reasons, backend, check, draft.choices)
    proc, plain, code = recovery.recover_backend(failed, error, draft.plain, compiled)
    return _Draft(draft.request, proc, MODEL_CHOICES, (), draft.final, plain), code


def _program(draft: _Draft, code: CompiledCode, backend: Backend) -> Program:
    job, proc = draft.request.job, draft.proc
    return Program(
        job.name, job.code, job.keep_reasons, code, links(proc), proc.syms, proc.arena, proc.facts,
        backend.capabilities, draft.choices, draft.plain, Precomputed.of(proc),
    )  # fmt: skip


def _drafted(request: _Request, backend: Backend, stopwatch: _Stopwatch, autotuner: Autotuner | None) -> _Draft:
    """Runs lowering and optimization, with verification according to the setting `verify`."""
    job, checks = request.job, VERIFY.get()
    alignment = backend.capabilities.alignment_bytes
    results: frozenset[TNode] = frozenset()

    def check(proc: Proc, stage: Stage) -> None:
        verify(proc, stage, alignment_bytes=alignment, results=results)
        stopwatch.lap("verify")

    def on_stage(stage: str, proc: Proc) -> None:
        stopwatch.lap(stage)
        if checks == "every":
            check(proc, stage_after(stage))

    def lowered() -> Proc:
        nonlocal results
        proc = lower(job.code, job.name)
        results = results_of(proc)
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

    def failed_compilation() -> FailedCompilation:
        return recovery.FailedCompilation(
            lowered(), job.keep_reasons, backend, lambda name, proc: check(proc, stage_after(name)), choices,
            is_autotuned=benchmark is not None,
        )  # fmt: skip

    defect: Exception | None = None
    try:
        proc = optimize(lowered(), job.keep_reasons, backend.capabilities, on_stage, choose=choose)
        if checks == "ends":
            check(proc, "placed")
    except Exception as error:  # as above
        from ocannl.opt.pass_bisection import is_defect
        from ocannl.runtime import recovery

        if not is_defect(error):
            raise
        defect = error
    if defect is not None:
        replay = recovery.recover_passes(failed_compilation(), defect)  # which raises errors of `lowered` again
        stopwatch.lap("replay")
        return _Draft(request, replay.proc, MODEL_CHOICES, (), bool(replay.failures), replay.plain)
    variants: tuple[int, ...] = ()
    if benchmark is not None and isinstance(backend, Tunable):
        try:
            variants = fastest_variants(proc, backend, benchmark)
        except Exception as error:  # as above
            from ocannl.opt.pass_bisection import is_defect
            from ocannl.runtime import recovery

            if not is_defect(error):
                raise
            recovery.report_tuning(failed_compilation(), error)
    return _Draft(request, proc, choices, variants, benchmark is None or not benchmark.has_expired)


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
            raise CodeError(f"two different symbols of this code are called `{name}`; rename one of them")
        seen.add(name)
