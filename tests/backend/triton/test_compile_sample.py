"""Compiles forty kernels of all kinds to machine code for two generations of GPUs."""

from dataclasses import replace
from functools import cache

import pytest

pytest.importorskip("triton")

from collecting import distinct_kernels, workload_modules
from loop_programs.golden_programs import SAMPLES

from ocannl.ir.precision import bfloat16, float32
from ocannl.testing.kit import casts, operations, statements
from ocannl_backend_triton.compile import compile_kernels
from ocannl_backend_triton.cuda_target import TARGETS
from ocannl_backend_triton.emit_module import generate_module

COUNT = 40


@cache
def sample():
    """Kernels at regular intervals of all of them, so that every kind is represented."""
    programs = [build() for build, _ in SAMPLES]
    programs += [case.proc for p in (float32, bfloat16) for case in statements.cases(p).values()]
    families = operations.applied, operations.reductions, casts.casts
    programs += [case.proc for family in families for case in family(float32).values()]
    kernels = list(distinct_kernels([*map(generate_module, programs), *workload_modules()]))
    return [kernels[n * len(kernels) // COUNT] for n in range(COUNT)]


@pytest.mark.parametrize("sm", [80, 90])
def test_kernels_of_all_sorts_become_machine_code(sm):
    images = set()
    for module, kernel in sample():
        (binary,) = compile_kernels(replace(module, kernels=(kernel,)), TARGETS[sm])
        assert binary.image.startswith(b"\x7fELF")
        images.add((kernel.name, binary.image))
    assert len(images) == COUNT
