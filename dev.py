#!/usr/bin/env python3
"""Task runner of the workspace: creates a virtual environment, then runs a task in it.

Requires only Python 3.11 or newer with pip. The environment is `.venv`, or the folder in `DEV_VENV`. It contains the
packages pinned in `requirements.lock` and editable installations of the packages of this workspace. A stamp records
the hashes of these files, so that the installation is repeated only when they change. Further arguments are passed to
the last command of the task:

    python3 dev.py test tests/pure -k parse
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
LOCK = ROOT / "requirements.lock"
MANIFESTS = sorted((ROOT / "packages").glob("*/pyproject.toml"))
EXAMPLES = {"ocannl-backend-example", "ocannl-backend-numba"}  # not installed: they would make the tests slow
INSTALLED = [manifest for manifest in MANIFESTS if manifest.parent.name not in EXAMPLES]
OLDEST = (3, 11)
LARGE = ("mpich", "ziglang")  # optional dependencies that are not locked; tests that need them are skipped

# task: (description, commands). tox.ini defines the environments of the checks, noxfile.py the other sessions.
TASKS = {
    "demo": ("train a network on handwritten digits", ["ocannl demo digits --backend llvm"]),
    "test": ("run a sample of the tests; --all: all tests", ["pytest -n auto --maxprocesses 8 --dist worksteal"]),
    "lint": ("check the source and the change fragments", ["python changes/collect.py --check", "ruff check"]),
    "types": ("check types with mypy", ["mypy"]),
    "docs": (
        "build the documentation and run its examples",
        ["python docs/run_examples.py", "sphinx-build -W -q -b html docs docs/_build/html"],
    ),
    "gates": ("run all checks with tox, each in a separate environment", ["tox run"]),
    "golden": ("regenerate the golden files", ["nox -s golden --"]),
    "long": ("run all tests with all cases and many random programs", ["nox -s long --"]),
    "bench": ("run the benchmarks", ["nox -s bench --"]),
    "cubins": ("cross-compile all GPU kernels, without a GPU", ["nox -s cubins --"]),
    "release": ("collect the changes, then build and check the distributions", ["nox -s release --"]),
    "setup": ("create the environment only", []),
    "lock": ("regenerate requirements.lock", []),
    "pins": ("write pip constraints (the lock without hashes) to a file", []),
}


def main(arguments: list[str]) -> int:
    in_place = arguments[:1] == ["--here"]  # used by tox: run in the environment of this interpreter
    task, *rest = arguments[in_place:] or ["--help"]
    if task in ("-h", "--help"):
        print(usage())
        return 0
    if task not in TASKS:
        print(f"{usage()}\n\ndev.py: unknown task `{task}`", file=sys.stderr)
        return 2
    if sys.version_info < OLDEST:
        say(f"Python {dotted(OLDEST)} or newer is required; this is {dotted(sys.version_info)}")
        return 2
    if task == "lock":
        return lock(rest)
    if task == "pins":
        Path(*rest).write_text(pins(), encoding="utf-8")
        return 0
    if task == "test":
        rest = [argument for argument in rest if argument != "--all"] if rest else ["--quick"]
    environment = Path(sys.prefix) if in_place else prepare(Path(os.environ.get("DEV_VENV", ROOT / ".venv")).absolute())
    return perform(environment, TASKS[task][1], rest)


def usage() -> str:
    rows = (f"    {name:<8} {purpose}" for name, (purpose, _) in TASKS.items())
    return "\n".join(["usage: python3 dev.py TASK [ARGUMENT ...]", "", *rows])


def dotted(version: tuple[object, ...]) -> str:
    return ".".join(str(part) for part in version[:2])


def say(text: str) -> None:
    print(f"dev.py: {text}", file=sys.stderr, flush=True)


# ---------------------------------------------------------------------------------------------------- the environment


def scripts(environment: Path) -> Path:
    return environment / ("Scripts" if os.name == "nt" else "bin")


def prepare(environment: Path) -> Path:
    """Creates or updates the environment to match the lock and the manifests."""
    stamp = environment / "dev-stamp.json"
    recorded = read_stamp(stamp)
    wanted = {"python": sys.version, "lock": digest([LOCK]), "packages": digest(MANIFESTS)}
    if recorded == wanted:
        return environment
    stamp.unlink(missing_ok=True)  # an interrupted installation leaves no stamp
    if recorded.get("python") != wanted["python"]:
        create(environment)
        recorded = {}
    if recorded.get("lock") != wanted["lock"]:
        say(f"installing the locked dependencies into {environment.name} (a minute or two, once)")
        install(environment, "--require-hashes", "--only-binary=:all:", "-r", str(LOCK))
    say("installing the packages of the workspace")
    first_party = [manifest.parent for manifest in INSTALLED]
    folders = [argument for folder in first_party for argument in ("-e", str(folder))]
    install(environment, "--no-deps", "--no-build-isolation", *folders)
    stamp.write_text(json.dumps(wanted, indent=1), encoding="utf-8")
    return environment


def read_stamp(stamp: Path) -> dict[str, str]:
    try:
        recorded = json.loads(stamp.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return recorded if isinstance(recorded, dict) else {}


def digest(files: list[Path]) -> str:
    """Hash of the contents and paths of files; paths matter, since editable installations refer to them."""
    total = hashlib.sha256()
    for file in files:
        total.update(b"%s\0%s\0" % (str(file).encode(), file.read_bytes()))
    return total.hexdigest()


def create(environment: Path) -> None:
    if environment.exists() and any(environment.iterdir()) and not (environment / "pyvenv.cfg").exists():
        sys.exit(f"dev.py: {environment} is not a virtual environment and is not overwritten")
    say(f"creating {environment.name} with Python {dotted(sys.version_info)}")
    venv.create(environment, clear=True, symlinks=os.name != "nt", with_pip=has_ensurepip())


def has_ensurepip() -> bool:
    """Whether `ensurepip` is available; some systems ship `venv` without it."""
    return importlib.util.find_spec("ensurepip") is not None


def install(environment: Path, *arguments: str) -> None:
    python = str(scripts(environment) / "python")
    pip = [python, "-m", "pip"] if has_ensurepip() else [sys.executable, "-m", "pip", "--python", python]
    command = [*pip, "install", "-qq", "--no-input", "--disable-pip-version-check", *arguments]
    code = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL).returncode
    if code:
        sys.exit(f"dev.py: pip failed with status {code}")


# ------------------------------------------------------------------------------------------------------------ the tasks


def perform(environment: Path, commands: list[str], rest: list[str]) -> int:
    """Runs all commands in the root of the workspace, also after a failure; returns the first nonzero status."""
    folder = scripts(environment)
    variables = {
        **os.environ,
        "VIRTUAL_ENV": str(environment),
        "PATH": os.pathsep.join([str(folder), os.environ.get("PATH", os.defpath)]),
    }
    variables.pop("PYTHONDONTWRITEBYTECODE", None)  # tests start many processes, which would compile all modules anew
    answer = 0
    for command in commands:
        program, *words = command.split() + (rest if command is commands[-1] else [])
        try:
            code = subprocess.run([str(folder / program), *words], cwd=ROOT, env=variables).returncode
        except FileNotFoundError:
            sys.exit(f"dev.py: {environment} has no command `{program}`")
        except KeyboardInterrupt:
            return 130
        answer = answer or code
    return answer


# ------------------------------------------------------------------------------------------------------------- the lock


def lock(arguments: list[str]) -> int:
    """Resolves the dependencies of all packages, extras and tools for every platform and supported Python.

    Locked versions are kept where possible; `--upgrade` upgrades all, `--upgrade-package NAME` one. The lock contains
    no index URL, so it works with the index that pip is configured for.
    """
    with tempfile.TemporaryDirectory() as scratch:
        environment = Path(scratch) / "uv"
        create(environment)
        install(environment, next((pin for pin in pins().splitlines() if pin.startswith("uv==")), "uv"))
        command = [str(scripts(environment) / "uv"), "pip", "compile", "--quiet"]
        command += ["--universal", "--python-version", dotted(OLDEST), "--generate-hashes"]
        command += ["--no-emit-index-url", "--no-annotate", "--custom-compile-command", "python3 dev.py lock"]
        command += ["--all-extras", "--group", "dev", "--output-file", LOCK.name]
        for manifest in INSTALLED:
            command += [str(manifest.relative_to(ROOT)), "--no-emit-package", manifest.parent.name]
        for name in LARGE:
            command += ["--no-emit-package", name]
        return subprocess.run([*command, *arguments], cwd=ROOT).returncode


def pins() -> str:
    """The lock without hashes; pip cannot combine hashes with the installation of a folder."""
    text = LOCK.read_text(encoding="utf-8") if LOCK.exists() else ""
    return "".join(f"{pin.strip()}\n" for pin in re.findall(r"^([\w.-]+==[^\\\n]+)", text, re.MULTILINE))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
