"""The page of operations: of each its signature, its text, and an example that has been run."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from ocannl.lang.core.tensor import Tensor
from ocannl.lang.declare.catalogue import Row, operands
from ocannl.lang.declare.declaration import POSITIONAL, Declaration
from ocannl.lang.declare.samples import Draw, Sample
from ocannl.lang.declare.text import literal, parameters, unqualified

BEGIN = """>>> import numpy as np
>>> import ocannl as oc"""
HEAD = f"""# Reference of operations

What there is, by name; [Operations](operations.md) shows what belongs together. An operand is a tensor, a number or an
array. In the texts `g` is what arrives at the result as its gradient, and `v` is the value. This page is made from the
table of operations by `ocannl ops --generate reference`; [Declaring operations](declaring-operations.md) tells how a
row gets there.

```pycon
{BEGIN}
```
"""
SAID = ("Shapes", "Takes", "Needs", "Grad", "NaN", "Raises", "Source")
SECTION = re.compile(rf"^({'|'.join(SAID)}): +", re.MULTILINE)
INDENTED = re.compile(r"(?:^    .*\n?)+", re.MULTILINE)
FEW = 9  # numbers that are written out


def reference(rows: Sequence[Row]) -> str:
    return "\n".join([HEAD, *map(section, sorted(rows, key=lambda row: row.name))])


def section(row: Row) -> str:
    """One operation."""
    signature = unqualified(", ".join(parameters(operands(row), plain=True)))[0]
    head = f"## {row.name}\n\n```text\n{row.call}({signature})\n```"
    example = [f"```pycon\n{_example(row, row.samples[0])}\n```"] if row.samples else []
    return "\n\n".join(filter(None, [head, *_words(row), *example])) + "\n"


def _words(row: Row) -> tuple[str, str]:
    """The text, and the list of what is said line by line; a declaration says what its text leaves out."""
    paragraph, *rest = SECTION.split(row.doc)
    told: Declaration | None = getattr(row.function, "declaration", None)
    said = (_declared(told) if told else {}) | dict(zip(rest[::2], rest[1::2], strict=True))
    items = [f"* {word}: {' '.join(said[word].split())}" for word in SAID if said.get(word)]
    return _code(paragraph.strip()), "\n".join(items)


def _declared(told: Declaration) -> dict[str, str]:
    shapes = [f"`{shape}`" for shape in dict.fromkeys(told.shapes) if isinstance(shape, str)]
    takes = [
        f"`{name}`: {f'{one.count}, each ' * (name == told.variadic)}{' or '.join(one.words)}"
        for name, one in told.inputs.items()
    ]
    needs = [f"`{condition.words}`" for condition in told.where]
    found = {"Shapes": shapes, "Takes": takes, "Needs": needs}
    return {word: f"{'; '.join(words)}." for word, words in found.items() if words}


def _code(text: str) -> str:
    """Indented lines are programs."""
    return INDENTED.sub(lambda found: f"```text\n{textwrap.dedent(found[0]).rstrip()}\n```\n", text).rstrip()


# --- examples --------------------------------------------------------------------------------------------------------


def _example(row: Row, sample: Sample) -> str:
    """A call on round numbers, as a session shows it."""
    lines: list[str] = []
    names = iter([*("x" if row.is_method else p.name for p in operands(row) if p.kind in POSITIONAL), *"abcdefgh"])
    if row.is_method:
        names = iter(["x", *names])
    words = [_word(given, next(names), lines) for given in sample.operands]
    words += [f"{name}={literal(value)}" for name, value in sample.settings.items()]
    call = f"{words[0]}.{row.name}({', '.join(words[1:])})" if row.is_method else f"{row.call}({', '.join(words)})"
    several = row.signature.return_annotation is not Tensor
    return session([*lines, f"[t.numpy() for t in {call}]" if several else f"{call}.numpy()"])


def _word(given: Any, name: str, lines: list[str]) -> str:
    """How an operand stands in the call; what it is made of is added to the lines before."""
    if isinstance(given, list):
        parts = [_word(part, f"{name[0]}{n}", lines) for n, part in enumerate(given, 1)]
        return f"[{', '.join(parts)}]"
    if not isinstance(given, Draw | np.ndarray):
        return literal(given)
    lines.append(f"{name} = {_drawn(given, len(lines)) if isinstance(given, Draw) else _data(given)}")
    return name


def _data(given: np.ndarray[Any, Any]) -> str:
    return f"oc.tensor({given.tolist()}, dtype=oc.{given.dtype})"


def _drawn(given: Draw, turn: int) -> str:
    numbers, rows = given.example(turn), {"batch_axes": given.batch_axes, "input_axes": given.input_axes}
    words = "".join(f", {name}={count}" for name, count in rows.items() if count)
    if numbers.size > FEW:
        dims = ", ".join(map(str, given.dims))
        return f"oc.tensor(np.linspace({given.low}, {given.high}, {numbers.size}).reshape({dims}){words})"
    return f"oc.tensor(np.array({numbers.tolist()}){words})" if words else f"oc.tensor({numbers.tolist()})"


def session(lines: list[str]) -> str:
    """The lines as they are typed, and what the last one gives; the last digits of floats are those of a backend."""
    names: dict[str, Any] = {}
    exec("\n".join(line.removeprefix(">>> ") for line in BEGIN.splitlines()), names)
    *before, last = lines
    exec("\n".join(before), names)
    value = eval(last, names)
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        last, value = f"{last}.round(3)", value.round(3)
    typed = [f">>> {line}" for line in (*before, last)]
    return "\n".join([*typed, *(line or "<BLANKLINE>" for line in repr(value).splitlines())])
