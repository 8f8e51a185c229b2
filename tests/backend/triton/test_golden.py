"""The printed text of a few programs, which are also run."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

import ocannl as oc
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


def test_printed_attention(request):
    """Causal, of 256 places; `test_kernels` runs smaller ones."""
    q, k, v = (oc.placeholder(label, o=[4, 256, 64], dtype="bfloat16") for label in "qkv")
    places = oc.iota(256)
    past = oc.einsum("s; t => st", places, places, combine="ge")
    scores = oc.where(past, oc.einsum("hsd; htd => hst", q, k) * 0.125, -math.inf)
    y = oc.einsum("hst; htd => hsd", oc.softmax(scores, "...|hst => ...|hs"), v)
    lowered = lower(y.forward.elaborate().comp, "attention")
    proc = optimize(lowered, {y.node: "kept"}, replace(CAPABILITIES, online=True))
    compare(request, "attention", module(proc).source)


@programs
def test_what_was_printed_runs(run, program, check):
    check(run)
