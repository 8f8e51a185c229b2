"""Programs of several modules: the same results, whoever translates them, and nothing left open after an error."""

from functools import partial
from random import Random

import pytest

from ocannl.backend import CompileError
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize
from ocannl.testing.generate import generate
from ocannl.testing.samples import SAMPLES
from ocannl_backend_llvm import emit as module
from ocannl_backend_llvm import objects
from ocannl_backend_llvm.emit import emit
from ocannl_backend_llvm.jit import host


@pytest.fixture(params=[1, 2, 5])
def split(request, monkeypatch):
    """Every nest in a module of its own, on so many processors."""
    monkeypatch.setattr(objects, "cores", lambda: request.param)
    monkeypatch.setattr(module, "emit", partial(module.emit, lines=0))


@pytest.mark.parametrize(("program", "check"), SAMPLES, ids=lambda f: f.__name__)
def test_samples(split, run, program, check):
    check(run)


def many(llvm, count=8):
    """Long programs, and the texts of their modules."""
    random = Random("modules")
    procs = [optimize(lower(generate(random, 6).code, f"p{n}"), {}, llvm.capabilities) for n in range(count)]
    return procs, list(emit(procs, host().instructions, lines=0))


def test_objects_are_those_of_the_modules_one_by_one(llvm, split):
    _, texts = many(llvm)
    assert len(texts) > 8
    assert objects.compile_texts(texts, host()) == [objects.compile_text(text, host()) for text in texts]


def test_modules_tell_each_other_what_they_define_once(llvm):
    _, texts = many(llvm)
    defined = [line.split("(")[0] for text in texts for line in text.splitlines() if line.startswith("define ")]
    assert len(set(defined)) == len(defined)


@pytest.mark.parametrize("place", [0, 1, 7])
def test_a_module_that_is_refused_stops_the_others(llvm, split, place):
    _, texts = many(llvm)
    texts[place:place] = ["define void @f() { ret i32 0 }"]
    with pytest.raises(CompileError, match="function result type"):
        objects.compile_texts(texts, host())
    assert objects.compile_texts(texts[place + 1 :], host())


def test_an_error_while_text_is_written_goes_through(llvm, split):
    def broken():
        yield from many(llvm)[1][:5]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        objects.compile_texts(broken(), host())
