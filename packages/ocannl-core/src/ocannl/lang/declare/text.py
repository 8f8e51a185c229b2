"""Signatures as text, as they stand in stubs and on pages."""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Iterable
from inspect import Parameter
from typing import Any

PREFIX: dict[Any, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
QUALIFIED = re.compile(r"\b((?:[A-Za-z_]\w*\.)+)([A-Za-z_]\w*)")


def parameters(given: Iterable[Parameter], *, plain: bool = False) -> list[str]:
    """What stands between the parentheses; `plain` leaves out that an operand is an object."""
    words: list[str] = []
    kinds: list[Any] = [Parameter.POSITIONAL_ONLY]
    for p in given:
        if p.kind is not Parameter.POSITIONAL_ONLY and kinds[-1] is Parameter.POSITIONAL_ONLY and words:
            words.append("/")
        if p.kind is Parameter.KEYWORD_ONLY and not {Parameter.KEYWORD_ONLY, Parameter.VAR_POSITIONAL} & set(kinds):
            words.append("*")
        kinds.append(p.kind)
        words.append(_parameter(p, plain))
    return words + ["/"] * (kinds[-1] is Parameter.POSITIONAL_ONLY and bool(words))


def _parameter(p: Parameter, plain: bool) -> str:
    name = f"{PREFIX.get(p.kind, '')}{p.name}"
    typed = not (p.annotation is p.empty or (plain and p.annotation is object))
    word = f"{name}: {annotation(p.annotation)}" if typed else name
    if p.default is p.empty:
        return word
    default = literal(p.default) if plain or isinstance(p.default, str | int | float | None) else "..."
    return f"{word} = {default}" if typed else f"{word}={default}"


def literal(value: object) -> str:
    """A value as it is written; texts in the quotes of this project."""
    return json.dumps(value) if isinstance(value, str) else repr(value)


def annotation(given: Any) -> str:
    """A type, with the module of each name that is not Python's own."""
    if given is None or given is type(None):
        return "None"
    if not isinstance(given, type) or hasattr(given, "__args__"):
        return str(given) if not isinstance(given, str) else given
    return given.__qualname__ if given.__module__ == builtins.__name__ else f"{given.__module__}.{given.__qualname__}"


def unqualified(text: str) -> tuple[str, dict[str, set[str]]]:
    """The text without the modules of names, and which names come from each."""
    found: dict[str, set[str]] = {}
    for module, name in QUALIFIED.findall(text):
        found.setdefault(module[:-1], set()).add(name)
    return QUALIFIED.sub(r"\2", text), found
