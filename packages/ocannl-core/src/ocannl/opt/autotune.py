"""Autotuning: benchmarks candidate plans of each group on this machine and selects the fastest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from ocannl.ir.accesses import memory_accesses
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import AccessMode, MemorySpace, Proc, Stmt
from ocannl.ir.name_mangling import Namer
from ocannl.ir.work import stmt_work
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.nests import bound_names
from ocannl.opt.analysis.substitution import replace_buffers
from ocannl.opt.pipeline import schedule_and_finish
from ocannl.opt.schedule.plan import candidate_plans
from ocannl.opt.schedule.schedule import PlanChoices, schedulable_groups

Seconds = tuple[tuple[float, ...], ...]
"""For each group of a nest, the seconds per call of its candidates, or none if there is one candidate only."""


class PlanBenchmark(Protocol):
    """Measures programs within a time budget, and caches the plans chosen for nests."""

    def lookup(self, nest: Proc) -> tuple[int, ...] | None:
        """Returns the cached choice for an equal nest, if any."""
        ...

    def insert(self, nest: Proc, chosen: tuple[int, ...], seconds: Seconds) -> None: ...

    def check_deadline(self) -> bool:
        """Whether the time budget has expired; called only while candidates remain to be measured."""
        ...

    def seconds(self, candidates: Sequence[Proc]) -> list[float] | None:
        """Returns the seconds per call of each program, infinite if it cannot run; None if memory is insufficient."""
        ...


def autotune(proc: Proc, capabilities: Capabilities, benchmark: PlanBenchmark) -> PlanChoices:
    """Selects the fastest candidate plan of each group; nests are tuned in order of decreasing work until the time
    budget expires."""
    choices: dict[int, tuple[int, ...]] = {}
    ops = {position: stmt_work(stmt) for position, stmt in enumerate(proc.body)}
    for position in sorted(ops, key=lambda position: (-ops[position], position)):
        if ops[position] < machine.MIN_AUTOTUNED_OPS:
            break
        nest = standalone_program(proc, proc.body[position])
        groups = schedulable_groups(proc.body[position], Namer(bound_names(nest)))
        counts = [len(candidate_plans(group, capabilities, is_parallel)) for group, is_parallel in groups]
        if max(counts, default=1) == 1:
            continue
        choice = benchmark.lookup(nest)
        if choice is None or not _is_valid(choice, counts):
            tuned = _tune_nest(nest, counts, capabilities, benchmark)
            if tuned is None:
                continue  # shorter nests may be cached
            choice, seconds = tuned
            benchmark.insert(nest, choice, seconds)
        if any(choice):
            choices[position] = choice
    return choices


def _is_valid(choice: tuple[int, ...], counts: list[int]) -> bool:
    return len(choice) == len(counts) and all(0 <= n < count for n, count in zip(choice, counts, strict=True))


def standalone_program(proc: Proc, stmt: Stmt) -> Proc:
    """Returns the statement as a separate program, whose buffers shared with other statements are arguments."""
    accesses = memory_accesses((stmt,))
    bufs = dict.fromkeys(access.ref.buf for access in accesses)
    written = {access.ref.buf for access in accesses if access.writes}
    arguments = {
        buf: replace(buf, space=MemorySpace.GLOBAL, access=AccessMode.INOUT if buf in written else AccessMode.IN)
        for buf in bufs if buf.access in (AccessMode.OUT, AccessMode.INOUT, AccessMode.TEMP)
    }  # fmt: skip
    return replace_buffers(replace(proc, bufs=tuple(bufs), body=(stmt,), facts=()), arguments)


def _tune_nest(
    nest: Proc, counts: list[int], capabilities: Capabilities, benchmark: PlanBenchmark
) -> tuple[tuple[int, ...], Seconds] | None:
    """Selects the plans of a nest by coordinate descent: one group after the other, with the choices made so far.
    Returns them with the measured seconds."""
    best = (0,) * len(counts)
    measured: list[tuple[float, ...]] = [()] * len(counts)
    for group, count in enumerate(counts):
        if count == 1:
            continue
        if benchmark.check_deadline():
            return None
        variants = [(*best[:group], n, *best[group + 1 :]) for n in range(count)]
        procs = [
            replace(schedule_and_finish(nest, capabilities, {0: variant}), name=f"{nest.name}_{n}")
            for n, variant in enumerate(variants)
        ]
        seconds = benchmark.seconds(procs)
        if seconds is None:
            return None
        measured[group] = tuple(seconds)
        best = variants[index_of_fastest(seconds)]
    return best, tuple(measured)


def index_of_fastest(seconds: Sequence[float]) -> int:
    """Returns the index of the minimum; 0 unless the minimum is faster by a significant margin."""
    best = min(range(len(seconds)), key=seconds.__getitem__)
    return best if seconds[best] < machine.MAX_AUTOTUNED_TIME_RATIO * seconds[0] else 0
