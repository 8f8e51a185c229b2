"""Recomputation of activations, which saves memory in training."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ocannl.base.errors import ArgumentError, CodeError
from ocannl.base.traceback_filtering import public
from ocannl.lang.block_application import separate_updates
from ocannl.lang.core import nested
from ocannl.lang.core.context_vars import CallSite, site
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.recomputed_tensor import RecomputedTensor
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.traced_function import TracedFunction, trace, with_body, with_reads_before
from ocannl.lang.ops.control_flow import region, region_result, same_shape
from ocannl.lang.record.code import recorder


def recompute(function: Callable[..., Any]) -> Callable[..., Any]:
    """A block, or another function of tensors, whose intermediate values are not kept for gradients.

        h = oc.recompute(layer)(h)

    The backward pass computes them again from the operands. This costs the time of one more forward pass of the
    function, and saves the memory of all that it computes but its results. States are read and updated, and random
    numbers drawn, in the forward pass alone.

    Shapes: those of the function.
    Grad:   that of the function.
    Source: Chen, Xu, Zhang, Guestrin 2016, "Training deep nets with sublinear memory cost".
    """
    if not callable(function):
        raise ArgumentError(f"oc.recompute takes a block or a function of tensors, not {function!r}"[:200])

    @public
    def call(*operands: Any, **keywords: Any) -> Any:
        call_site = site()
        if recorder.get() is not None:
            raise CodeError("oc.recompute builds an expression: build it outside of oc.cd, and use its results there")
        arguments = [nested.rebuilt(value, [embed(leaf) for leaf in nested.leaves(value)]) for value in operands]
        with separate_updates() as updates:
            traced = trace(partial(function, **keywords), arguments, None, updates)
        traced = with_body(with_reads_before(traced), _has_operands)
        return nested.rebuilt(traced.structure, recomputed_results(traced, call_site))

    return call


def _has_operands(t: Tensor) -> bool:
    """Whether an expression has operands. Others, such as numbers of calls of random streams, are computed once, before
    the function, so that the backward pass draws the same numbers."""
    return t.application is not None and bool(t.application.operands)


def recomputed_results(traced: TracedFunction, call_site: CallSite) -> list[Tensor]:
    """The results of a function whose intermediate values are recomputed."""
    states = (access.state for t in traced.body for access in t.accesses)
    owner = region(RecomputedTensor, "recompute", tuple(dict.fromkeys((*traced.inputs, *states))), call_site)
    owner.function = traced
    return [
        region_result(owner, number, result, partial(same_shape, result))
        for number, result in enumerate(traced.results)
    ]
