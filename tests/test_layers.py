"""Layers: an import points down, no modules import each other in a circle, and a backend uses the seam alone.

Read from the text of the source, so that imports inside functions, under `TYPE_CHECKING` and by a literal name given to
`import_module` count as well.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path

import pytest

PACKAGES = Path(__file__).resolve().parents[1] / "packages"
CORE = PACKAGES / "ocannl-core" / "src"
PYTEST_PLUGIN = CORE / "ocannl_pytest.py"  # beside the package, since importing a module imports its package
BACKENDS = sorted(PACKAGES.glob("ocannl-backend-*"))
TRANSPORTS = sorted(PACKAGES.glob("ocannl-transport-*"))

TABLE = """
0 base
1 ir
2 infer, lower
3 lang, opt, codegen
4 backend, transport
5 runtime
6 checkpoint, nn, show
7 train
8 demos, testing
9 cli
"""
LAYERS = {
    name: int(number) for number, names in re.findall(r"(\d) (.*)", TABLE) for name in names.split(", ")
}  # whatever stands beside these packages, `ocannl/__init__` first of all, is above every one of them
SEAM = ("backend", "base", "codegen", "ir")  # what a backend may import of the core
TRANSPORT_SEAM = ("base", "transport")

MODULE_OF = {"scikit-learn": "sklearn"}  # where a distribution and its module differ in more than a hyphen


@dataclass(frozen=True)
class Import:
    """An import statement: where it stands, and the module it names, in full."""

    file: Path
    line: int
    module: str

    @property
    def place(self) -> str:
        return f"{self.file.relative_to(PACKAGES) if self.file.is_relative_to(PACKAGES) else self.file}:{self.line}"


def imports(file: Path, source_root: Path) -> Iterator[Import]:
    """Every module that a file imports; `from p import a` names `p.a`, which may be a module or something in `p`."""
    package = file.relative_to(source_root).parent.parts
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
        match node:
            case ast.Import(names=names):
                modules = [name.name for name in names]
            case ast.ImportFrom(module=module, names=names, level=level):
                base = [*package[: len(package) - level + 1]] if level else []
                modules = [".".join([*base, *([module] if module else []), name.name]) for name in names]
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                modules = [module] if not module.startswith(".") else []
            case _:
                continue
        yield from (Import(file, node.lineno, module) for module in modules)


def room(module: str) -> str | None:
    """The package of the core that a module belongs to; None for `ocannl` itself and what stands beside the layers."""
    _, _, rest = module.partition(".")
    name = rest.partition(".")[0]
    return name if name in LAYERS else None


def of_core(imported: Import) -> bool:
    return imported.module.partition(".")[0] == "ocannl"


def upward(source_root: Path) -> list[str]:
    """The imports within the core that do not point down, in words."""
    complaints = []
    for file in sorted(source_root.glob("ocannl/**/*.py")):
        importing = room(".".join(file.relative_to(source_root).with_suffix("").parts))
        if importing is None:
            continue
        for imported in filter(of_core, imports(file, source_root)):
            package = room(imported.module)
            if package == importing or (package is not None and LAYERS[package] < LAYERS[importing]):
                continue
            layer = f"layer {LAYERS[package]}" if package else "above all layers"
            importer = f"{importing} (layer {LAYERS[importing]})"
            complaints.append(f"{imported.place}: {importer} imports {imported.module} ({layer})")
    return complaints


def beside_the_seam(source_root: Path, seam: tuple[str, ...] = SEAM) -> list[str]:
    """The imports of a plugin that reach past the seam, or into another backend, in words."""
    packages = {folder.name for folder in source_root.iterdir()}
    complaints = []
    for file in sorted(source_root.glob("**/*.py")):
        for imported in imports(file, source_root):
            top = imported.module.partition(".")[0]
            if of_core(imported) and room(imported.module) not in seam:
                complaints.append(f"{imported.place}: imports {imported.module}, and a plugin only {', '.join(seam)}")
            elif top.startswith("ocannl_backend_") and top not in packages:
                complaints.append(f"{imported.place}: imports {imported.module}; a backend does not know another")
    return complaints


def undeclared(folder: Path) -> list[str]:
    """The imports of a distribution that neither its dependencies nor its extras bring, in words."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needs = chain(project.get("dependencies", ()), *project.get("optional-dependencies", {}).values())
    names = [re.split(r"[^\w.-]", need)[0] for need in needs]
    declared = {"ocannl" if name == "ocannl-core" else MODULE_OF.get(name, name.replace("-", "_")) for name in names}
    declared |= {path.stem for path in (folder / "src").iterdir()} | sys.stdlib_module_names
    return [
        f"{imported.place}: imports {imported.module}, which {folder.name}/pyproject.toml does not declare"
        for file in sorted((folder / "src").glob("**/*.py"))
        for imported in imports(file, folder / "src")
        if imported.module.partition(".")[0] not in declared
    ]


