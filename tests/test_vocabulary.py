"""Identifiers are nouns and verbs of the field: few contain filler words, and class names are unique."""

from __future__ import annotations

import ast
import io
import keyword
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = Path(__file__).resolve().parents[1] / "packages"
FILLERS = (
    "it its mine one other others each some many most least made found known here there then given held asked "
    "told whole own rest this these those what who way ways thing things words said turn turns place places"
)
EXEMPT = frozenset({
    "one_hot", "zero_one", "one_hot_to_gather", "_one_hot",  # terms of the field
    "FileNotFoundError", "ModuleNotFoundError", "PackageNotFoundError",  # names of Python
})  # fmt: skip
BINARY_METHOD = re.compile(r"def __\w+__\(self, other\b")
BUDGET = {  # identifiers with a filler, in 1000; a budget may only fall
    "ocannl-core": 1.75,
    "ocannl-core/ocannl/testing": 0.15,
    "ocannl-backend-c": 0.0,
    "ocannl-backend-example": 0.0,
    "ocannl-backend-llvm": 0.4,
    "ocannl-backend-numba": 0.0,
    "ocannl-backend-triton": 0.55,
    "ocannl-explorer": 0.0,
    "ocannl-export": 0.0,
    "ocannl-onnx": 0.0,
    "ocannl-transport-mpi": 0.0,
    "tests": 1.4,
    "benchmarks": 1.2,
    "examples": 0.8,
}
FOLDERS = {"tests", "benchmarks", "examples"}  # of the workspace, outside `packages`
DISTRIBUTIONS = {part for part in BUDGET.keys() - FOLDERS if "/" not in part}
TERMS = {  # the standard name of a technique occurs where the technique is implemented
    "opt/analysis/union_find.py": "union-find",
    "opt/analysis/dependences.py": "dependence",
    "opt/fusion/fuse_outer_loops.py": "loop fusion",
    "opt/idioms/attention/recompute_attention.py": "rematerialization",
    "opt/parallel/split_reductions.py": "split-K",
    "opt/schedule/loop_generation/cell_emission.py": "loop-invariant",
    "opt/schedule/plan/register_tiles.py": "tiling",
    "opt/simplify/eliminate_common_subexpressions.py": "common-subexpression",
    "opt/simplify/eliminate_dead_code.py": "dead-code",
    "opt/simplify/eliminate_equal_arrays.py": "value numbering",
}


def identifiers(text: str) -> Iterator[str]:
    """All names of a source text, without `other` in signatures of binary special methods, which is Python's own."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        conventional = token.string == "other" and BINARY_METHOD.search(token.line)
        if token.type == tokenize.NAME and not keyword.iskeyword(token.string) and not conventional:
            yield token.string


def words(name: str) -> list[str]:
    """`maxTile_rows` -> max, tile, rows."""
    return [word.lower() for part in name.split("_") for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", part)]


def is_filler(name: str) -> bool:
    """Whether a word of an identifier is a filler; names of tests are sentences, which need such words."""
    return name not in EXEMPT and not name.startswith("test_") and not set(FILLERS.split()).isdisjoint(words(name))


def sources(part: str) -> list[Path]:
    """The modules of a folder of the workspace, of a distribution, or of a package in its `src`; `testing` is a part of
    its own."""
    if part in FOLDERS:
        return sorted((PACKAGES.parent / part).rglob("*.py"))
    package, _, folder = part.partition("/")
    files = sorted((PACKAGES / package / "src" / folder).rglob("*.py"))
    return [path for path in files if folder or "testing" not in path.parts]


@pytest.mark.parametrize("package", BUDGET)
def test_few_identifiers_contain_a_filler_word(package: str) -> None:
    total, fillers = 0, dict[str, int]()
    for path in sources(package):
        for name in identifiers(path.read_text(encoding="utf-8")):
            total += 1
            if is_filler(name):
                label = f"{path.relative_to(PACKAGES.parent)}: {name}"
                fillers[label] = fillers.get(label, 0) + 1
    worst = sorted(fillers.items(), key=lambda item: -item[1])[:20]
    share = 1000 * sum(fillers.values()) / total
    assert share <= BUDGET[package], f"{share:.1f} of 1000 identifiers contain a filler word: {worst}"


@pytest.mark.parametrize("path", TERMS)
def test_a_technique_is_called_by_its_name(path: str) -> None:
    text = (PACKAGES / "ocannl-core" / "src" / "ocannl" / path).read_text(encoding="utf-8")
    assert TERMS[path].lower() in " ".join(text.lower().split())


def test_every_package_has_a_budget() -> None:
    assert {path.name for path in PACKAGES.iterdir() if path.is_dir()} == DISTRIBUTIONS


def class_names() -> dict[str, list[str]]:
    """The modules that define each class, over all packages; `testing` is excluded."""
    modules: dict[str, list[str]] = {}
    for package in DISTRIBUTIONS:
        for path in sources(package):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    module = path.relative_to(PACKAGES / package / "src").with_suffix("").as_posix()
                    modules.setdefault(node.name, []).append(module)
    return modules


def test_a_class_name_stands_for_one_concept() -> None:
    duplicates = {name: modules for name, modules in class_names().items() if len(modules) > 1}
    assert not duplicates, f"rename one of each to a more specific term: {duplicates}"
