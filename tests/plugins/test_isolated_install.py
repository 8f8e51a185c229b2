"""Backends as their users get them: wheels, in a fresh environment of the core, pytest, and nothing else of ours.

The example backend, and one made from the template on the spot, pass the conformance kit there.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import venv
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ocannl.testing.template import TEMPLATE

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "packages"

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="this environment has no pip")


def run(*command: object, **how: object) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OCANNL_", "PYTEST_", "PYTHON"))}
    arguments = list(map(str, command))
    done = subprocess.run(arguments, env=clean, capture_output=True, text=True, timeout=300, **how)
    assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout[-4000:]}{done.stderr[-2000:]}"
    return done.stdout


def build(folder: Path, into: Path) -> Path:
    """The wheel of a package; hatchling is here, so nothing is fetched."""
    into.mkdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", into, cwd=folder)
    (wheel,) = into.glob("*.whl")
    return wheel


def needed(*names: str) -> list[Distribution]:
    """Distributions, and what they need in turn."""
    by_name: dict[str, Distribution] = {}
    waiting = list(names)
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in by_name:
            continue
        by_name[name] = distribution(name)
        wanted = [Requirement(text) for text in by_name[name].requires or ()]
        waiting += [r.name for r in wanted if r.marker is None or r.marker.evaluate({"extra": ""})]
    return list(by_name.values())


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(PACKAGES / "ocannl-core", tmp_path_factory.mktemp("core") / "dist")


def fresh(folder: Path, *wheels: Path) -> Path:
    """The Python of a new environment with the wheels. What they need is linked from this environment."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    outside = [d for d in needed("ocannl-core", "pytest") if canonicalize_name(d.name) != "ocannl-core"]
    for distribution_ in outside:
        for top in {file.parts[0] for file in distribution_.files or () if file.parts[0] not in ("..", "__pycache__")}:
            (site / top).symlink_to(Path(str(distribution_.locate_file(top))))
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-qq", "--disable-pip-version-check"]
    run(*pip, "--no-index", "--no-deps", *wheels)
    return python


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="the environment is put together from links")
def test_the_example_passes_the_kit(tmp_path: Path, core: Path) -> None:
    python = fresh(tmp_path / "env", core, build(PACKAGES / "ocannl-backend-example", tmp_path / "dist"))
    listed = run(python, "-c", "import ocannl as oc; print(*(row.name for row in oc.backends()), oc.Context())")
    assert listed.strip() == "example numpy <context on example:0>"
    kit = [python, "-m", "pytest", "-p", "no:cacheprovider", "--pyargs", "ocannl.testing", "--ocannl-backend=example"]
    output = run(*kit, cwd=tmp_path)
    assert "ocannl backend: example of ocannl-backend-example 0.1.0, on ocannl-core 0.1.0" in output
    assert re.search(r" passed(, \d+ skipped)? in ", output), output


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="the environment is put together from links")
def test_a_backend_from_the_template_passes_the_kit(tmp_path: Path, core: Path) -> None:
    pytest.importorskip("copier")
    generated = tmp_path / "made"
    answers = ["--data", "name=my_own", "--data", "author=Ann O'Nym"]
    installed = run(fresh(tmp_path / "core", core), "-m", "ocannl.testing.template", cwd=tmp_path).strip()
    assert installed.startswith(str(tmp_path)), "the template of the clone"
    run(sys.executable, "-m", "copier", "copy", "--quiet", "--defaults", *answers, installed, generated)
    assert "Ann O'Nym" in (generated / "README.md").read_text(encoding="utf-8")
    python = fresh(tmp_path / "env", core, build(generated, tmp_path / "dist"))
    output = run(python, "-m", "pytest", "-p", "no:cacheprovider", cwd=generated)
    assert "ocannl backend: my_own of ocannl-backend-my-own 0.1.0, on ocannl-core 0.1.0" in output
    assert "  precisions: bool, float32, float64, int16, int32, int64, int8, uint16, uint32, uint64, uint8" in output
    assert " passed" in output and " failed" not in output


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        (["name=two words", "author=me"], "small letters, digits and underscores"),
        (["name=fine", "distribution=../../x", "author=me"], "small letters, digits and hyphens"),
        (["name=fine", 'author="""'], "a name"),
    ],
)
def test_template_rejects_invalid_names(tmp_path: Path, answers: list[str], says: str) -> None:
    pytest.importorskip("copier")
    data_options = [word for answer in answers for word in ("--data", answer)]
    copier = [sys.executable, "-m", "copier", "copy", "--quiet", "--defaults"]
    command = [*copier, *data_options, TEMPLATE, tmp_path / "made"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and says in done.stderr
