"""Programs of several translation units: results, declarations, and compilers that fail or are interrupted."""

import subprocess
from dataclasses import replace
from functools import partial
from random import Random

import numpy as np
import pytest
from loop_programs.golden_programs import NATIVE_SAMPLES

import ocannl as oc
from ocannl import train
from ocannl.backend import CompileError
from ocannl.base.errors import ConfigError
from ocannl.codegen import outlining
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize
from ocannl.testing.random_programs import generate
from ocannl_backend_c import backend, emit, toolchain
from ocannl_backend_c.emit import emit_units


@pytest.fixture(params=[1, 3])
def separate_units(request, monkeypatch):
    """Emits a translation unit per nest, and runs 1 or 3 compilers at a time."""
    monkeypatch.setattr(toolchain, "cores", lambda: request.param)
    monkeypatch.setattr(backend, "emit_units", partial(emit_units, lines=0))


@pytest.fixture
def compilers(monkeypatch):
    """All processes of the compiler that were started."""
    started = []

    class Process(subprocess.Popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            started.append(self)

    monkeypatch.setattr(toolchain.subprocess, "Popen", Process)
    return started


@pytest.mark.parametrize(("program", "check"), NATIVE_SAMPLES, ids=lambda f: f.__name__)
def test_samples(separate_units, run, program, check):
    check(run)


def test_parts_of_programs_without_python_are_static(c, monkeypatch):
    monkeypatch.setattr(outlining, "PART_CALLS", 1)
    procs = [optimize(lower(generate(Random("static"), 6).code, "p"), {}, c.capabilities)]
    text = emit.emit(procs, replace(emit.LOADED_BY_PYTHON, has_python=False))
    assert "static __attribute__((noinline)) int p_part(" in text


def unit_texts(c, count=4):
    random = Random("units")
    procs = [optimize(lower(generate(random, 6).code, f"p{n}"), {}, c.capabilities) for n in range(count)]
    return list(emit_units(procs, lines=0))


def test_functions_are_defined_in_one_unit(c, separate_units, compilers):
    texts = unit_texts(c)
    assert len(texts) > 4
    code = toolchain.build(texts, toolchain.toolchain())  # the linker refuses second definitions
    assert code.startswith(b"\x7fELF")
    assert len(compilers) == len(texts) + 1


def test_short_programs_are_one_unit(c):
    procs = [optimize(lower(generate(Random("short"), 6).code, "p"), {}, c.capabilities)]
    (text,) = emit_units(procs)
    assert "visibility" not in text


@pytest.mark.parametrize("position", [0, 1, 4])
def test_a_rejected_unit_stops_all_compilers(c, separate_units, compilers, position):
    texts = unit_texts(c)
    texts[position:position] = ["int f(void) { return 1 }\n"]
    with pytest.raises(CompileError, match="error:"):
        toolchain.build(texts, toolchain.toolchain())
    assert compilers and all(process.returncode is not None for process in compilers)


def test_an_interrupt_during_emission_stops_all_compilers(c, separate_units, compilers):
    def interrupted():
        yield from unit_texts(c)[:3]
        raise KeyboardInterrupt

    tools = toolchain.toolchain()
    with pytest.raises(KeyboardInterrupt):
        toolchain.build(interrupted(), tools)
    assert compilers and all(process.returncode is not None for process in compilers)


def test_an_invalid_time_limit_starts_no_compiler(c, separate_units, compilers, monkeypatch):
    texts, tools = unit_texts(c), toolchain.toolchain()
    compilers.clear()
    monkeypatch.setenv("OCANNL_COMPILE_SECONDS", "0")
    with pytest.raises(ConfigError, match="compile_seconds"):
        toolchain.build(texts, tools)
    assert not compilers


def test_arrays_are_not_named_like_functions_that_their_nest_calls(c):
    def parameter(*shape, **axes):
        return oc.param("y", np.full(shape, 0.01, "float32"), **axes)

    def step(carry, x):
        state = oc.softmax(weights[0] @ oc.tanh(weights[1] @ carry + x))
        return state, state

    weights = [parameter(128, 128, output=[128], input=[128]) for _ in range(2)]
    start = oc.tensor(np.zeros((64, 128), "float32"), batch_axes=1, label="y")
    last, states = oc.scan(step, start, parameter(12, 64, 128, batch=[12, 64], output=[128]))
    loss = (states * states).sum() + last.sum()
    code = train.grad_update(loss)
    ctx = oc.Context("c")
    ctx.init(loss)
    ctx.compile(code, name="y", keep=[loss])()
    assert ctx[loss] == pytest.approx(64 + 12 * 64 / 128)
