"""Native code accesses no memory beside its arrays, as guard pages and AddressSanitizer see it, and its threads have no
races, as ThreadSanitizer sees them.

OCANNL_TEST_GUARDED is the number of batches of random programs on each backend between guard pages, and
OCANNL_TEST_SANITIZED that with each sanitizer, from 2 on also with ThreadSanitizer. With each batch runs one of the 13
workloads.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "guarded_memory.py"
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FIRST = int(os.environ.get("OCANNL_TEST_FIRST", "0"))
GUARDED = int(os.environ.get("OCANNL_TEST_GUARDED", "1"))
SANITIZED = int(os.environ.get("OCANNL_TEST_SANITIZED", "1"))
BATCHES = 10  # of one process
GCC = shutil.which("gcc")
NATIVE = [name for name in ("llvm", "c") if find_spec(f"ocannl_backend_{name}")]

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="guard pages and sanitizers of Linux")


def run(backend: str, mode: str, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    folders = [str(BENCHMARKS), *(path for path in sys.path if path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), **variables}
    setarch = shutil.which("setarch")  # without random addresses, for which ThreadSanitizer may lack room
    prefix = [setarch, "-R"] if mode == "threads" and setarch else []
    command = [*prefix, sys.executable, "-X", "faulthandler", str(SCRIPT), backend, mode, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=3000)


def check(backend: str, mode: str, count: int, **variables: str) -> None:
    for first in range(FIRST, FIRST + count, BATCHES):
        batches = min(BATCHES, FIRST + count - first)
        done = run(backend, mode, batches, first, **variables)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-8000:]}"
        assert json.loads(done.stdout.splitlines()[-1])["workloads"] == batches


def sanitizer(name: str) -> dict[str, str]:
    """The environment of a process that loads a sanitizer and compiles code for it."""
    if GCC is None or not find_spec("ocannl_backend_c"):
        pytest.skip("there is no GCC or no C backend")
    short = {"address": "asan", "thread": "tsan"}[name]
    library = subprocess.run([GCC, f"-print-file-name=lib{short}.so"], capture_output=True, text=True).stdout.strip()
    if not os.path.isabs(library):
        pytest.skip(f"GCC has no lib{short}")
    return {
        "LD_PRELOAD": library, "OCANNL_C_COMPILER": f"gcc -fsanitize={name}", "ASAN_OPTIONS": "detect_leaks=0",
        "TSAN_OPTIONS": "exitcode=66",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["after", "before"])
@pytest.mark.parametrize("native", NATIVE)
def test_no_access_beyond_guard_pages(native: str, mode: str) -> None:
    check(native, mode, GUARDED)


@pytest.mark.slow
def test_address_sanitizer_has_no_findings() -> None:
    check("c", "poisoned", SANITIZED, **sanitizer("address"))


@pytest.mark.slow
@pytest.mark.skipif(SANITIZED < 2, reason="a part of the long tier")
def test_thread_sanitizer_has_no_findings() -> None:
    check("c", "threads", SANITIZED, **sanitizer("thread"))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["after", "before"])
@pytest.mark.parametrize("native", NATIVE)
def test_guard_pages_detect_the_next_element(native: str, mode: str) -> None:
    assert run(native, mode, "defect", 1).returncode == -11
    if (native, mode) == ("llvm", "after"):
        assert run(native, mode, "defect", 0).returncode == 0


@pytest.mark.slow
def test_address_sanitizer_detects_the_next_element() -> None:
    done = run("c", "poisoned", "defect", 1, **sanitizer("address"))
    assert done.returncode and "AddressSanitizer: use-after-poison" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(SANITIZED < 2, reason="a part of the long tier")
def test_thread_sanitizer_detects_a_race() -> None:
    done = run("c", "threads", "defect", 1, **sanitizer("thread"))
    assert done.returncode == 66 and "ThreadSanitizer: data race" in done.stderr
