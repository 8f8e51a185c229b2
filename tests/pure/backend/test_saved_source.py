"""Source that a compiler rejected is saved where only the user can read it."""

import os
import stat
import tempfile
from pathlib import Path

import pytest

from ocannl.backend import save_source
from ocannl.backend.saved_source import _private_folder


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    _private_folder.cache_clear()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    _private_folder.cache_clear()


def test_equal_texts_share_a_file(folder):
    path = save_source("int x;", "c", ".c")
    assert isinstance(path, Path) and path.read_text() == "int x;" and path.suffix == ".c"
    assert path == save_source("int x;", "c", ".c") != save_source("int y;", "c", ".c")
    assert path.parent != save_source("int x;", "llvm", ".ll").parent
    assert [entry.name.rpartition("-")[0] for entry in sorted(folder.iterdir())] == [
        "ocannl-c-kept",
        "ocannl-llvm-kept",
    ]


@pytest.mark.skipif(os.name != "posix", reason="no modes of files")
def test_others_cannot_read_it():
    assert stat.S_IMODE(save_source("", "c", ".c").parent.stat().st_mode) == 0o700


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_forked_process_has_its_own_folder():
    folder = save_source("", "c", ".c").parent
    child = os.fork()
    if child == 0:
        os._exit(save_source("", "c", ".c").parent == folder)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_failure_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    assert str(save_source("", "c", ".c")).startswith("no file: ")
