"""The printed text of a few programs, which are also run."""

from pathlib import Path

import pytest

from ocannl.testing.samples import SAMPLES
from ocannl_backend_triton.source import module
from ocannl_backend_triton.types import HELD

GOLDEN = Path(__file__).parents[2] / "golden" / "triton"
HELD_SAMPLES = [sample for sample in SAMPLES if {buf.precision for buf in sample[0]().bufs} <= HELD.keys()]
programs = pytest.mark.parametrize(("program", "check"), HELD_SAMPLES, ids=lambda f: f.__name__)


@programs
def test_printed_text(request, program, check):
    text = module(program()).source
    path = GOLDEN / f"{program.__name__}.py.txt"
    if request.config.getoption("--update-golden", default=False):
        path.write_text(text, encoding="ascii")
    assert text == path.read_text(encoding="ascii")


@programs
def test_what_was_printed_runs(run, program, check):
    check(run)
