"""Arguments beside a spec: one tensor per operand, and keywords that are names of the spec."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.infer.explain import table
from ocannl.infer.parse import printable
from ocannl.infer.spec import KINDS, Spec, ellipsis_var
from ocannl.lang.core.captured_sizes import Dim
from ocannl.lang.core.tensor import Tensor


def check_arity(parsed: Spec, spec: str, operands: Sequence[object]) -> None:
    """Raises CodeError unless there is one tensor per operand of the spec; the caret marks the first mismatch."""
    expected, actual = len(parsed.operands), len(operands)
    if expected == actual:
        return
    starts = [0, *(at + 1 for at, c in enumerate(spec) if c == ";"), spec.index("=>")]
    if expected > actual:
        extra = ", ".join(f"`{part.strip()}`" for part in spec.partition("=>")[0].split(";")[actual:])
        fix = f"give {expected - actual} more" + (f", or leave {extra} out of the spec" if actual else "")
    else:
        example = f"{'; '.join(['...'] * actual)} => ..."
        fix = f"give {actual - expected} less, or write a part for each, separated by `;`: `{example}`"
    at = starts[min(actual, expected)]
    at += len(spec[at:]) - len(spec[at:].lstrip())
    problem = f"the spec has {operand_count(expected)}, and {actual} {'is' if actual == 1 else 'are'} given"
    raise spec_error(problem, spec, at, table([t.handle for t in operands if isinstance(t, Tensor)], fix))


def split_names(parsed: Spec, spec: str, names: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, Any]]:
    """Splits keyword arguments of a spec into sizes (or coefficients) and captures.

    `batch`, `input` and `output` name the `...` of these rows, unless the spec has labels of these names.
    """
    spec_names = parsed.names()
    ellipses: dict[str, str] = {kind: ellipsis_var(kind) for kind in KINDS if ellipsis_var(kind) in parsed.row_vars()}
    ellipses = {kind: var for kind, var in ellipses.items() if kind not in spec_names}
    sizes: dict[str, int] = {}
    captures: dict[str, Any] = {}
    for name, value in names.items():
        if name not in spec_names and name not in ellipses:
            has = f"its names are {', '.join(f'`{n}`' for n in spec_names)}" if spec_names else "it has no names"
            problem = f"`{name}`, given as {name}={value!r}, is not a name of the spec: {has}"[:200]
            raise spec_error(problem, spec, None, table((), suggestion(name, spec, spec_names)))
        if isinstance(value, Dim):
            captures[ellipses.get(name, name)] = value.cell
        elif isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < 0:
            problem = f"`{name}` of the spec is given as {name}={value!r}"[:200]
            fix = "give a size or a coefficient, an integer from 0, or an oc.Dim to capture the size"
            raise spec_error(problem, spec, name_position(spec, name), table((), fix))
        else:
            sizes[ellipses.get(name, name)] = int(value)
    return sizes, captures


def spec_error(problem: str, spec: str, at: int | None, lines: Sequence[str]) -> CodeError:
    """An error with the spec on a line of its own, and a caret under position `at`."""
    caret = () if at is None else (f"  {' ' * at}^",)
    return CodeError("\n".join((problem, f"  {printable(spec)}", *caret, *lines)))


def name_position(spec: str, name: str) -> int | None:
    """The first position of the name in the spec."""
    position = spec.find(name)
    return None if position < 0 else position


def suggestion(name: str, spec: str, spec_names: Sequence[str]) -> str:
    """A fix for an unknown name: a similar name, or a hint at the notation."""
    close = difflib.get_close_matches(name, spec_names, 1)
    if close:
        return f"write {close[0]}=..., if this is the intent"
    if len(name) > 1 and name in spec:
        return "put a comma into the spec, for example at its end, to make names whole words"
    return f"leave `{name}` out" + (", or write it where it belongs" if spec_names else "")


def operand_count(operands: int) -> str:
    return f"{operands} operand{'s' * (operands != 1)}"
