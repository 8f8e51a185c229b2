"""Whatever the disk refuses, programs are compiled and run; the user hears of it, and no more."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ocannl as oc
from ocannl.runtime import compile_cache


@pytest.fixture
def folder(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.WARNING, "ocannl")
    monkeypatch.setenv("OCANNL_CACHE_DIR", str(tmp_path / "cache"))
    compile_cache.clear()
    yield tmp_path / "cache"
    compile_cache.clear()


def compiles(backend):
    """Compiles a program, perhaps with what is kept, and looks at its result."""
    compile_cache.clear()
    with oc.Context(backend) as context:
        x = oc.placeholder("x", o=[3])
        context[x] = [1, 2, 3]
        y = x * 2.0
        routine = context.compile(y.forward, keep=[y])
        routine()
        assert np.array_equal(context[y], [2, 4, 6])


def records(folder):
    return [path for path in (folder / "code").glob("*/*") if path.is_file()]


FAILING = ["mkdir", "open", "replace", "fsync", "fstat", "scandir", "listdir", "utime", "unlink"]
ERRORS = ["EACCES", "EROFS", "ENOSPC", "EIO", "EMFILE", "ESTALE", "ENOENT", "EDQUOT"]


@pytest.mark.parametrize("call", FAILING)
@pytest.mark.parametrize("kept", [False, True], ids=["empty", "kept"])
def test_disk_error_is_a_miss(compiled, folder, monkeypatch, call, kept):
    if kept:
        compiles(compiled)
    for name in ERRORS:
        with monkeypatch.context() as patch:
            patch.setattr(os, call, refusal(call, folder, getattr(errno, name)))
            compiles(compiled)
    compiles(compiled)
    assert records(folder)


def refusal(call, folder, number):
    """The function of `os`, which refuses what is in the folder."""
    real = getattr(os, call)

    def path(place):
        return os.readlink(f"/proc/self/fd/{place}") if isinstance(place, int) else str(place)

    def refuse(*arguments, **named):
        outer = named.get("dir_fd", named.get("src_dir_fd"))
        requested = path(arguments[0]) if outer is None else os.path.join(path(outer), arguments[0])
        if requested.startswith(str(folder)):
            raise OSError(number, os.strerror(number), requested)
        return real(*arguments, **named)

    return refuse


def test_folder_deleted_during_use(compiled, folder):
    for _ in range(3):
        compiles(compiled)
        assert len(records(folder)) == 1
        shutil.rmtree(folder)


def test_the_folder_is_a_link(compiled, folder, tmp_path, caplog):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.mkdir(mode=0o700)
    (folder / "code").symlink_to(tmp_path / "elsewhere")
    compiles(compiled)
    assert "is a link" in caplog.text and not any((tmp_path / "elsewhere").iterdir())


def test_a_folder_inside_is_a_link(compiled, folder, tmp_path, caplog):
    compiles(compiled)
    (folder_path,) = (folder / "code").iterdir()
    folder_path.rename(tmp_path / "elsewhere")
    folder_path.symlink_to(tmp_path / "elsewhere")
    before = [(p.name, p.stat().st_mtime_ns) for p in (tmp_path / "elsewhere").iterdir()]
    compiles(compiled)
    assert "is a link" in caplog.text
    assert [(p.name, p.stat().st_mtime_ns) for p in (tmp_path / "elsewhere").iterdir()] == before


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="there are no owners")
def test_folder_of_another_user(compiled, folder, monkeypatch, caplog):
    compiles(compiled)
    before = records(folder)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    compiles(compiled)
    assert "belongs to another user" in caplog.text and records(folder) == before


@pytest.mark.parametrize("kind", ["file", "missing parent", "nowhere", "a file above"])
def test_folder_cannot_be_created(compiled, tmp_path, monkeypatch, caplog, kind):
    caplog.set_level(logging.WARNING, "ocannl")
    (tmp_path / "file").write_text("")
    folder_path = {"file": tmp_path / "file", "missing parent": tmp_path / "a/b/c", "nowhere": Path("/proc/none"),
             "a file above": tmp_path / "file" / "below"}[kind]  # fmt: skip
    monkeypatch.setenv("OCANNL_CACHE_DIR", str(folder_path))
    compiles(compiled)
    assert bool(caplog.text) == (kind != "missing parent")


FULL = """
import logging, resource, signal, sys
import numpy as np, ocannl as oc
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
context = oc.Context(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))
x = oc.placeholder("x", o=[3])
context[x] = [1, 2, 3]
y = x * 2.0
context.compile(y.forward, keep=[y])()
print(context[y].tolist())
"""


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="there are no limits")
def test_file_size_limit_is_a_miss(tmp_path):
    path = os.pathsep.join(p for p in sys.path if p)
    environment = {**os.environ, "OCANNL_CACHE_DIR": str(tmp_path), "PYTHONPATH": path}
    command = [sys.executable, "-B", "-c", FULL, "llvm"]  # -B: the byte code of a module would be truncated
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout == "[2.0, 4.0, 6.0]\n", done.stderr
    assert "could not be kept" in done.stderr
    assert not list((tmp_path / "code").glob("*/*"))
