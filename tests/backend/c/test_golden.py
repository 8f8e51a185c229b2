"""The printed text of a few programs, which are also run."""

from pathlib import Path

import pytest

from ocannl.testing.samples import SAMPLES
from ocannl_backend_c import toolchain
from ocannl_backend_c.emit import emit

GOLDEN = Path(__file__).parents[2] / "golden" / "c"


@pytest.mark.parametrize(("program", "check"), SAMPLES, ids=lambda f: f.__name__)
def test_printed_text(request, run, program, check):
    text = emit([program()])
    path = GOLDEN / f"{program.__name__}.c"
    if request.config.getoption("--update-golden", default=False):
        path.write_text(text, encoding="ascii")
    assert text == path.read_text(encoding="ascii")
    check(run)


def test_compilers_find_nothing_to_warn_of(tmp_path):
    """But parameters that a program has no use for, as every one is given the same."""
    path = tmp_path / "samples.c"
    path.write_text(emit([program() for program, _ in SAMPLES]), encoding="ascii")
    flags = ("-Wall", "-Wextra", "-pedantic", "-Werror", "-Wno-unused-parameter", "-fsyntax-only")
    status, _, said = toolchain.run([*toolchain.command(), *toolchain.MEANING, *flags, str(path)], tmp_path)
    assert (status, said) == (0, b"")
