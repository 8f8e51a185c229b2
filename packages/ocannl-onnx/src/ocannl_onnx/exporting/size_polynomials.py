"""Constants that depend on the sizes of free axes, as operators of ONNX.

A constant is known for several sizes. What fits all of them is one of these forms, also in combination:

    a0 + a1*n + a2*m + a3*n*m    the same shape at all sizes; a0, a1, ... are arrays of integers
    1 / a                        for an array a of such integers, such as the number of terms of a mean
    base + step*k                along an axis whose size depends on n; k are the positions, base and step constants
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
from onnx import helper

from ocannl_onnx.exporting.graph_builder import Array, OnnxBuilder

Sizes = Mapping[str, int]
"""The sizes of free axes by name."""


class DependsOnSizes(Exception):
    """A model that is another one for each size of a free axis, with the reason."""


def sample_sizes(names: Sequence[str], low: int, high: int, *checks: int) -> list[dict[str, int]]:
    """The sizes from which polynomials are computed, all combinations of two of them, and further ones to check these:
    sizes from each of `checks` on."""
    subsets = [set(subset) for count in range(len(names) + 1) for subset in combinations(names, count)]
    corners = [{name: high if name in subset else low for name in names} for subset in subsets]
    return [*corners, *({name: check + number for number, name in enumerate(names)} for check in checks)]


class SizePolynomials:
    """Writes the nodes that compute constants. `samples` are the sizes at which they are known; `declared` has, for
    each free axis, an input and the number of the axis."""

    def __init__(
        self, builder: OnnxBuilder, samples: Sequence[Sizes], declared: Mapping[str, tuple[str, int]]
    ) -> None:
        self.builder, self.samples, self.declared = builder, samples, declared
        names = list(declared)
        self.monomials = [subset for count in range(len(names) + 1) for subset in combinations(names, count)]
        self._powers = [[prod(sizes[name] for name in monomial) for monomial in self.monomials] for sizes in samples]
        self._solution = np.linalg.inv(np.array(self._powers[: len(self.monomials)], float))

    def coefficients(self, arrays: Sequence[Array]) -> list[Array]:
        """The coefficients of the monomials. Raises: DependsOnSizes."""
        values = np.stack([np.asarray(array, np.int64) for array in arrays])
        fitted = np.tensordot(self._solution, values[: len(self.monomials)].astype(float), 1)
        rounded = np.rint(fitted).astype(np.int64)
        if not np.array_equal(np.tensordot(np.array(self._powers, np.int64), rounded, 1), values):
            raise DependsOnSizes("numbers that are no polynomial in the sizes")
        return list(rounded)

    def _is_polynomial(self, arrays: Sequence[Array]) -> bool:
        try:
            self.coefficients(arrays)
        except DependsOnSizes:
            return False
        return True

    def text(self, sizes: Sequence[int]) -> str | int:
        """A size as a number, or as the text of a polynomial."""
        terms = []
        for monomial, coefficient in zip(self.monomials, self.coefficients([np.array(n) for n in sizes]), strict=True):
            factors = [*([str(coefficient)] if coefficient != 1 or not monomial else []), *monomial]
            terms += ["*".join(factors)] if coefficient else []
        text = " + ".join(reversed(terms)) or "0"
        return int(text) if text.lstrip("-").isdigit() else text

    # --- values ---

    def value(self, arrays: Sequence[Array]) -> str:
        """The name of a constant that is `arrays` at the sizes of the samples. Raises: DependsOnSizes."""
        first = arrays[0]
        if all(np.array_equal(array, first, equal_nan=first.dtype.kind == "f") for array in arrays):
            return self.builder.constant(first)
        if len({(array.ndim, array.dtype) for array in arrays}) > 1:
            raise DependsOnSizes("constants with other axes or of other types")
        if first.dtype != np.int64:
            return self._converted(arrays)
        axis = _varying_axis(arrays)
        return self._polynomial(arrays) if axis is None else self._along(arrays, axis)

    def _converted(self, arrays: Sequence[Array]) -> str:
        """Numbers of other types that are integers, reciprocals of integers, or the same along an axis."""
        dtype = arrays[0].dtype
        if all(_are_integers(array) for array in arrays):
            return self._cast(self.value([array.astype(np.int64) for array in arrays]), dtype)
        axis = _varying_axis(arrays)
        if axis is not None:
            return self._along(arrays, axis)
        if dtype.kind == "f" and all(array.all() for array in arrays):
            counts = [np.rint(1 / array.astype(float)) for array in arrays]
            if all(map(_are_reciprocals, arrays, counts)):
                divisor = self._cast(self.value([count.astype(np.int64) for count in counts]), dtype)
                return self.builder.node("Div", self.builder.constant(np.ones((), dtype)), divisor)
        raise DependsOnSizes("numbers that are no polynomial in the sizes")

    def _cast(self, name: str, dtype: Any) -> str:
        return self.builder.node("Cast", name, to=helper.np_dtype_to_tensor_dtype(dtype))

    def _polynomial(self, arrays: Sequence[Array]) -> str:
        total: str | None = None
        for monomial, coefficient in zip(self.monomials, self.coefficients(arrays), strict=True):
            if not coefficient.any():
                continue
            name = self._product(monomial, coefficient)
            total = name if total is None else self.builder.node("Add", total, name)
        assert total is not None
        return total

    def _product(self, monomial: Sequence[str], coefficient: Array) -> str:
        name = None if coefficient.size == 1 and coefficient.ndim < 2 and coefficient.item() == 1 else coefficient
        factors = [self._size(symbol, vector=coefficient.ndim > 0) for symbol in monomial]
        factors += [] if name is None and monomial else [self.builder.constant(coefficient)]
        product, *following = factors
        for factor in following:
            product = self.builder.node("Mul", product, factor)
        return product

    def _size(self, symbol: str, vector: bool) -> str:
        value, axis = self.declared[symbol]
        size = self.builder.node("Shape", value, start=axis, end=axis + 1)
        return size if vector else self.builder.node("Squeeze", size, self.builder.integers(0))

    def _along(self, arrays: Sequence[Array], axis: int) -> str:
        """Numbers that are equal, or integers that increase by equal steps, along an axis."""
        sizes = [array.shape[axis] for array in arrays]
        if min(sizes) < 2:
            raise DependsOnSizes("constants with other axes")
        first = [_cut(array, axis) for array in arrays]
        ndim = arrays[0].ndim
        if all(map(_are_equal, arrays, first)):
            dims = [np.where(np.arange(ndim) == axis, n, np.ones(ndim, np.int64)) for n in sizes]
            return self.builder.node("Expand", self.value(first), self.value(dims))
        if arrays[0].dtype != np.int64:
            raise DependsOnSizes("numbers that are not equal along an axis")
        line = [-1 if n == axis else 1 for n in range(ndim)]
        steps = [_cut(array, axis, 1) - cut for array, cut in zip(arrays, first, strict=True)]
        positions = [np.arange(n).reshape(line) for n in sizes]
        if not all(map(_are_equal, arrays, [a + b * k for a, b, k in zip(first, steps, positions, strict=True)])):
            raise DependsOnSizes("numbers that do not increase by equal steps along an axis")
        start, step = (self.builder.constant(np.array(n, np.int64)) for n in (0, 1))
        name = self.builder.node("Range", start, self.value([np.array(n, np.int64) for n in sizes]), step)
        if ndim > 1:
            name = self.builder.node("Reshape", name, self.builder.integers(*line))
        if any(np.any(n != 1) for n in steps):
            name = self.builder.node("Mul", name, self.value(steps))
        return self.builder.node("Add", name, self.value(first)) if any(cut.any() for cut in first) else name

    def shape(self, arrays: Sequence[Array]) -> str:
        """The operand of Reshape: at most one size is left to the operator, one that varies. Raises: DependsOnSizes."""
        if len({array.shape for array in arrays}) > 1 or any((array <= 0).any() for array in arrays):
            return self.value(arrays)
        table = np.stack(arrays)
        varying = [n for n in range(table.shape[1]) if len(set(table[:, n])) > 1]
        free = [n for n in varying if not self._is_polynomial(list(table[:, n]))] or varying
        if len(varying) == 1 or len(free) < len(varying):
            table[:, free[0]] = -1
        return self.value(list(table))


def _varying_axis(arrays: Sequence[Array]) -> int | None:
    """The first axis that has several sizes."""
    shapes = np.array([array.shape for array in arrays])
    return next((n for n in range(shapes.shape[1]) if len(set(shapes[:, n])) > 1), None)


def _cut(array: Array, axis: int, position: int = 0) -> Array:
    return np.take(array, [position], axis)


def _are_integers(array: Array) -> bool:
    if array.dtype.kind in "biu":
        return True
    return array.dtype.kind == "f" and bool(np.isfinite(array).all()) and np.array_equal(array, np.rint(array))


def _are_equal(array: Array, description: Array) -> bool:
    return np.array_equal(array, np.broadcast_to(description, array.shape))


def _are_reciprocals(array: Array, counts: Array) -> bool:
    return bool(counts.all()) and np.array_equal(array.dtype.type(1) / counts.astype(array.dtype), array)
