"""The candidate plans of each nest: what autotuning measures, has measured, and has chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ocannl.ir.assign import Origin
from ocannl.ir.loops import Proc
from ocannl.ir.name_mangling import Namer
from ocannl.ir.provenance import PrintCache, buffer_origins, nest_origins
from ocannl.ir.work import stmt_work
from ocannl.opt.analysis.nests import bound_names
from ocannl.opt.autotune import standalone_program
from ocannl.opt.machine_model import MIN_AUTOTUNED_OPS
from ocannl.opt.schedule.plan import Plan, TilePlan, candidate_plans
from ocannl.opt.schedule.schedule import schedulable_groups
from ocannl.runtime.benchmark import Autotuner
from ocannl.runtime.context_protocol import ExecutionContext
from ocannl.runtime.program import Program

MAX_NESTS = 12
"""The candidates of more nests would take a page of a large program longer than all its other parts."""


@dataclass(frozen=True, slots=True)
class Search:
    """The candidates of a group of statements, named after the arrays it writes; the first is the cost model's.

    Autotuning measures equal groups once: `names` and `origins` are those of all of them, the names in `candidates`
    those of the first. `seconds` are those that autotuning has measured on this machine, or none.
    """

    names: tuple[str, ...]
    origins: tuple[Origin, ...]
    candidates: tuple[str, ...]
    chosen: int
    seconds: tuple[float, ...]


def searches(
    program: Program, unscheduled: Proc, context: ExecutionContext, cache: PrintCache
) -> Iterator[Search]:
    """Yields the searches of the `MAX_NESTS` nests with the most work, which autotuning measures first."""
    if not program.capabilities.wants_schedule:
        return
    benchmark = Autotuner(context.backend, context.queue.device, context.threads, 0).timer()
    names = Namer(bound_names(unscheduled))
    work = {position: stmt_work(stmt) for position, stmt in enumerate(unscheduled.body)}
    arrays = buffer_origins(unscheduled, cache)
    equal: dict[str, list[int]] = {}  # positions of nests
    for position in sorted(sorted(work, key=work.__getitem__, reverse=True)[:MAX_NESTS]):
        if work[position] >= MIN_AUTOTUNED_OPS:
            key = benchmark.key(standalone_program(unscheduled, unscheduled.body[position]))
            equal.setdefault(key, []).append(position)
    for key, positions in equal.items():
        chosen = iter(program.choices.get(positions[0], ()))
        tuning = benchmark.cached(key)
        seconds = iter(tuning.seconds if tuning else ())
        groups = zip(*[schedulable_groups(unscheduled.body[position], names) for position in positions], strict=True)
        for members in groups:
            group, is_parallel = members[0]
            plans = candidate_plans(group, program.capabilities, is_parallel)
            number, times = next(chosen, 0), next(seconds, ())
            if len(plans) > 1:
                texts = tuple(map(plan_text, plans))
                yield Search(
                    tuple([", ".join(dict.fromkeys(ref.buf.name for ref in group.writes)) for group, _ in members]),
                    nest_origins([group.stmt() for group, _ in members], arrays),
                    texts, number, times if len(times) == len(texts) else (),
                )  # fmt: skip


def plan_text(plan: Plan) -> str:
    """A plan in a line: its loops, outermost first, with the sizes of tiles."""
    if not isinstance(plan, TilePlan):
        return f"scalar, loops {', '.join(sym.name for sym in plan.order)}"
    loops = ", ".join(f"{sym.name} by {size}" if size else sym.name for sym, size in plan.loops)
    parts = {
        "loops": loops,
        "vectors": f"{plan.vectors} of {plan.lanes} lanes along {plan.vector.name}",
        "sums": ", ".join(sym.name for sym in plan.reduction_syms),
        "transposed along": plan.transposed_loop.name if plan.transposed_loop else "",
        "packed": ", ".join(ref.buf.name for ref in plan.packed_operands),
        "panels": ", ".join(ref.buf.name for ref in plan.panels),
        "blocks": f"{plan.k_block} terms, {plan.blocked_loops} inner loops" if plan.k_block else "",
        "strips": f"{plan.strip[0].name} by {plan.strip[1]}" if plan.strip else "",
        "prefetched": ", ".join(ref.buf.name for ref, _ in plan.prefetched),
        "prefetched panels": ", ".join(ref.buf.name for ref in plan.prefetched_panels),
    }
    return "; ".join(f"{key} {text}" for key, text in parts.items() if text)
