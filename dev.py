#!/usr/bin/env python3
"""The front door of the workspace: makes its environment, then runs one task in it.

Needs Python 3.11 or newer with pip, and nothing else. The environment is `.venv`, or the folder that `DEV_VENV` names.
It holds what `requirements.lock` says and the packages of this workspace, editable; a stamp in it remembers from which
files it was made, so that a second call starts at once. What follows the task is passed on to its last command:

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
EXAMPLE = "ocannl-backend-example"  # to be read: what runs on every installed backend would take long on it
OLDEST = (3, 11)
LARGE = ("ziglang",)  # what an extra brings for machines that lack it: tests skip without

# task: (what it is for, its commands). The commands of the gates stand here and their environments in tox.ini; those of
# the chores stand in noxfile.py.
TASKS = {
    "demo": ("train a network on handwritten digits", ["ocannl demo digits --backend llvm"]),
    "test": ("run a sample of the tests; --all: all", ["pytest -n auto --maxprocesses 8 --dist worksteal"]),
    "lint": ("judge the text of the source", ["python changes/collect.py --check", "ruff check"]),
    "types": ("judge its types", ["mypy"]),
    "docs": (
        "build the documentation and run its examples",
        ["python docs/run_examples.py", "sphinx-build -W -q -b html docs docs/_build/html"],
    ),
    "gates": ("check all that must hold, each in an environment of its own", ["tox run"]),
    "golden": ("write the golden texts anew", ["nox -s golden --"]),
    "long": ("run all cases of all tests, and many generated programs", ["nox -s long --"]),
    "bench": ("measure", ["nox -s bench --"]),
    "cubins": ("compile every kernel for GPUs that need not be here", ["nox -s cubins --"]),
    "release": ("collect the changes, then build and check the distributions", ["nox -s release --"]),
    "setup": ("only make the environment", []),
    "lock": ("write requirements.lock anew", []),
    "pins": ("write the lock without hashes to the named file: constraints for pip beside folders", []),
}


def main(arguments: list[str]) -> int:
    here = arguments[:1] == ["--here"]  # for the gates: the environment of this Python, as it is
    task, *rest = arguments[here:] or ["--help"]
    if task in ("-h", "--help"):
        print(usage())
        return 0
    if task not in TASKS:
        print(f"{usage()}\n\ndev.py: there is no task `{task}`", file=sys.stderr)
        return 2
    if sys.version_info < OLDEST:
        say(f"Python {dotted(OLDEST)} or newer is needed; this is {dotted(sys.version_info)}")
        return 2
    if task == "lock":
        return lock(rest)
    if task == "pins":
        Path(*rest).write_text(pins(), encoding="utf-8")
        return 0
    if task == "test":
        rest = [argument for argument in rest if argument != "--all"] if rest else ["--quick"]
    environment = Path(sys.prefix) if here else prepare(Path(os.environ.get("DEV_VENV", ROOT / ".venv")).absolute())
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
    """The environment, brought up to date with the lock and the manifests."""
    stamp = environment / "dev-stamp.json"
    found = read_stamp(stamp)
    wanted = {"python": sys.version, "lock": digest([LOCK]), "packages": digest(MANIFESTS)}
    if found == wanted:
        return environment
    stamp.unlink(missing_ok=True)  # an interrupted installation leaves no stamp
    if found.get("python") != wanted["python"]:
        create(environment)
        found = {}
    if found.get("lock") != wanted["lock"]:
        say(f"installing the locked dependencies into {environment.name} (a minute or two, once)")
        install(environment, "--require-hashes", "--only-binary=:all:", "-r", str(LOCK))
    say("installing the packages of the workspace")
    wanted_here = [manifest.parent for manifest in MANIFESTS if manifest.parent.name != EXAMPLE]
    folders = [argument for folder in wanted_here for argument in ("-e", str(folder))]
    install(environment, "--no-deps", "--no-build-isolation", *folders)
    stamp.write_text(json.dumps(wanted, indent=1), encoding="utf-8")
    return environment


def read_stamp(stamp: Path) -> dict[str, str]:
    try:
        found = json.loads(stamp.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def digest(files: list[Path]) -> str:
    """Of what the files hold and where they are: an editable installation remembers the path of its folder."""
    total = hashlib.sha256()
    for file in files:
        total.update(b"%s\0%s\0" % (str(file).encode(), file.read_bytes()))
    return total.hexdigest()


def create(environment: Path) -> None:
    if environment.exists() and any(environment.iterdir()) and not (environment / "pyvenv.cfg").exists():
        sys.exit(f"dev.py: {environment} is not a virtual environment, so it is left alone")
    say(f"making {environment.name} with Python {dotted(sys.version_info)}")
    venv.create(environment, clear=True, symlinks=os.name != "nt", with_pip=has_ensurepip())


def has_ensurepip() -> bool:
    """Some systems ship `venv` without it."""
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
    """Run all commands in the root of the workspace, also after one has failed; the first bad status is the answer."""
    folder = scripts(environment)
    variables = {
        **os.environ,
        "VIRTUAL_ENV": str(environment),
        "PATH": os.pathsep.join([str(folder), os.environ.get("PATH", os.defpath)]),
    }
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
    """Resolve what the packages, their extras and the tools need, for every platform and Python; keep what still fits.

    `--upgrade` lets every version move, `--upgrade-package NAME` that one. No address is written: the lock serves
    whatever index pip is configured for.
    """
    with tempfile.TemporaryDirectory() as scratch:
        environment = Path(scratch) / "uv"
        create(environment)
        install(environment, next((pin for pin in pins().splitlines() if pin.startswith("uv==")), "uv"))
        command = [str(scripts(environment) / "uv"), "pip", "compile", "--quiet"]
        command += ["--universal", "--python-version", dotted(OLDEST), "--generate-hashes"]
        command += ["--no-emit-index-url", "--no-annotate", "--custom-compile-command", "python3 dev.py lock"]
        command += ["--all-extras", "--group", "dev", "--output-file", LOCK.name]
        for manifest in MANIFESTS:
            command += [str(manifest.relative_to(ROOT)), "--no-emit-package", manifest.parent.name]
        for name in LARGE:
            command += ["--no-emit-package", name]
        return subprocess.run([*command, *arguments], cwd=ROOT).returncode


def pins() -> str:
    """The lock without its hashes; pip refuses hashes as soon as a folder is to be installed as well."""
    text = LOCK.read_text(encoding="utf-8") if LOCK.exists() else ""
    return "".join(f"{pin.strip()}\n" for pin in re.findall(r"^([\w.-]+==[^\\\n]+)", text, re.MULTILINE))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
