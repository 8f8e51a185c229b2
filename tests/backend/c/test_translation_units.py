"""Programs of several translation units: results, declarations, and compilers that fail or are interrupted."""

import subprocess
from functools import partial
from random import Random

import pytest
from loop_programs.golden_programs import SAMPLES

from ocannl.backend import CompileError
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize
from ocannl.testing.random_programs import generate
from ocannl_backend_c import backend, toolchain
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


@pytest.mark.parametrize(("program", "check"), SAMPLES, ids=lambda f: f.__name__)
def test_samples(separate_units, run, program, check):
    check(run)


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
