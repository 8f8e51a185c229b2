"""Judge the installed packages of the workspace, in an environment that holds only what they declare.

Every module can be imported unless it needs an extra, the command says which extra it needs, the backends that are
listed are those that are installed, and each of them computes or says why it cannot.
"""

import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import distributions
from pathlib import Path

EXTRAS = {"hypothesis", "matplotlib", "pytest", "rich", "sklearn", "triton", "typer"}


def main() -> None:
    installed = sorted(found.name for found in distributions() if found.name.startswith("ocannl-"))
    print("alone:", ", ".join(installed))
    for name in installed:
        import_all("ocannl" if name == "ocannl-core" else name.replace("-", "_"))
    check_command()
    prefix = "ocannl-backend-"
    check_backends({"numpy", *(name.removeprefix(prefix) for name in installed if name.startswith(prefix))})


def import_all(package: str) -> None:
    top = importlib.import_module(package)
    within = (found.name for found in pkgutil.walk_packages(top.__path__, f"{package}.", onerror=lambda name: None))
    for name in within:
        if name.endswith("__main__"):
            continue
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing not in EXTRAS:
                raise
            print(f"    {name} needs {missing}, which an extra brings")


def check_command() -> None:
    """Without the extra, `ocannl` is one line that says how to get it."""
    command = Path(sys.executable).with_name("ocannl")
    answer = subprocess.run([command, "backends"], capture_output=True, text=True)
    said = answer.stderr.strip()
    assert answer.returncode != 0 and "ocannl-core[cli]" in said and "Traceback" not in said, answer
    print(f"    {said}")


def check_backends(expected: Iterable[str]) -> None:
    import ocannl as oc

    rows = {row.name: row for row in oc.backends()}
    assert set(rows) == set(expected), sorted(rows)
    for name, row in rows.items():
        if row.usable:
            context = oc.Context(name)
            y = oc.tensor([1.0, 2.0, 3.0]) * 2.0 + 1.0
            context.run(y.forward)
            assert context[y].tolist() == [3.0, 5.0, 7.0], context[y]
            print(f"    {name} computes")
        else:
            check_refusal(name, row.reason)


def check_refusal(name: str, reason: str) -> None:
    import ocannl as oc

    try:
        oc.Context(name)
        said = "nothing: there is a context"
    except oc.BackendUnavailable as error:
        said = str(error)
    assert reason and reason in said, (name, reason, said)
    print(f"    {name}: {reason}")


if __name__ == "__main__":
    main()
