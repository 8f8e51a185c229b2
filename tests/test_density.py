"""Functions and files stay readable: the numbers of parameters, early exits and lines are bounded."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PACKAGES = Path(__file__).resolve().parents[1] / "packages"
MAX_PARAMETERS = 10  # without `self` and `cls`
MAX_EARLY_EXITS = 10
MAX_LINES = 450
PUBLIC = {  # functions whose keywords are part of the public interface, which a parameter object would break
    "lang/core/parameter.py: param": "each row has a long and a short keyword",
    "lang/record/states.py: state": "each row has a long and a short keyword",
    "train/fit.py: fit": "one keyword for each part of a training run",
    "lang/declare/defop.py: defop": "one keyword for each part of a declaration",
    "nn/attention.py: attention": "one keyword for each part of a layer",
    "nn/models/bert.py: bert": "one keyword for each part of a layer",
    "nn/models/llama.py: llama": "one keyword for each part of a layer",
    "nn/transformers.py: decoder": "one keyword for each part of a layer",
    "nn/transformers.py: decoder_layer": "one keyword for each part of a layer",
    "nn/transformers.py: encoder": "one keyword for each part of a layer",
    "nn/transformers.py: encoder_layer": "one keyword for each part of a layer",
    "nn/transformers.py: transformer": "one keyword for each part of a layer",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def functions(text: str) -> Iterator[Function]:
    """All functions and methods of a source text, nested ones included."""
    return (node for node in ast.walk(ast.parse(text)) if isinstance(node, Function))


def parameter_count(function: Function) -> int:
    """The number of parameters without `self` and `cls`; `*args` and `**kwargs` count as one each."""
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    bound = names[:1] in (["self"], ["cls"])
    return len(names) - bound + (arguments.vararg is not None) + (arguments.kwarg is not None)


def early_exits(function: Function) -> int:
    """The number of `if` statements without `else` that end in `raise` or `return`, nested functions not included."""
    pending: list[ast.AST] = list(function.body)
    count = 0
    while pending:
        node = pending.pop()
        if isinstance(node, Scope):
            continue
        if isinstance(node, ast.If) and not node.orelse:
            count += isinstance(node.body[-1], ast.Raise | ast.Return)
        pending += ast.iter_child_nodes(node)
    return count


def sources() -> list[Path]:
    return [path for path in sorted(PACKAGES.glob("*/src/**/*.py")) if "testing" not in path.parts]


def counts(measure: Callable[[Function], int]) -> dict[str, int]:
    """A measure of every function of the packages, by file and name."""
    result: dict[str, int] = {}
    for path in sources():
        file = path.relative_to(PACKAGES).as_posix().partition("/src/")[2].partition("/")[2]
        for function in functions(path.read_text(encoding="utf-8")):
            name = f"{file}: {function.name}"
            result[name] = max(result.get(name, 0), measure(function))
    return result


def test_functions_take_few_parameters() -> None:
    excess = {name: count for name, count in counts(parameter_count).items() if count > MAX_PARAMETERS}
    assert excess.keys() == PUBLIC.keys(), f"group parameters in a frozen dataclass: {excess}"


def test_functions_have_few_early_exits() -> None:
    excess = {name: count for name, count in counts(early_exits).items() if count > MAX_EARLY_EXITS}
    assert not excess, f"extract predicates, or iterate over a table of checks: {excess}"


def test_files_are_short() -> None:
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in PACKAGES.glob("*/src/**/*.py")}
    excess = {str(path.relative_to(PACKAGES)): count for path, count in lines.items() if count > MAX_LINES}
    assert not excess, f"divide these files: {excess}"


# ---------------------------------------------------------------------------------------------- the measures themselves


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("def f(): ...", 0),
        ("def f(a, /, b, *, c): ...", 3),
        ("def f(a, *rest, **options): ...", 3),
        ("class A:\n def f(self, a): ...", 1),
        ("class A:\n @classmethod\n async def f(cls, a, b=0): ...", 2),
    ],
)
def test_parameter_count(text: str, count: int) -> None:
    (function,) = functions(text)
    assert parameter_count(function) == count


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("return 1", 0),
        ("if a: raise E", 1),
        ("if a: return 1\n if b: return", 2),
        ("if a: return 1\n else: return 2", 0),
        ("if a: b()", 0),
        ("for a in b:\n  if a: return 1", 1),
        ("match a:\n  case 1:\n   if b: return 1", 1),
        ("try: a()\n except E:\n  if b: raise", 1),
        ("if a:\n  if b: return 1\n  c()", 1),
        ("def g():\n  if a: return 1", 0),
    ],
)
def test_early_exits(body: str, count: int) -> None:
    function = next(functions(f"def f():\n {body}"))
    assert early_exits(function) == count
