"""Temporary folders of backends."""

import os

import pytest

from ocannl.base import work_folder
from ocannl.base.errors import CompileError


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(work_folder.tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_stale_folders_are_removed(temporary):
    names = (f"{work_folder.PREFIX}old", f"{work_folder.PREFIX}new", "ocannl-kept-old", "another")
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
        (folder / "link").symlink_to(folder / "cache")
        raise CompileError("as by the compiler")
    assert not list(temporary.iterdir())
