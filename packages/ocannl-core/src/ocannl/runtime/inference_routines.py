"""Routines of functions from arrays to arrays, which are called often while no other routine writes their weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ocannl.base.config import PRECOMPUTE_WEIGHTS, overrides
from ocannl.lang.core.graph import forward
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.record.code import Code
from ocannl.runtime.context import Context, node_of
from ocannl.runtime.routine import Routine


def compile_inference(
    ctx: Context, results: Sequence[Tensor], name: str | None, routines: Iterable[Routine | None]
) -> Routine:
    """Compiles the routine that computes the results. `routines` are those of the same model for other inputs.

    Unless the setting `precompute_weights` decides, the routine keeps packed weights from one call to the next if no
    other routine writes the weights, and those of `routines` take no more memory than the weights.
    """
    weights = {node_of(param) for t in results for param in t.all_params.values()}
    size_bytes = sum(math.prod(node.dims, start=node.precision.nbytes) for node in weights)
    may_change = any(node in ctx.arrays and ctx.arrays[node].may_change for node in weights)
    packed_bytes = sum(routine.precomputed_bytes for routine in routines if routine is not None)
    code, keeps_arrays = forward(*results), not may_change and packed_bytes <= size_bytes
    if PRECOMPUTE_WEIGHTS.get() is not None:
        return ctx.compile(code, name=name)
    routine = _compile(ctx, code, name, keeps_arrays)
    if routine.repacks_weights:  # a constant may change
        routine = _compile(ctx, code, name, keeps_arrays=False)
    return routine


def _compile(ctx: Context, code: Code, name: str | None, keeps_arrays: bool) -> Routine:
    with overrides({"precompute_weights": keeps_arrays}, "ctx.compile(...)"):
        return ctx.compile(code, name=name)


def is_outdated(routine: Routine | None) -> bool:
    """Whether the routine keeps arrays that it computes in every call, so that one without them is faster."""
    return routine is not None and routine.repacks_weights and PRECOMPUTE_WEIGHTS.get() is None
