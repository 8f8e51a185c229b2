"""The operations that are functions: all operations of the registry without a different spelling.

Their types are in the stub file of this module, which is generated from the table of operations.
"""

from __future__ import annotations

from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.ops import (
    activations,
    adaptive_pooling,
    along_axis,
    attention,
    casts,
    concat,
    convolution,
    counting,
    crops,
    ctc,
    discrete_distributions,
    distances,
    distributions,
    einsum,
    elementwise,
    elementwise_losses,
    gamma_variates,
    gathers,
    gelu,
    grids,
    index_tensors,
    indexing,
    layout,
    linalg,
    losses,
    margin_losses,
    norms,
    number_functions,
    ordering,
    padding,
    patches,
    pooling,
    primitives,
    products,
    quantiles,
    reductions,
    repetition,
    resize,
    rotations,
    sampling,
    scans,
    scatters,
    searching,
    segments,
    softmax,
    special_functions,
    statistics,
    threefry,
    trigonometry,
)
from ocannl.lang.ops.methods import attach

REGISTERING_MODULES = (
    activations, adaptive_pooling, along_axis, attention, casts, concat, convolution, counting, crops, ctc,
    discrete_distributions, distances, distributions, einsum, elementwise, elementwise_losses, gamma_variates, gathers,
    gelu, grids, index_tensors, indexing, layout, linalg, losses, margin_losses, norms, number_functions, ordering,
    padding, patches, pooling, primitives, products, quantiles, reductions, repetition, resize, rotations, sampling,
    scans, scatters, searching, segments, softmax, special_functions, statistics, threefry, trigonometry,
)  # fmt: skip
"""The modules that fill the registry."""

NOT_FUNCTIONS = {
    "all", "any", "mean", "round", "sum", "largest", "smallest",  # methods: the names belong to Python
    "max", "min",  # maximum, minimum
    "slice", "transpose",  # x[n], x.T
}  # fmt: skip


def _is_public(name: str) -> bool:
    """Names with a trailing underscore are internal, except for primitives named like Python keywords."""
    return name not in NOT_FUNCTIONS and (name in primitives.PRIMITIVES or not name.endswith("_"))


__all__ = sorted(filter(_is_public, REGISTRY))
globals().update({name: REGISTRY[name] for name in __all__})
attach(REGISTRY)
