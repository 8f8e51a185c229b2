"""Code for other targets than the host: LLVM compiles it to an object."""

from dataclasses import replace
from random import Random

import llvmlite.binding as binding
import pytest
from loop_programs.golden_programs import NATIVE_SAMPLES

from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize
from ocannl.testing.random_programs import generate
from ocannl_backend_llvm import jit, parallel_codegen
from ocannl_backend_llvm.emit import emit

ARM = jit.Target("aarch64-unknown-linux-gnu", "cortex-a72", "+neon,+fp-armv8")
X86_64 = jit.Target("x86_64-unknown-linux-gnu", "x86-64", "")
HASWELL = jit.Target("x86_64-unknown-linux-gnu", "haswell", "+avx,+avx2,+f16c,+fma")
VECTORS = {ARM: (16, 32), X86_64: (16, 16), HASWELL: (32, 16)}
MACHINES = {"aarch64": 183, "x86_64": 62}  # `e_machine` of ELF


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


def test_vector_registers_of_targets(target):
    assert target.vector_registers == VECTORS[target]


@pytest.mark.parametrize("program", [program for program, _ in NATIVE_SAMPLES], ids=lambda f: f.__name__)
def test_samples(target, program):
    (code,) = parallel_codegen.compile_texts(emit([program()], target.instructions), target)
    assert machine(code) == MACHINES[target.triple.partition("-")[0]]


@pytest.mark.parametrize("seed", range(3))
def test_random_programs(llvm, target, seed):
    width, registers = target.vector_registers
    capabilities = replace(llvm.capabilities, vector_bytes=width, vector_registers=registers)
    random = Random(f"targets {seed}")
    procs = [optimize(lower(generate(random, 3).code, f"p{n}"), {}, capabilities) for n in range(12)]
    assert all(parallel_codegen.compile_texts(emit(procs, target.instructions), target))
