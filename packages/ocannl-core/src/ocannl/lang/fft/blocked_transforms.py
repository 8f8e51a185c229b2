"""Fourier transforms of NumPy arrays along the last axis and others, which write to the memory of their results.

Rows are transformed in blocks that stay in the cache until they are copied to the result, by several threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np

from ocannl.base import row_blocks
from ocannl.base.row_blocks import for_each_block, threads_for
from ocannl.ir.host_call import DeferredArray
from ocannl.lang.linalg.arrays import Array

Norm = Literal["backward", "ortho", "forward"]
RowFunction = Callable[[Array], Array]


def library() -> Any:
    """`scipy.fft`, which is faster, or else `numpy.fft`, which has the same functions."""
    try:
        import scipy.fft
    except ImportError:
        return np.fft
    return scipy.fft


def complex_view(pairs: Array) -> Array:
    """The pairs along the last axis of an array in memory order as complex numbers, in place.

    The array is flattened first: axes of size 1 may have strides that SciPy refuses.
    """
    kind = np.complex64 if pairs.dtype == np.float32 else np.complex128
    return pairs.reshape(-1).view(kind).reshape(pairs.shape[:-1])


def transform_rows(function: RowFunction, source: Array, target: Array) -> None:
    """Stores the function of the rows of `source`, which are along its last axis, in those of `target`."""
    rows, results = source.reshape(-1, source.shape[-1]), target.reshape(-1, target.shape[-1])

    def transform(block: slice) -> None:
        results[block] = function(rows[block])

    for_each_block(transform, *rows.shape)


def overwrite_with_transform(function: str, array: Array, axes: list[int], norm: Norm) -> None:
    """Replaces complex numbers in memory order by their transform along the axes."""
    if not array.size:
        return
    of_numpy = library() is np.fft
    transform = partial(getattr(library(), function), norm=norm, **({} if of_numpy else {"overwrite_x": True}))
    workers = {} if of_numpy else {"workers": threads_for(array.size)}
    for axis in axes:
        planes = array.reshape(-1, array.shape[axis], math.prod(array.shape[axis + 1 :]))
        if planes.shape[2] > 1 and planes[0].size > row_blocks.BLOCK_CELLS:
            for plane in planes:
                _overwrite_columns(partial(transform, axes=[0]), plane)
            continue
        result = transform(array, axes=[axis], **workers)
        if not np.shares_memory(result, array):
            array[...] = result


def _overwrite_columns(transform: RowFunction, plane: Array) -> None:
    """Replaces the columns of a matrix by their transforms, in blocks: copies of some columns stay in the cache. SciPy
    would read and write the lines of memory several times, for a few of their columns each time."""

    def overwrite(block: slice) -> None:
        plane[:, block] = transform(np.ascontiguousarray(plane[:, block]))

    for_each_block(overwrite, plane.shape[1], 2 * plane.shape[0])


def real_transform(x: Array, axes: tuple[int, ...], norm: Norm, factors: Array | None = None) -> DeferredArray:
    """Pairs, along a new last axis: the transform of real numbers along axes of which the last is that of `x`.
    `factors` multiply the frequencies along it."""
    *leading, _ = axes

    def transformed(rows: Array) -> Array:
        numbers = np.asarray(library().rfft(rows, norm=norm))
        return numbers if factors is None else numbers * factors

    def write(pairs: Array) -> None:
        numbers = complex_view(pairs)
        transform_rows(transformed, x, numbers)
        overwrite_with_transform("fftn", numbers, leading, norm)

    return DeferredArray((*x.shape[:-1], x.shape[-1] // 2 + 1, 2), x.dtype, write)


def inverse_real_transform(
    pairs: Array, axes: tuple[int, ...], size: int, norm: Norm, factors: Array | None = None
) -> DeferredArray:
    """The inverse of `real_transform`, with `size` numbers along the last axis; `factors` multiply its frequencies."""
    *leading, _ = axes

    def transformed(rows: Array) -> Array:
        return np.asarray(library().irfft(rows if factors is None else rows * factors, size, norm=norm))

    def write(out: Array) -> None:
        numbers = complex_view(np.array(pairs)) if leading else complex_view(np.ascontiguousarray(pairs))
        overwrite_with_transform("ifftn", numbers, leading, norm)

        transform_rows(transformed, numbers, out)

    return DeferredArray((*pairs.shape[:-2], size), pairs.dtype, write)


def complex_transform(function: str, pairs: Array, axes: tuple[int, ...], norm: Norm) -> DeferredArray:
    """The pairs of the transform of pairs along the last axis."""

    def write(out: Array) -> None:
        out[...] = pairs
        overwrite_with_transform(function, complex_view(out), list(axes), norm)

    return DeferredArray(pairs.shape, pairs.dtype, write)
