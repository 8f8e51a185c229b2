"""Dependences between kernels."""

import pytest

from ocannl_backend_triton.kernel_module import Argument, Kernel, KernelModule


def argument(region, start, end, access):
    return Argument("p", "fp32", region, start, end - start, "r" in access, "w" in access)


def edges(*kernels):
    kernel_list = [Kernel(f"k{n}", "", tuple(arguments), (1, 1, 1)) for n, arguments in enumerate(kernels)]
    return list(KernelModule("m", "", tuple(kernel_list), ()).dependences)


@pytest.mark.parametrize(
    ("first", "second", "waits"),
    [
        ((0, 0, 8, "w"), (0, 0, 8, "r"), True),
        ((0, 0, 8, "r"), (0, 0, 8, "w"), True),
        ((0, 0, 8, "w"), (0, 0, 8, "w"), True),
        ((0, 0, 8, "r"), (0, 0, 8, "r"), False),
        ((0, 0, 8, "w"), (1, 0, 8, "r"), False),
        ((0, 0, 8, "w"), (0, 8, 16, "r"), False),
        ((0, 0, 9, "w"), (0, 8, 16, "r"), True),
        ((0, 8, 16, "r"), (0, 0, 9, "w"), True),
    ],
)
def test_dependence_of_two_kernels(first, second, waits):
    assert edges([argument(*first)], [argument(*second)]) == ([(0, 1)] if waits else [])


def test_transitive_dependences_are_omitted():
    a, b, c = (argument(n, 0, 8, "w") for n in range(3))
    read = [argument(n, 0, 8, "r") for n in range(3)]
    assert edges([a], [read[0], b], [read[1], c], [read[0], read[2]]) == [(0, 1), (1, 2), (2, 3)]


def test_independent_kernels_are_unordered():
    a, b = (argument(n, 0, 8, "w") for n in range(2))
    assert edges([a], [b], [argument(0, 0, 8, "r"), argument(1, 0, 8, "r")]) == [(0, 2), (1, 2)]
