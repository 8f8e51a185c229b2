"""Maintenance sessions; `python3 dev.py NAME` runs one in the environment of the workspace."""

import os
import tomllib
from pathlib import Path
from zipfile import ZipFile

import nox

nox.needs_version = ">=2026.4"
nox.options.default_venv_backend = "none"
nox.options.sessions = []

ROOT = Path(__file__).parent
DIST = ROOT / "dist"


@nox.session
def golden(session: nox.Session) -> None:
    """Regenerate the golden files; review the difference before committing it."""
    session.run("pytest", "--update-golden", *(session.posargs or ["tests"]))
    session.run("git", "diff", "--stat", "--", "tests/golden", external=True)


@nox.session
def long(session: nox.Session) -> None:
    """Run all cases of all tests, with many random inputs: a million systems of shape constraints, a million programs
    with axes of size 1, ten thousand schedules, five thousand networks, all networks of papers, a thousand
    scans, 200 random shapes of the operands of each operation, 200 000 calls with arguments that fit nothing, 10 000
    processes killed while they save, 100 000 mutated checkpoints, 3 000 checked gradients, 50 000 lowered programs,
    1 000 interrupts in each phase, 200 forks during imports, 200 killed processes of worlds, 1 200 programs between
    guard pages on each backend, 600 with each sanitizer of C, and 100 000 mutated specs, settings, command lines and
    names."""
    command = ["pytest", "--complete", "--hypothesis-profile=fuzz", "-n", "auto", *(session.posargs or ["tests"])]
    counts = {"SHAPES": "1000000", "ONES": "1000000", "SCHEDULES": "10000", "NETWORKS": "5000", "PAPERS": "all"}
    counts |= {"JUNK": "200000", "SCANS": "1000", "OPERANDS": "200", "SAVE_KILLS": "10000", "MUTATIONS": "100000"}
    counts |= {"GRADIENTS": "3000", "PROGRAMS": "50000", "INTERRUPTS": "1000", "FORKS": "200", "WORLD_KILLS": "200"}
    counts |= {"GUARDED": "200", "SANITIZED": "100", "TEXTS": "100000"}
    session.run(*command, env={f"OCANNL_TEST_{name}": count for name, count in counts.items()})


@nox.session
def bench(session: nox.Session) -> None:
    """Run one benchmark with options, or all benchmarks (slow ones with --quick)."""
    if session.posargs:
        name, *options = session.posargs
        session.run("python", str(ROOT / "benchmarks" / f"{name}.py"), *options)
        return
    for path in sorted((ROOT / "benchmarks").glob("*.py")):
        session.run("python", str(path), *(["--quick"] if path.stem in ("run", "growth") else []))


@nox.session
def cubins(session: nox.Session) -> None:
    """Cross-compile all kernels of the conformance kit and the benchmarks for GPUs (half an hour; requires triton)."""
    session.run("python", str(ROOT / "tests" / "backend" / "triton" / "compile_all.py"), *session.posargs)


@nox.session
def release(session: nox.Session) -> None:
    """Collect the change fragments, build all distributions into dist/ and check the contents of the wheels."""
    session.run("python", "changes/collect.py", *session.posargs)
    for manifest in sorted(ROOT.glob("packages/*/pyproject.toml")):
        with session.chdir(manifest.parent):
            session.run("python", "-m", "hatchling", "build", "--directory", str(DIST))
        check_wheel(session, tomllib.loads(manifest.read_text(encoding="utf-8"))["project"])


def check_wheel(session: nox.Session, project: dict[str, str]) -> None:
    name, version = project["name"].replace("-", "_"), project["version"]
    wheel = DIST / f"{name}-{version}-py3-none-any.whl"
    package = "ocannl" if name == "ocannl_core" else name
    wanted = {f"{package}/__init__.py", f"{package}/py.typed", f"{name}-{version}.dist-info/licenses/LICENSE"}
    if package == "ocannl":
        wanted.add("ocannl_pytest.py")
    missing = wanted - set(ZipFile(wheel).namelist())
    if missing:
        session.error(f"{wheel.name} lacks {', '.join(sorted(missing))}")
    session.log(f"{wheel.name}: {os.path.getsize(wheel) // 1024} KiB")
