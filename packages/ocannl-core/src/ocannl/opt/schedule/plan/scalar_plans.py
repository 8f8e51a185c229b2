"""Scalar schedules: accumulators stay in registers and the innermost loop has unit stride. No cost model is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ocannl.ir.affine import Sym
from ocannl.ir.loops import Ref
from ocannl.ir.ops import ADD, MAX, MIN
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.expression_cost import cost
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction
from ocannl.opt.analysis.nests import loads

REASSOCIABLE = (ADD, MAX, MIN)  # a partial product may overflow although another one is zero


@dataclass(frozen=True, slots=True)
class ReductionPlan:
    """The order of the reduction loops, and the number of interleaved accumulators along the innermost one."""

    order: tuple[Sym, ...]
    accumulators: int = 1


@dataclass(frozen=True, slots=True)
class ScalarPlan:
    """The order of the parallel loops, and the plans of the reductions inside them."""

    order: tuple[Sym, ...]
    reductions: tuple[ReductionPlan, ...] = ()


def scalar_plan(group: FusionGroup) -> ScalarPlan:
    order = unit_stride_innermost(group.syms, group.writes)
    return ScalarPlan(order, tuple([_reduction_plan(reduction) for reduction in group.reductions]))


def _reduction_plan(reduction: Reduction) -> ReductionPlan:
    reads = loads(reduction.update.value)
    order = unit_stride_innermost(reduction.syms, reads)
    is_long = bool(order) and order[-1].extent >= 2 * machine.SCALAR_PARTIAL_SUMS
    is_latency_bound = is_long and reduction.acc.precision.is_float and len(reads) <= machine.MAX_LATENCY_BOUND_LOADS
    interleaves = is_latency_bound and reduction.update.op in REASSOCIABLE
    return ReductionPlan(order, machine.SCALAR_PARTIAL_SUMS if interleaves else 1)


def unit_stride_innermost(syms: tuple[Sym, ...], refs: Sequence[Ref]) -> tuple[Sym, ...]:
    """Moves the loop along which most of `refs` have unit stride to the innermost position."""
    if len(syms) < 2:
        return syms
    best = max(reversed(syms), key=lambda s: sum(ref.stride(s) == 1 for ref in refs))
    return (*(s for s in syms if s is not best), best)


def scalar_cycles(group: FusionGroup) -> float:
    """Returns the estimated cycles of a group that cannot be vectorized."""
    work = sum(cost(value).work for value in group.values)
    for reduction in group.reductions:
        further_terms = prod(loop.sym.extent for loop in reduction.loops) - 1
        work += further_terms * cost(reduction.update.value).work
    return prod(loop.sym.extent for loop in group.loops) * max(1, work)