def circles(source_root: Path) -> list[str]:
    """The smallest circle of imports through each strongly connected component of the module graph, with its lines."""
    modules = {module_name(file, source_root): file for file in sorted(source_root.glob("**/*.py"))}
    graph = {name: edges(file, source_root, modules) for name, file in modules.items()}
    complaints, reported = [], set[str]()
    for module in graph:
        circle = shortest_circle(module, graph)
        if circle and reported.isdisjoint(circle):
            steps = [f"  {graph[a][b].place}: {a} imports {b}" for a, b in pairwise([*circle, circle[0]])]
            complaints.append("\n".join([f"a circle of {len(circle)} modules:", *steps]))
        reported.update(circle)
    return complaints


def module_name(file: Path, source_root: Path) -> str:
    return ".".join(file.relative_to(source_root).with_suffix("").parts).removesuffix(".__init__")


def edges(file: Path, source_root: Path, modules: Mapping[str, Path]) -> dict[str, Import]:
    """The modules of the same distribution that a file imports; `from p import a` is an edge to `p.a` or to `p`."""
    out: dict[str, Import] = {}
    for statement in imports(file, source_root):
        name = statement.module
        while name and name not in modules:
            name = name.rpartition(".")[0]
        if name and modules[name] != file:
            out.setdefault(name, statement)
    return out


def shortest_circle(start: str, graph: Mapping[str, Mapping[str, Import]]) -> list[str]:
    """The shortest path from a module back to it, by breadth-first search; empty if there is none."""
    paths = deque([[start]])
    visited = set[str]()
    while paths:
        path = paths.popleft()
        for target in graph[path[-1]]:
            if target == start:
                return path
            if target not in visited:
                visited.add(target)
                paths.append([*path, target])
    return []


def agree(complaints: list[str], remedy: str) -> None:
    assert not complaints, "\n" + "\n".join([*complaints, remedy])


def test_every_package_of_the_core_has_a_layer():
    imported = {path.name for path in (CORE / "ocannl").iterdir() if path.is_dir() and any(path.glob("**/*.py"))}
    assert imported == set(LAYERS), f"the table of {Path(__file__).name} differs: {sorted(imported ^ set(LAYERS))}"


def test_the_pytest_plugin_imports_the_core_in_functions_only():
    """Every pytest session imports it; the core costs a tenth of a second."""
    tree = ast.parse(PYTEST_PLUGIN.read_text(encoding="utf-8"))
    in_functions = {
        id(node) for function in ast.walk(tree) if isinstance(function, ast.FunctionDef) for node in ast.walk(function)
    }
    top_level = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [ast.unparse(node) for node in top_level if id(node) not in in_functions]
    assert names and not any("ocannl" in name for name in names)


def test_the_core_consists_of_the_package_and_the_pytest_plugin():
    assert {path for path in CORE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()} == {
        CORE / "ocannl", PYTEST_PLUGIN
    }


def test_imports_point_down():
    agree(upward(CORE), f"An import points down. Take what is needed as an argument, or move it down.\n{TABLE}")


@pytest.mark.parametrize("folder", [CORE.parent, *BACKENDS, *TRANSPORTS], ids=lambda folder: folder.name)
def test_no_circle_inside_a_package(folder):
    agree(circles(folder / "src"), "Cut each circle: move the shared part down, or declare a `Protocol` below both.")


@pytest.mark.parametrize("folder", BACKENDS, ids=lambda folder: folder.name)
def test_a_backend_uses_the_seam_alone(folder):
    agree(beside_the_seam(folder / "src"), "What a backend needs beyond that belongs into the seam.")


@pytest.mark.parametrize("folder", TRANSPORTS, ids=lambda folder: folder.name)
def test_a_transport_uses_the_seam_alone(folder):
    agree(beside_the_seam(folder / "src", TRANSPORT_SEAM), "What a transport needs beyond that belongs into the seam.")


