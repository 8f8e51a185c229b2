"""The printed text of a few programs, which are also run."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

import ocannl as oc
from ocannl import train
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize
from ocannl.testing.samples import SAMPLES
from ocannl_backend_triton.backend import CAPABILITIES
from ocannl_backend_triton.source import module

GOLDEN = Path(__file__).parents[2] / "golden" / "triton"
programs = pytest.mark.parametrize(("program", "check"), SAMPLES, ids=lambda f: f.__name__)


def compare(request, name, text):
    path = GOLDEN / f"{name}.py.txt"
    if request.config.getoption("--update-golden", default=False):
        path.write_text(text, encoding="ascii")
    assert text == path.read_text(encoding="ascii")


@programs
def test_printed_text(request, program, check):
    compare(request, program.__name__, module(program()).source)


def attention(make):
    """Causal, of 256 places; `test_kernels` runs smaller ones."""
    q, k, v = (make(label, o=[4, 256, 64], dtype="bfloat16") for label in "qkv")
    places = oc.iota(256)
    past = oc.einsum("s; t => st", places, places, combine="ge")
    scores = oc.where(past, oc.einsum("hsd; htd => hst", q, k) * 0.125, -math.inf)
    y = oc.einsum("hst; htd => hsd", oc.softmax(scores, "...|hst => ...|hs"), v)
    return (q, k, v), y


def printed(code, name, kept):
    code = code.elaborate()
    asked = dict.fromkeys((each.node for each in kept), "kept") | dict(code.asked)
    return module(optimize(lower(code.comp, name), asked, replace(CAPABILITIES, online=True))).source


def test_printed_attention(request):
    _, y = attention(oc.placeholder)
    compare(request, "attention", printed(y.forward, "attention", [y]))


def test_printed_gradients_of_attention(request):
    params, y = attention(oc.param)
    code = train.grad_update((y * y).sum())
    compare(request, "attention_gradients", printed(code, "attention_gradients", [p.grad for p in params]))


@programs
def test_what_was_printed_runs(run, program, check):
    check(run)
