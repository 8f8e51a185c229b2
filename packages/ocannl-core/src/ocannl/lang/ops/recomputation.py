"""Recomputation of activations, which saves memory in training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from ocannl.base.errors import ArgumentError, CodeError
from ocannl.lang.core import nested
from ocannl.lang.core.context_vars import site
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.recomputed_tensor import RecomputedTensor
from ocannl.lang.core.traced_function import TracedFunction, trace
from ocannl.lang.ops.control_flow import region, region_result, same_shape
from ocannl.lang.record.code import recorder


def recompute(function: Callable[..., Any]) -> Callable[..., Any]:
    """A block, or another function of tensors, whose intermediate values are not kept for gradients.

        h = oc.recompute(layer)(h)

    The backward pass computes them again from the operands. This costs the time of one more forward pass of the
    function, and saves the memory of all that it computes but its results.

    Shapes: those of the function.
    Grad:   that of the function.
    Raises: CodeError for functions that write states of blocks.
    Source: Chen, Xu, Zhang, Guestrin 2016, "Training deep nets with sublinear memory cost".
    """
    if not callable(function):
        raise ArgumentError(f"oc.recompute takes a block or a function of tensors, not {function!r}"[:200])

    def call(*operands: Any, **keywords: Any) -> Any:
        call_site = site()
        if recorder.get() is not None:
            raise CodeError("oc.recompute builds an expression: build it outside of oc.cd, and use its results there")
        arguments = [nested.rebuilt(value, [embed(leaf) for leaf in nested.leaves(value)]) for value in operands]
        traced = _without_counters(trace(partial(function, **keywords), arguments, None))
        owner = region(RecomputedTensor, "recompute", traced.inputs, call_site)
        owner.function = traced
        results = [
            region_result(owner, number, result, partial(same_shape, result))
            for number, result in enumerate(traced.results)
        ]
        return nested.rebuilt(traced.structure, results)

    return call


def _without_counters(traced: TracedFunction) -> TracedFunction:
    """The function without expressions that have no operands, such as numbers of calls of random streams: they are
    computed once, before it, so that the backward pass draws the same numbers."""
    body = tuple(t for t in traced.body if t.application is not None and t.application.operands)
    inside = set(body)
    operands = dict.fromkeys(o for t in body if t.application is not None for o in t.application.operands)
    return replace(traced, body=body, inputs=tuple(o for o in operands if o not in inside))
