"""The printed text of a few programs, which are also run."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from loop_programs.golden_programs import SAMPLES

import ocannl as oc
from ocannl import train
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize
from ocannl_backend_triton.backend import CAPABILITIES
from ocannl_backend_triton.emit_module import generate_module

GOLDEN = Path(__file__).parents[2] / "golden" / "triton"
programs = pytest.mark.parametrize(("program", "check"), SAMPLES, ids=lambda f: f.__name__)


def assert_golden(request, name, text):
    path = GOLDEN / f"{name}.py.txt"
    if request.config.getoption("--update-golden", default=False):
        path.write_text(text, encoding="ascii")
    assert text == path.read_text(encoding="ascii")


@programs
def test_generated_source(request, program, check):
    assert_golden(request, program.__name__, generate_module(program()).source)


def attention(create):
    """Causal attention over 256 positions; `test_kernels` runs smaller ones."""
    q, k, v = (create(label, o=[4, 256, 64], dtype="bfloat16") for label in "qkv")
    positions = oc.iota(256)
    past = oc.einsum("s; t => st", positions, positions, combine="ge")
    scores = oc.where(past, oc.einsum("hsd; htd => hst", q, k) * 0.125, -math.inf)
    y = oc.einsum("hst; htd => hsd", oc.softmax(scores, "...|hst => ...|hs"), v)
    return (q, k, v), y


def generate_source(code, name, results):
    code = code.elaborate()
    keep_reasons = dict.fromkeys((result.node for result in results), "kept") | dict(code.keep_reasons)
    capabilities = replace(CAPABILITIES, wants_online_softmax=True)
    return generate_module(optimize(lower(code.comp, name), keep_reasons, capabilities)).source


def test_printed_attention(request):
    _, y = attention(oc.placeholder)
    assert_golden(request, "attention", generate_source(y.forward, "attention", [y]))


def test_printed_gradients_of_attention(request):
    params, y = attention(oc.param)
    code = train.grad_update((y * y).sum())
    gradients = [param.grad for param in params]
    assert_golden(request, "attention_gradients", generate_source(code, "attention_gradients", gradients))


@programs
def test_generated_source_runs(run, program, check):
    check(run)
