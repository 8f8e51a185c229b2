"""Real wheels, installed by pip into a folder of their own, in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="this environment has no pip")

RESOLVE = """
import sys
from ocannl.backend.registry import resolve
try:
    print(resolve(sys.argv[1]).name)
except Exception as wrong:
    print(f"{type(wrong).__name__}: {wrong}")
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory, source, wheel):
    folder = tmp_path_factory.mktemp("wheels")
    wheels = {
        "good": ("fine", source("fine")),
        "broken": ("broken", "import no_such_module"),
        "old": ("old", source("old", api=0)),
        "hookless": ("hookless", "x = 1"),
        "twin-a": ("twin", source("twin")),
        "twin-b": ("twin", source("twin")),
        "crashing": ("crashing", source("crashing", load="lambda: __import__('os').abort()")),
    }
    paths = [wheel(folder, name, text, dist=f"test-{dist}") for dist, (name, text) in wheels.items()]
    target = folder / "site"
    command = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--no-index", "--disable-pip-version-check"]
    subprocess.run([*command, "--target", str(target), *map(str, paths)], check=True)
    path = os.pathsep.join([str(target), *(p for p in sys.path if p)])
    return {**os.environ, "PYTHONPATH": path, "OCANNL_BACKEND": ""}


def ask(environment, *arguments):
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("fine", "numpy"),  # it loads the reference under another name
        ("numpy", "numpy"),
        ("broken", "BackendImportError: backend `broken` of test-broken 1.0 is broken: importing `test_broken_module`"),
        ("old", "BackendApiMismatch: backend `old` of test-old 1.0 is built for version 0"),
        ("hookless", "BackendImportError: backend `hookless` of test-hookless 1.0 is broken: `test_hookless_module`"),
        ("twin", "DuplicateBackend: backend `twin` is provided by test-twin-a 1.0 and test-twin-b 1.0"),
        ("nothing", "UnknownBackend: there is no backend `nothing`; installed: "),
    ],
)
def test_what_becomes_of_it(environment, name, says):
    assert ask(environment, "-c", RESOLVE, name).stdout.startswith(says)


def test_the_list_tells_of_all(environment):
    done = ask(environment, "-m", "ocannl.cli", "backends")
    lines = dict(line.split("\t", 1) for line in done.stdout.splitlines())
    assert done.returncode == 0
    assert lines["fine"] == "test-good\t1.0\tyes\tfor tests"
    assert "\tno\t" in lines["broken"] and "No module named 'no_such_module'" in lines["broken"]
    assert "\tno\t" in lines["old"] and "pip install --upgrade test-old" in lines["old"]
    assert "\tyes\t" in lines["numpy"]


def test_the_doctor_survives_a_crashing_backend(environment):
    done = ask(environment, "-m", "ocannl.cli", "doctor", "--limit", "50", "fine", "broken", "crashing", "numpy")
    lines = dict(line.split("\t", 1) for line in done.stdout.splitlines())
    assert done.returncode == 1
    assert lines["numpy"].startswith("PASS\tworks: ")
    assert lines["fine"].startswith("PASS")
    assert lines["broken"].startswith("FAIL\tbackend `broken` of test-broken 1.0 is broken")
    assert lines["crashing"] == "FAIL\tit crashed with SIGABRT"
