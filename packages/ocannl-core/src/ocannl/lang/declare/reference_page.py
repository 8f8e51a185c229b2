"""The reference page of operations: for each its signature, its documentation, and an executed example."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from ocannl.lang.core.tensor import Tensor
from ocannl.lang.declare.catalogue import OperationRow, operands
from ocannl.lang.declare.declaration import POSITIONAL
from ocannl.lang.declare.declaration_sections import LISTS, SECTION, SECTION_TITLES, section_items, sections_of
from ocannl.lang.declare.samples import Draw, Sample
from ocannl.lang.declare.signature_text import literal, parameters, unqualified

BEGIN = """>>> import numpy as np
>>> import ocannl as oc"""
HEAD = f"""# Reference of operations

All operations by name; [Operations](operations.md) introduces them by topic. An operand is a tensor, a number or an
array. In the formulas `g` is the gradient of the result, and `v` is its value. This page is generated from the table of
operations by `ocannl ops --generate reference`; [Declaring operations](declaring-operations.md) explains how to add a
row.

```pycon
{BEGIN}
```
"""
INDENTED = re.compile(r"(?:^    .*\n?)+", re.MULTILINE)
MAX_LITERAL_NUMBERS = 9  # longer arrays are shown as np.linspace


def reference(rows: Sequence[OperationRow]) -> str:
    return "\n".join([HEAD, *map(section, sorted(rows, key=lambda row: row.title))])


def section(row: OperationRow) -> str:
    """The section of one operation."""
    signature = unqualified(", ".join(parameters(operands(row), plain=True)))[0]
    head = f"## {row.title}\n\n```text\n{row.call}({signature})\n```"
    example = [f"```pycon\n{_example(row, row.samples[0])}\n```"] if row.samples else []
    return "\n\n".join(filter(None, [head, *_doc_parts(row), *example])) + "\n"


def _doc_parts(row: OperationRow) -> tuple[str, str]:
    """The description, and the list of titled sections; a declaration supplies sections missing in the docstring."""
    paragraph, *fields = SECTION.split(row.doc)
    declared, listed = sections_of(row.declaration), section_items(row.declaration)
    sections = declared | dict(zip(fields[::2], fields[1::2], strict=True))
    items = [
        _list(title, listed[title]) if title in LISTS and title in listed else f"* {title}: {' '.join(text.split())}"
        for title in SECTION_TITLES
        if (text := sections.get(title))
    ]
    return _fence_code(paragraph.strip()), "\n".join(items)


def _list(title: str, items: list[str]) -> str:
    """A section with an item for each input, setting or result; a single one needs no list."""
    if len(items) == 1:
        return f"* {title}: {items[0]}."
    return "\n".join([f"* {title}:", *(f"  * {item}" for item in items)])


def _fence_code(text: str) -> str:
    """Converts indented lines to fenced code blocks."""
    return INDENTED.sub(lambda match: f"```text\n{textwrap.dedent(match[0]).rstrip()}\n```\n", text).rstrip()


# --- examples --------------------------------------------------------------------------------------------------------


def _example(row: OperationRow, sample: Sample) -> str:
    """A call on round numbers, as an interactive session."""
    lines: list[str] = []
    names = iter([*("x" if row.is_method else p.name for p in operands(row) if p.kind in POSITIONAL), *"abcdefgh"])
    if row.is_method:
        names = iter(["x", *names])
    arguments = [_operand_text(operand, next(names), lines) for operand in sample.operands]
    arguments += [f"{name}={literal(value)}" for name, value in sample.settings.items()]
    receiver = arguments.pop(0) if row.is_method else ""
    call = f"{receiver}.{row.name}" if row.is_method else row.call
    call += f"({', '.join(arguments)})"
    has_several_results = row.signature.return_annotation is not Tensor
    return session([*lines, f"[t.numpy() for t in {call}]" if has_several_results else f"{call}.numpy()"])


def _operand_text(operand: Any, name: str, lines: list[str]) -> str:
    """The source text of an operand in the call; a tensor becomes a variable, whose definition is added to `lines`."""
    if isinstance(operand, list):
        items = [_operand_text(item, f"{name[0]}{n}", lines) for n, item in enumerate(operand, 1)]
        return f"[{', '.join(items)}]"
    if not isinstance(operand, Draw | np.ndarray):
        return literal(operand)
    lines.append(f"{name} = {_draw_text(operand, len(lines)) if isinstance(operand, Draw) else _array_text(operand)}")
    return name


def _array_text(array: np.ndarray[Any, Any]) -> str:
    return f"oc.tensor({array.tolist()}, dtype=oc.{array.dtype})"


def _draw_text(draw: Draw, shift: int) -> str:
    numbers, rows = draw.example(shift), {"batch_axes": draw.batch_axes, "input_axes": draw.input_axes}
    keywords = "".join(f", {name}={count}" for name, count in rows.items() if count)
    if numbers.size > MAX_LITERAL_NUMBERS:
        dims = ", ".join(map(str, draw.dims))
        return f"oc.tensor(np.linspace({draw.low}, {draw.high}, {numbers.size}).reshape({dims}){keywords})"
    return f"oc.tensor(np.array({numbers.tolist()}){keywords})" if keywords else f"oc.tensor({numbers.tolist()})"


def session(lines: list[str]) -> str:
    """The executed lines and the value of the last; floats are rounded, since their last digits vary among backends."""
    names: dict[str, Any] = {}
    exec("\n".join(line.removeprefix(">>> ") for line in BEGIN.splitlines()), names)
    *before, last = lines
    exec("\n".join(before), names)
    value = eval(last, names)
    results = value if isinstance(value, list) else [value]
    if any(isinstance(result, np.ndarray) and result.dtype.kind == "f" for result in results):
        last = last.replace(".numpy()", ".numpy().round(3)")
        value = eval(last, names)
    typed = [f">>> {line}" for line in (*before, last)]
    return "\n".join([*typed, *(line or "<BLANKLINE>" for line in repr(value).splitlines())])
