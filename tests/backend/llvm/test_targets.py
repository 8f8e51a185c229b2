"""Code for processors that are not this one: LLVM takes it, and makes an object for them."""

from dataclasses import replace
from random import Random

import llvmlite.binding as binding
import pytest

from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize
from ocannl.testing.generate import generate
from ocannl.testing.samples import SAMPLES
from ocannl_backend_llvm import jit, objects
from ocannl_backend_llvm.emit import emit

ARM = jit.Target("aarch64-unknown-linux-gnu", "cortex-a72", "+neon,+fp-armv8")
OLD = jit.Target("x86_64-unknown-linux-gnu", "x86-64", "")
FAIR = jit.Target("x86_64-unknown-linux-gnu", "haswell", "+avx,+avx2,+f16c,+fma")
VECTORS = {ARM: (16, 32), OLD: (16, 16), FAIR: (32, 16)}
MACHINES = {"aarch64": 183, "x86_64": 62}  # as ELF names them


@pytest.fixture(scope="module", autouse=True)
def targets():
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()


@pytest.fixture(params=VECTORS, ids=lambda target: target.cpu)
def target(request):
    try:
        binding.Target.from_triple(request.param.triple)
    except RuntimeError:
        pytest.skip("this LLVM makes no code for it")
    return request.param


def machine(code):
    assert code.startswith(b"\x7fELF")
    return int.from_bytes(code[18:20], "little")


def test_vectors_are_those_of_the_target(target):
    assert target.vectors == VECTORS[target]


@pytest.mark.parametrize("program", [program for program, _ in SAMPLES], ids=lambda f: f.__name__)
def test_samples(target, program):
    (code,) = objects.compile_texts(emit([program()], target.instructions), target)
    assert machine(code) == MACHINES[target.triple.partition("-")[0]]


@pytest.mark.parametrize("seed", range(3))
def test_random_programs(llvm, target, seed):
    width, registers = target.vectors
    claimed = replace(llvm.capabilities, vector_bytes=width, vector_registers=registers)
    random = Random(f"targets {seed}")
    procs = [optimize(lower(generate(random, 3).code, f"p{n}"), {}, claimed) for n in range(12)]
    assert all(objects.compile_texts(emit(procs, target.instructions), target))
