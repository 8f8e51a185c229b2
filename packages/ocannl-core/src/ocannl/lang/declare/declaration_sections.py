"""The titled sections of a declaration, for docstrings and pages: `Takes: ...`, `Settings: ...`."""

from __future__ import annotations

import re

from ocannl.base.annotations import kind_text
from ocannl.lang.declare.conditions import Condition
from ocannl.lang.declare.configurations import configuration_of
from ocannl.lang.declare.declaration import Declaration
from ocannl.lang.declare.inputs import Input
from ocannl.lang.declare.settings import Setting
from ocannl.lang.declare.signature_text import unqualified
from ocannl.lang.declare.texts import expansion

SECTION_TITLES = (
    "Shapes", "Takes", "Settings", "Gives", "Needs", "Calls", "Backends", "Grad", "NaN", "Raises", "Source",
)  # fmt: skip
SECTION = re.compile(rf"^({'|'.join(SECTION_TITLES)}): +", re.MULTILINE)


LISTS = ("Takes", "Settings", "Gives")
"""The sections with one item for each input, setting or result."""


def sections_of(declared: Declaration) -> dict[str, str]:
    """The sections that follow from the data of a declaration."""
    return {title: f"{'; '.join(items)}." for title, items in section_items(declared).items()}


def section_items(declared: Declaration) -> dict[str, list[str]]:
    """The items of each section that follows from the data of a declaration."""
    expand = expansion(declared)
    sections = {
        "Shapes": [f"`{shape}`" for shape in dict.fromkeys(declared.shapes) if isinstance(shape, str)],
        "Takes": _inputs(declared),
        "Settings": [expand(text) for n, setting in declared.settings.items() for text in _setting(n, setting, "")],
        "Gives": [f"`{name}`: {output.doc}" for name, output in declared.results.items() if output.doc],
        "Needs": [f"`{condition.text}`" for condition in declared.where],
        "Calls": [f"`({', '.join(signature)})`" for signature in declared.signatures],
        "Backends": [f"`{c.text}`" if isinstance(c, Condition) else c for c in declared.backend_where],
    }
    return {title: items for title, items in sections.items() if items}


def documented(declared: Declaration) -> str:
    """The documentation of an operation, with the sections of inputs, settings and results that are described."""
    sections = sections_of(declared)
    described = {
        "Takes": any(spec.doc for spec in declared.inputs.values()),
        "Settings": "Settings" in sections,
        "Gives": "Gives" in sections,
    }
    present = SECTION.findall(declared.doc)
    lines = [f"{title + ':':<7} {sections[title]}" for title, is_described in described.items()
             if is_described and title not in present]  # fmt: skip
    if not lines:
        return declared.doc
    return declared.doc + ("\n" if present else "\n\n") * bool(declared.doc) + "\n".join(lines)


def _inputs(declared: Declaration) -> list[str]:
    """The inputs, unless each of them is one tensor of any type."""
    is_plain = all(spec == Input(differentiable=spec.differentiable) for spec in declared.inputs.values())
    if is_plain and declared.variadic is None and not declared.optional:
        return []
    return [_input(declared, name, spec) for name, spec in declared.inputs.items()]


def _input(declared: Declaration, name: str, spec: Input) -> str:
    kinds = " or ".join(spec.kinds)
    if declared.is_list(name):
        kinds = f"{spec.count or 'any number'}, each {kinds}"
    optional = " (optional)" if name in declared.optional else ""
    return f"`{name}`{optional}: {kinds}{f', {spec.doc}' if spec.doc else ''}"


def _setting(name: str, setting: Setting, kind: str) -> list[str]:
    """The descriptions of a setting, whose type is in the signature, and of the fields of a configuration."""
    configuration = configuration_of(setting.kind)
    fields = configuration.fields if configuration else {}
    inside = [
        text
        for field, inner in fields.items()
        for text in _setting(f"{name}.{field}", inner, unqualified(kind_text(inner.kind))[0])
    ]
    if not setting.doc:
        return inside
    count = f"{setting.count} items" if setting.count else ""
    return [f"`{name}`: {', '.join(filter(None, (kind, count, setting.doc)))}", *inside]
