"""Sixty kernels of all sorts become machine code of two generations of GPUs."""

from dataclasses import replace
from functools import cache

import pytest

pytest.importorskip("triton")

from collecting import distinct, of_workloads

from ocannl.ir.precision import bfloat16, float32
from ocannl.testing.kit import casts, operations, statements
from ocannl.testing.samples import SAMPLES
from ocannl_backend_triton.compile import binaries
from ocannl_backend_triton.source import module
from ocannl_backend_triton.target import KNOWN

COUNT = 60


@cache
def sample():
    """Every so many of all, so that there are some of each sort."""
    programs = [build() for build, _ in SAMPLES]
    programs += [one.proc for p in (float32, bfloat16) for one in statements.cases(p).values()]
    families = operations.applied, operations.reductions, casts.casts
    programs += [one.proc for family in families for one in family(float32).values()]
    kernels = list(distinct([*map(module, programs), *of_workloads()]))
    return [kernels[n * len(kernels) // COUNT] for n in range(COUNT)]


@pytest.mark.parametrize("sm", [80, 90])
def test_kernels_of_all_sorts_become_machine_code(sm):
    images = set()
    for of, kernel in sample():
        (binary,) = binaries(replace(of, kernels=(kernel,)), KNOWN[sm])
        assert binary.image.startswith(b"\x7fELF")
        images.add((kernel.name, binary.image))
    assert len(images) == COUNT
