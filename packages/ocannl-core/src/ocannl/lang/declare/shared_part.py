"""Settings, inputs, results, conditions and documentation shared by several declarations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ocannl.base.errors import CodeError
from ocannl.base.traceback_filtering import public_class
from ocannl.lang.declare.conditions import Condition
from ocannl.lang.declare.inputs import Input, require_types
from ocannl.lang.declare.outputs import Output
from ocannl.lang.declare.settings import Setting

Signature = tuple[str, ...]
"""The names of the arguments that a call gives."""


@public_class(exclude=("contents",))
@dataclass(frozen=True)
class Part:
    """A reusable piece of declarations.

    The settings become keywords of every operation with the part; rules take those that their parameters name. A part
    also contains the `parts` that it lists, and overrides their settings, inputs and outputs.
    """

    settings: Mapping[str, Setting] = field(default_factory=dict)
    inputs: Mapping[str, Input | str] = field(default_factory=dict)
    where: tuple[Condition, ...] = ()
    doc: str = ""
    outputs: Mapping[str, Output | str] = field(default_factory=dict)
    signatures: tuple[Signature, ...] = ()
    backend_where: tuple[Condition | str, ...] = ()
    parts: tuple[Part, ...] = ()
    source: Part | None = field(default=None, compare=False, repr=False)  # of `keep`

    def __post_init__(self) -> None:
        require_types(self, doc=str, signatures=list | tuple)
        for name, kind in (("settings", Setting), ("inputs", Input | str), ("outputs", Output | str | None)):
            value = getattr(self, name)
            if not isinstance(value, Mapping) or not all(isinstance(item, kind) for item in value.values()):
                raise CodeError(f"`{name}` of a part is a mapping from names to {_text(kind)}, not {value!r}"[:200])
        for name, kind in (("where", Condition), ("parts", Part), ("backend_where", Condition | str)):
            value = getattr(self, name)
            if not isinstance(value, list | tuple) or not all(isinstance(item, kind) for item in value):
                raise CodeError(f"`{name}` of a part is a list of {_text(kind)}, not {value!r}"[:200])
            object.__setattr__(self, name, tuple(value))
        for names in self.signatures:
            if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
                raise CodeError(f"`signatures` of a part is a list of lists of names, not {self.signatures!r}"[:200])
        object.__setattr__(self, "signatures", tuple(map(tuple, self.signatures)))

    def keep(
        self, *, settings: bool = True, inputs: bool = True, where: bool = True, doc: bool = True,
        outputs: bool = True, signatures: bool = True, backend_where: bool = True,
    ) -> Part:  # fmt: skip
        """This part and the parts inside, without the sections whose keyword is False."""
        kept = {
            "settings": settings, "inputs": inputs, "where": where, "doc": doc, "outputs": outputs,
            "signatures": signatures, "backend_where": backend_where,
        }  # fmt: skip
        empty: dict[str, Any] = {"settings": {}, "inputs": {}, "outputs": {}, "doc": ""}
        dropped = {name: empty.get(name, ()) for name, is_kept in kept.items() if not is_kept}
        return replace(merged((self,), "a part"), **dropped, source=self)

    def contents(self) -> Iterable[Part]:
        """This part, the parts inside, and the parts from which these were made."""
        yield self
        for inner in (*self.parts, *([self.source] if self.source else [])):
            yield from inner.contents()


def _text(kind: Any) -> str:
    names = {"NoneType": "None", "str": "texts"}
    return " or ".join(names.get(k.__name__, f"declare.{k.__name__}") for k in getattr(kind, "__args__", (kind,)))


def merged(parts: Iterable[Part], owner: str) -> Part:
    """One part with the contents of several. Raises: CodeError if two of them declare a name differently."""
    settings: dict[str, Setting] = {}
    inputs: dict[str, Input | str] = {}
    outputs: dict[str, Output | str] = {}
    lists: dict[str, list[Any]] = {"where": [], "signatures": [], "backend_where": [], "doc": []}
    for part in parts:
        inside = merged(part.parts, owner)
        sections: list[tuple[dict[str, Any], Mapping[str, Any]]] = [
            (settings, {**inside.settings, **part.settings}),
            (inputs, {**inside.inputs, **part.inputs}),
            (outputs, {**inside.outputs, **part.outputs}),
        ]
        for collected, declared in sections:
            for name, value in declared.items():
                if collected.setdefault(name, value) != value:
                    raise CodeError(f"two parts of {owner} declare `{name}` differently")
        for name, items in lists.items():
            for item in (*_items(inside, name), *_items(part, name)):
                if all(item is not present for present in items):
                    items.append(item)
    return Part(
        settings, inputs, tuple(lists["where"]), "\n\n".join(lists["doc"]), outputs, tuple(lists["signatures"]),
        tuple(lists["backend_where"]),
    )  # fmt: skip


def _items(part: Part, section: str) -> tuple[Any, ...]:
    value = getattr(part, section)
    return value if isinstance(value, tuple) else (value,) if value else ()