@pytest.mark.parametrize("folder", [CORE.parent, *BACKENDS, *TRANSPORTS], ids=lambda folder: folder.name)
def test_what_is_imported_is_declared(folder):
    agree(undeclared(folder), "Declare it, or do without.")


# ------------------------------------------------------------------------------------ the checks see what they look for


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


@pytest.mark.parametrize(
    "statement",
    [
        "import ocannl.lang.core.tensor",
        "import ocannl.lang as l",
        "from ocannl.lang import tensor",
        "from ocannl import lang",
        "from ..lang import tensor",
        "from .. import lang",
        "from ocannl import lower",
        "import ocannl",
        "from ocannl import Context",
        "import ocannl._version",
        "def f():\n    from ocannl.lang import tensor",
        "if TYPE_CHECKING:\n    from ocannl.lang.core.tensor import Tensor",
        "try:\n    pass\nfinally:\n    import ocannl.testing",
        "importlib.import_module('ocannl.lang')",
    ],
)
def test_an_import_that_points_up_or_sideways_is_seen(tmp_path, statement):
    (complaint,) = upward(write(tmp_path, {"ocannl/infer/solve.py": statement}))
    assert "ocannl/infer/solve.py:" in complaint
    assert "infer (layer 2) imports ocannl" in complaint


@pytest.mark.parametrize(
    "statement",
    [
        "import ocannl.base.errors",
        "from ocannl.ir import ops",
        "from ocannl import ir, base",
        "from . import terms",
        "from .terms import DimVar",
        "from ..ir.tnode import TNode",
        "import numpy.lang",
    ],
)
def test_an_import_that_points_down_or_stays_is_fine(tmp_path, statement):
    assert upward(write(tmp_path, {"ocannl/infer/solve.py": statement})) == []


def test_what_stands_above_the_layers_may_import_any(tmp_path):
    every = "\n".join(f"from ocannl.{name} import x" for name in LAYERS)
    assert upward(write(tmp_path, {"ocannl/__init__.py": every, "ocannl/__main__.py": every})) == []


@pytest.mark.parametrize(
    "statement",
    [
        "from ocannl.infer.c import f",
        "from . import c",
        "from ocannl.infer import c as d",
        "def f():\n    from .c import g",
        "if TYPE_CHECKING:\n    import ocannl.infer.c",
        "importlib.import_module('ocannl.infer.c')",
    ],
)
def test_a_circle_is_printed(tmp_path, statement):
    files = {"__init__": "", "a": "from ocannl.infer import b", "b": statement, "c": "import ocannl.infer.a"}
    (complaint,) = circles(write(tmp_path, {f"ocannl/infer/{name}.py": text for name, text in files.items()}))
    assert complaint.startswith("a circle of 3 modules:")
    for line in ("a.py:1: ocannl.infer.a imports ocannl.infer.b", "ocannl.infer.b imports ocannl.infer.c",
                 "c.py:1: ocannl.infer.c imports ocannl.infer.a"):
        assert line in complaint


def test_a_diamond_is_no_circle(tmp_path):
    files = {"a": "from . import b, c", "b": "from . import d", "c": "from .d import e", "d": "import ocannl.infer.d"}
    assert circles(write(tmp_path, {f"ocannl/infer/{name}.py": text for name, text in files.items()})) == []


@pytest.mark.parametrize(
    ("statement", "fine"),
    [
        ("from ocannl.ir import loops", True),
        ("from ocannl.backend import hookimpl", True),
        ("from ocannl_backend_x.emit import emit", True),
        ("from . import emit", True),
        ("from ocannl.opt import pipeline", False),
        ("import ocannl", False),
        ("from ocannl import Context", False),
        ("import ocannl_backend_y", False),
    ],
)
def test_a_backend_that_reaches_past_the_seam_is_seen(tmp_path, statement, fine):
    assert (beside_the_seam(write(tmp_path, {"ocannl_backend_x/backend.py": statement})) == []) is fine


def test_an_undeclared_import_is_seen(tmp_path):
    manifest = '[project]\ndependencies = ["ocannl-core>=0.1", "ml_dtypes"]\noptional-dependencies.x = ["scikit-learn"]'
    source = "import os, sklearn.datasets, ml_dtypes\nfrom ocannl import ir\nfrom . import a\nimport requests"
    (complaint,) = undeclared(write(tmp_path, {"pyproject.toml": manifest, "src/ocannl_x/a.py": source}))
    assert "a.py:4: imports requests" in complaint
