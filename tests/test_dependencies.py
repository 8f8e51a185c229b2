"""The dependencies that each distribution declares are those that its source imports."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

PACKAGES = sorted((Path(__file__).parent.parent / "packages").glob("*/pyproject.toml"))
# Distributions whose import names differ.
MODULES = {"protobuf": "google", "pyelftools": "elftools", "scikit-learn": "sklearn"}
AT_RUN_TIME = {"mpich", "ziglang"}  # started as programs


def project(manifest: Path) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads(manifest.read_text(encoding="utf-8"))["project"]
    return table


def declared(manifest: Path) -> set[str]:
    """Returns the import names of all dependencies, with those of extras."""
    table = project(manifest)
    extras = table.get("optional-dependencies", {}).values()
    lines = [*table["dependencies"], *(line for extra in extras for line in extra)]
    names = {re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in lines} - AT_RUN_TIME
    return {"ocannl" if name == "ocannl-core" else MODULES.get(name, name).replace("-", "_") for name in names}


def imported(manifest: Path) -> set[str]:
    modules: set[str] = set()
    for path in (manifest.parent / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules.add(node.module.partition(".")[0])
    first_party = {path.stem for path in (manifest.parent / "src").iterdir()}
    return modules - set(sys.stdlib_module_names) - first_party


@pytest.mark.parametrize("manifest", PACKAGES, ids=lambda manifest: manifest.parent.name)
def test_dependencies_are_those_that_are_imported(manifest: Path) -> None:
    assert imported(manifest) == declared(manifest)


def test_lower_bounds_agree() -> None:
    """A dependency of several distributions has the same lower bound in all of them."""
    bounds: dict[str, set[str]] = {}
    for manifest in PACKAGES:
        for line in project(manifest)["dependencies"]:
            name, bound = re.split(r"(?=>=)", line, maxsplit=1)
            bounds.setdefault(name, set()).add(bound)
    assert {name: modules for name, modules in bounds.items() if len(modules) > 1} == {}
