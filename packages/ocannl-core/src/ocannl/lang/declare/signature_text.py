"""Signatures as text, for stubs and pages."""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Iterable
from inspect import Parameter
from typing import Any

PREFIX: dict[Any, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
QUALIFIED = re.compile(r"\b((?:[A-Za-z_]\w*\.)+)([A-Za-z_]\w*)")


def parameters(signature: Iterable[Parameter], *, plain: bool = False) -> list[str]:
    """The parameter list of a signature; `plain` omits the annotation `object` of operands."""
    texts: list[str] = []
    kinds: list[Any] = [Parameter.POSITIONAL_ONLY]
    for p in signature:
        if p.kind is not Parameter.POSITIONAL_ONLY and kinds[-1] is Parameter.POSITIONAL_ONLY and texts:
            texts.append("/")
        if p.kind is Parameter.KEYWORD_ONLY and not {Parameter.KEYWORD_ONLY, Parameter.VAR_POSITIONAL} & set(kinds):
            texts.append("*")
        kinds.append(p.kind)
        texts.append(_parameter(p, plain))
    return texts + ["/"] * (kinds[-1] is Parameter.POSITIONAL_ONLY and bool(texts))


def _parameter(p: Parameter, plain: bool) -> str:
    name = f"{PREFIX.get(p.kind, '')}{p.name}"
    typed = not (p.annotation is p.empty or (plain and p.annotation is object))
    text = f"{name}: {annotation(p.annotation)}" if typed else name
    if p.default is p.empty:
        return text
    default = literal(p.default) if plain or isinstance(p.default, str | int | float | None) else "..."
    return f"{text} = {default}" if typed else f"{text}={default}"


def literal(value: object) -> str:
    """The source text of a value; strings in double quotes."""
    return json.dumps(value) if isinstance(value, str) else repr(value)


def annotation(kind: Any) -> str:
    """A type as text, with names qualified by their modules except for built-in ones."""
    if kind is None or kind is type(None):
        return "None"
    if not isinstance(kind, type) or hasattr(kind, "__args__"):
        return str(kind) if not isinstance(kind, str) else kind
    return kind.__qualname__ if kind.__module__ == builtins.__name__ else f"{kind.__module__}.{kind.__qualname__}"


def unqualified(text: str) -> tuple[str, dict[str, set[str]]]:
    """The text with unqualified names, and the names to import from each module."""
    imports: dict[str, set[str]] = {}
    for module, name in QUALIFIED.findall(text):
        imports.setdefault(module[:-1], set()).add(name)
    return QUALIFIED.sub(r"\2", text), imports
