"""What is given beside a spec: as many tensors as it has operands, and keywords that are its names."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.infer.explain import table
from ocannl.infer.parse import one_line
from ocannl.infer.spec import KINDS, Spec, ellipsis_var
from ocannl.lang.core.captured_sizes import Dim
from ocannl.lang.core.tensor import Tensor


def check_arity(read: Spec, spec: str, operands: Sequence[object]) -> None:
    """Refuses more or fewer tensors than the spec has operands; the caret is where they part."""
    wants, given = len(read.operands), len(operands)
    if wants == given:
        return
    starts = [0, *(at + 1 for at, c in enumerate(spec) if c == ";"), spec.index("=>")]
    if wants > given:
        extra = ", ".join(f"`{part.strip()}`" for part in spec.partition("=>")[0].split(";")[given:])
        fix = f"give {wants - given} more" + (f", or leave {extra} out of the spec" if given else "")
    else:
        spelt = f"{'; '.join(['...'] * given)} => ..."
        fix = f"give {given - wants} less, or write a part for each, set apart by `;`: `{spelt}`"
    at = starts[min(given, wants)]
    at += len(spec[at:]) - len(spec[at:].lstrip())
    problem = f"the spec has {count(wants)}, and {given} {'is' if given == 1 else 'are'} given"
    raise refused(problem, spec, at, table([t.handle for t in operands if isinstance(t, Tensor)], fix))


def split_names(read: Spec, spec: str, names: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, Any]]:
    """Keyword names of a spec: sizes and coefficients, and captures.

    `batch`, `input` and `output` are the `...` of these rows, unless they are labels.
    """
    known = read.names()
    ellipses: dict[str, str] = {kind: ellipsis_var(kind) for kind in KINDS if ellipsis_var(kind) in read.row_vars()}
    ellipses = {kind: var for kind, var in ellipses.items() if kind not in known}
    sizes: dict[str, int] = {}
    captures: dict[str, Any] = {}
    for name, value in names.items():
        if name not in known and name not in ellipses:
            has = f"its names are {', '.join(f'`{other}`' for other in known)}" if known else "it has no names"
            problem = f"`{name}`, given as {name}={value!r}, is no name of the spec: {has}"[:200]
            raise refused(problem, spec, None, table((), near(name, spec, known)))
        if isinstance(value, Dim):
            captures[ellipses.get(name, name)] = value.cell
        elif isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < 0:
            problem = f"`{name}` of the spec is given as {name}={value!r}"[:200]
            fix = "give a size or a coefficient, an integer from 0, or an oc.Dim to capture the size"
            raise refused(problem, spec, place(spec, name), table((), fix))
        else:
            sizes[ellipses.get(name, name)] = int(value)
    return sizes, captures


def refused(problem: str, spec: str, at: int | None, lines: Sequence[str]) -> CodeError:
    """The error with the spec below it, and a caret under what it is about."""
    caret = () if at is None else (f"  {' ' * at}^",)
    return CodeError("\n".join((problem, f"  {one_line(spec)}", *caret, *lines)))


def place(spec: str, name: str) -> int | None:
    """Where the name stands first."""
    found = spec.find(name)
    return None if found < 0 else found


def near(name: str, spec: str, known: Sequence[str]) -> str:
    """What may have been meant."""
    close = difflib.get_close_matches(name, known, 1)
    if close:
        return f"write {close[0]}=..., if that is meant"
    if len(name) > 1 and name in spec:
        return "put a comma into the spec, be it a trailing one, to make names whole words"
    return f"leave `{name}` out" + (", or write it where it belongs" if known else "")


def count(operands: int) -> str:
    return f"{operands} operand{'s' * (operands != 1)}"
