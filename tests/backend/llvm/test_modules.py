"""Programs of several modules: results do not depend on threads, and errors leave no resources open."""

from functools import partial
from random import Random

import pytest
from loop_programs.golden_programs import NATIVE_SAMPLES

from ocannl.backend import CompileError
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize
from ocannl.testing.random_programs import generate
from ocannl_backend_llvm import emit as module
from ocannl_backend_llvm import parallel_codegen
from ocannl_backend_llvm.emit import emit
from ocannl_backend_llvm.jit import host


@pytest.fixture(params=[1, 2, 5])
def separate_modules(request, monkeypatch):
    """Emits a module per nest and compiles on 1, 2 or 5 threads."""
    monkeypatch.setattr(parallel_codegen, "cores", lambda: request.param)
    monkeypatch.setattr(module, "emit", partial(module.emit, lines=0))


@pytest.mark.parametrize(("program", "check"), NATIVE_SAMPLES, ids=lambda f: f.__name__)
def test_samples(separate_modules, run, program, check):
    check(run)


def module_texts(llvm, count=8):
    """Long programs and the texts of their modules."""
    random = Random("modules")
    procs = [optimize(lower(generate(random, 6).code, f"p{n}"), {}, llvm.capabilities) for n in range(count)]
    return procs, list(emit(procs, host().instructions, lines=0))


def test_parallel_compilation_equals_serial_compilation(llvm, separate_modules):
    _, texts = module_texts(llvm)
    assert len(texts) > 8
    expected = [parallel_codegen.compile_text(text, host()) for text in texts]
    assert parallel_codegen.compile_texts(texts, host()) == expected


def test_functions_are_defined_once(llvm):
    _, texts = module_texts(llvm)
    defined = [line.split("(")[0] for text in texts for line in text.splitlines() if line.startswith("define ")]
    assert len(set(defined)) == len(defined)


@pytest.mark.parametrize("position", [0, 1, 7])
def test_a_rejected_module_stops_compilation(llvm, separate_modules, position):
    _, texts = module_texts(llvm)
    texts[position:position] = ["define void @f() { ret i32 0 }"]
    with pytest.raises(CompileError, match="function result type"):
        parallel_codegen.compile_texts(texts, host())
    assert parallel_codegen.compile_texts(texts[position + 1 :], host())


def test_errors_during_emission_propagate(llvm, separate_modules):
    def broken():
        yield from module_texts(llvm)[1][:5]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parallel_codegen.compile_texts(broken(), host())
