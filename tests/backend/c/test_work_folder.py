"""Temporary folders of the C backend: removal of stale ones, and interrupts at any line."""

import os
import sys

import pytest

from ocannl.backend import CompileError
from ocannl_backend_c import shared_library, work_folder
from ocannl_backend_c.toolchain import build, toolchain


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(work_folder.tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_stale_folders_are_removed(temporary):
    names = (f"{work_folder.PREFIX}old", f"{work_folder.PREFIX}new", "ocannl-c-kept-old", "another")
    for name in names:
        (temporary / name).mkdir()
        (temporary / name / "code.c").touch()
        if not name.endswith("new"):
            os.utime(temporary / name, (0, 0))
    (temporary / f"{work_folder.PREFIX}link").symlink_to(temporary / "another")
    work_folder.remove_stale_folders(-1)
    left = {path.name for path in temporary.iterdir()}
    assert left == {*names, f"{work_folder.PREFIX}link"} - {names[0]}


def test_work_folders_are_removed_with_their_content(temporary):
    with pytest.raises(CompileError), work_folder.work_folder() as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "cache").mkdir()
        (folder / "cache" / "code.o").touch()
        (folder / "code.c").touch()
        raise CompileError("as by the compiler")
    assert not list(temporary.iterdir())


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # Python closes files that `with` has not entered
def test_an_interrupt_at_any_line_of_loading_is_raised(temporary):
    """A cache that treats OSError as damaged code would otherwise compile instead of ending the program."""
    code = build(["int f(void) { return 1; }"], toolchain())
    lines = _interrupted_at_line(lambda: shared_library.load(code), 0)
    assert lines > 20
    for number in range(1, lines + 1):
        with pytest.raises(KeyboardInterrupt):
            _interrupted_at_line(lambda: shared_library.load(code), number)


def _interrupted_at_line(call, number):
    """Raises KeyboardInterrupt when the line with a number in the order of execution is reached; returns the number
    of lines."""
    lines = 0

    def trace(frame, event, _argument):
        nonlocal lines
        if event == "line":
            lines += 1
            if lines == number:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
    return lines
