"""The options of the kit as somebody gives them: which backend, and what is known to fail."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

MODULE = """
from ocannl.testing import kit

class TestOperations(kit.Declaration):
    backend = "numpy"

    def test_what_fails(self, bench):
        assert bench.backend.name == "c++"

class TestOther(kit.Declaration):
    pass
"""
PLUGIN = "ocannl_pytest"
INSTALLED = any(found.value == PLUGIN for found in entry_points(group="pytest11"))


def run(folder, *arguments):
    (folder / "test_mine.py").write_text(MODULE)
    (folder / "pytest.ini").write_text("[pytest]")
    early = [] if INSTALLED else ["-p", PLUGIN]
    command = [sys.executable, "-m", "pytest", *early, "-p", "no:cacheprovider", *arguments, "test_mine.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout + done.stderr


def listing(folder, text):
    (folder / "known.txt").write_text(text)
    return "--ocannl-known-failures=known.txt"


@pytest.mark.slow
def test_the_header_says_what_is_judged(tmp_path):
    status, output = run(tmp_path, "--ocannl-backend=numpy", "--deselect=test_mine.py::TestOperations::test_what_fails")
    assert status == 0, output
    assert "ocannl backend: numpy of ocannl-core" in output
    assert "\n  alignment_bytes: 64\n" in output
    assert "\n  precisions: bfloat16, bool, float16, float32, " in output


@pytest.mark.slow
def test_a_class_may_name_its_backend(tmp_path):
    status, output = run(tmp_path)
    assert status == 1 and "assert 'numpy' == 'c++'" in output
    assert "1 failed" in output


def test_a_backend_that_is_not_there(tmp_path):
    status, output = run(tmp_path, "--ocannl-backend=nump")
    assert status == 4
    assert "ERROR: there is no backend `nump`; did you mean `numpy`?" in output


@pytest.mark.slow
def test_what_is_known_to_fail_may_fail(tmp_path):
    listed = listing(tmp_path, "# about one thing\n\nTestOperations::test_what_f*  # there is no such language\n")
    status, output = run(tmp_path, listed)
    assert status == 0 and "1 xfailed" in output


@pytest.mark.slow
def test_what_is_known_to_fail_must_fail(tmp_path):
    listed = listing(tmp_path, "TestOther::test_its_devices  # it did\nTestOperations::test_what_fails  # it does\n")
    status, output = run(tmp_path, listed)
    assert status == 1 and "[XPASS(strict)] it did" in output


@pytest.mark.slow
def test_what_is_known_must_exist(tmp_path):
    listed = listing(tmp_path, "TestOther::test_its_devises  # a slip\n")
    status, output = run(tmp_path, listed)
    assert status == 4 and "there are no such tests: TestOther::test_its_devises" in output


@pytest.mark.slow
@pytest.mark.parametrize("text", ["TestOther::test_its_devices\n", "TestOther::test_its_devices # one blank\n"])
def test_a_reason_is_needed(tmp_path, text):
    status, output = run(tmp_path, listing(tmp_path, text))
    assert status == 4 and "known.txt:1: a known failure needs a reason: TEST  # REASON" in output


@pytest.mark.slow
def test_the_file_must_be_there(tmp_path):
    status, output = run(tmp_path, "--ocannl-known-failures=nowhere.txt")
    assert status == 4 and "nowhere.txt: No such file" in output


STARTUP = """
import importlib, sys, time

def pytest_sessionfinish():
    imported = sorted(name for name in sys.modules if name.partition(".")[0] in ("ocannl", "numpy"))
    assert "ocannl_pytest" in sys.modules and not imported, imported
    plugin, times = sys.modules["ocannl_pytest"], []
    for _ in range(20):
        start = time.perf_counter()
        importlib.reload(plugin)
        times.append(time.perf_counter() - start)
    print(f"import of the plugin: {1e3 * min(times):.2f} ms")
"""
MAX_STARTUP_MS = 3.0


@pytest.mark.slow
def test_a_session_without_options_does_not_import_the_core(tmp_path):
    (tmp_path / "conftest.py").write_text(STARTUP)
    (tmp_path / "test_mine.py").write_text("def test(): pass")
    (tmp_path / "pytest.ini").write_text("[pytest]")
    early = [] if INSTALLED else ["-p", PLUGIN]
    command = [sys.executable, "-m", "pytest", *early, "-s", "-p", "no:cacheprovider", "test_mine.py"]
    session = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert session.returncode == 0, session.stdout + session.stderr
    (milliseconds,) = re.findall(r"import of the plugin: (\S+) ms", session.stdout)
    assert float(milliseconds) < MAX_STARTUP_MS
