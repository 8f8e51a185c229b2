"""Golden files: the printed text of sample programs, which are also run."""

from pathlib import Path

import pytest
from loop_programs.golden_programs import NATIVE_SAMPLES

from ocannl_backend_c import toolchain
from ocannl_backend_c.emit import emit

GOLDEN = Path(__file__).parents[2] / "golden" / "c"


@pytest.mark.parametrize(("program", "check"), NATIVE_SAMPLES, ids=lambda f: f.__name__)
def test_printed_text(request, run, program, check):
    text = emit([program()])
    path = GOLDEN / f"{program.__name__}.c"
    if request.config.getoption("--update-golden", default=False):
        path.write_text(text, encoding="ascii")
    assert text == path.read_text(encoding="ascii")
    check(run)


def test_generated_code_has_no_warnings(tmp_path):
    """Except for unused parameters, because all programs have the same parameters."""
    path = tmp_path / "samples.c"
    path.write_text(emit([program() for program, _ in NATIVE_SAMPLES]), encoding="ascii")
    flags = ("-Wall", "-Wextra", "-pedantic", "-Werror", "-Wno-unused-parameter", "-fsyntax-only")
    status, _, output = toolchain.run([*toolchain.command(), *toolchain.SEMANTICS, *flags, str(path)], tmp_path)
    assert (status, output) == (0, b"")
