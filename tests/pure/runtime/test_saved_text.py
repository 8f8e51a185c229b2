"""Text files of routines."""

from __future__ import annotations

from pathlib import Path

import pytest

import ocannl as oc
from ocannl.ir.printer import print_comp


def code() -> oc.Code:
    x = oc.placeholder("x", batch=[], input=[], output=[3])
    with oc.cd("Step 1: double x") as recorded, oc.comment("of", x.value):
        x += x
    return recorded


@pytest.mark.parametrize(("backend", "source"), [("numpy", "source.txt"), ("c", "c"), ("llvm", "ll")])
def test_files_of_a_routine(backend: str, source: str, tmp_path: Path) -> None:
    recorded = code()
    routine = oc.Context(backend).compile(recorded, save_text=tmp_path / "new" / "texts")
    files = {path.name: path.read_text() for path in (tmp_path / "new" / "texts").iterdir()}
    stages = routine.stages()
    assert routine.name == "Step_1_double_x"
    assert files[f"{routine.name}.assignments.txt"] == print_comp(recorded.elaborate().comp)
    assert "# of x" in files[f"{routine.name}.assignments.txt"]
    assert files[f"{routine.name}.{source}"] == routine.source()
    for number, (stage, text) in enumerate(stages.items()):
        assert files[f"{routine.name}.{number:02}.{stage}.txt"] == text
    assert len(files) == len(stages) + 2
    assert {path.name for path in routine.save_text(tmp_path)} == files.keys()


def test_a_folder_is_a_path(tmp_path: Path) -> None:
    with pytest.raises(oc.ArgumentError, match="a folder is a path, not 3"):
        oc.Context("numpy").compile(code(), save_text=3)


@pytest.mark.parametrize(("folder", "cause"), [("a\0b", "embedded null byte"), (__file__, "File exists")])
def test_a_folder_that_cannot_be_written_is_reported(folder: str, cause: str) -> None:
    with pytest.raises(oc.ArgumentError, match=f"cannot be written: {cause}"):
        oc.Context("numpy").compile(code(), save_text=folder)
