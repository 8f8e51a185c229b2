"""Golden files: the printed text of sample programs, which are also run."""

from pathlib import Path

import pytest
from loop_programs.golden_programs import NATIVE_SAMPLES

from ocannl_backend_llvm.builder import Instructions
from ocannl_backend_llvm.emit import emit

GOLDEN = Path(__file__).parents[2] / "golden" / "llvm"


@pytest.mark.parametrize(("program", "check"), NATIVE_SAMPLES, ids=lambda f: f.__name__)
def test_printed_text(request, run, program, check):
    (text,) = emit([program()], Instructions(half=True))
    path = GOLDEN / f"{program.__name__}.ll"
    if request.config.getoption("--update-golden", default=False):
        path.write_text(text, encoding="ascii")
    assert text == path.read_text(encoding="ascii")
    check(run)
