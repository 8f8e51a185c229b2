"""Configurations: classes of settings that are passed to operations together, as one value.

    @declare.configuration(where=[declare.value("stride") > 0])
    class Window:
        size: int = declare.field(doc="The cells of one window.")
        stride: int = declare.field(declare.follows(lambda size: size), doc="The distance of two windows.")
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform, get_type_hints, overload

from ocannl.base.errors import CodeError
from ocannl.base.traceback_filtering import public, public_class, user_names
from ocannl.lang.declare.conditions import Condition
from ocannl.lang.declare.inputs import Count
from ocannl.lang.declare.settings import Default, Setting, resolve_defaults

T = TypeVar("T")


@public_class(exclude=("check",))
@dataclass(frozen=True)
class Configuration:
    """The declaration of a configuration class: its fields, and the conditions that they satisfy."""

    name: str
    fields: dict[str, Setting]
    where: tuple[Condition, ...]
    doc: str

    def check(self, values: dict[str, Any]) -> None:
        """Raises: CodeError for a value of another type, or values that do not satisfy a condition."""
        for name, setting in self.fields.items():
            setting.check(self.name, name, values[name])
        for condition in self.where:
            if not condition.test(values):
                given = ", ".join(f"{name}={values[name]!r}" for name in condition.names)
                fix = f"\n  fix  {condition.fix}" if condition.fix else ""
                raise CodeError(f"`{self.name}` needs {condition.text}, and {given}{fix}")


def field(default: Any = inspect.Parameter.empty, *, doc: str = "", count: Count | None = None) -> Any:
    """A field of a configuration, with a default, its documentation, and the number of items of a list."""
    metadata = {"doc": doc, "count": count}
    if default is inspect.Parameter.empty:
        return dataclasses.field(metadata=metadata)
    if isinstance(default, list | dict):
        return dataclasses.field(default_factory=lambda: type(default)(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@overload
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def configuration(cls: type[T], /) -> type[T]: ...


@overload
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def configuration(*, where: Iterable[Condition] = ()) -> Callable[[type[T]], type[T]]: ...


def configuration(cls: Any = None, /, *, where: Iterable[Condition] = ()) -> Any:
    """Turns a class with annotated fields into a frozen dataclass, which checks the types and conditions of its fields.

    Raises: CodeError when a condition names no field.
    """
    if not isinstance(where, list | tuple) or not all(isinstance(condition, Condition) for condition in where):
        raise CodeError(f"`where` of a configuration is a list of declare.Condition, not {where!r}"[:200])

    def declare(cls: type[T]) -> type[T]:
        if not isinstance(cls, type):
            raise CodeError(f"declare.configuration decorates classes, not {cls!r}")
        doc = inspect.cleandoc(cls.__dict__.get("__doc__") or "")
        cls.__post_init__ = _after_checks(getattr(cls, "__post_init__", None))  # type: ignore[attr-defined]
        try:
            frozen = dataclass(frozen=True)(cls)
        except (TypeError, ValueError) as cause:
            fix = "write `name: type = declare.field(default)`"
            raise CodeError(f"`{cls.__name__}` is no configuration: {cause}\n  fix  {fix}") from None
        frozen.__init__ = public(frozen.__init__)  # type: ignore[method-assign]
        inherited = [c for base in cls.__bases__ if (of_base := configuration_of(base)) for c in of_base.where]
        cls.declaration = _declaration(frozen, tuple(dict.fromkeys((*inherited, *where))), doc)  # type: ignore[attr-defined]
        return frozen

    return declare if cls is None else declare(cls)


def _after_checks(post_init: Callable[[Any], None] | None) -> Callable[[Any], None]:
    """The `__post_init__` of a configuration: checks the fields, then calls that of the class, if it has one."""

    def check(self: Any) -> None:
        _check_fields(self)
        if post_init is not None:
            post_init(self)

    return check


def _check_fields(self: Any) -> None:
    fields = self.declaration.fields
    converted = {name: setting.converted(getattr(self, name)) for name, setting in fields.items()}
    resolved = resolve_defaults(converted, self.declaration.name)
    values = {name: fields[name].converted(value) for name, value in resolved.items()}
    for name, value in values.items():
        object.__setattr__(self, name, value)
    self.declaration.check(values)


def _declaration(cls: type[Any], where: tuple[Condition, ...], doc: str) -> Configuration:
    try:
        kinds = get_type_hints(cls, localns=dict(user_names()))
    except NameError as cause:
        raise CodeError(f"the types of the fields of `{cls.__name__}` are unknown: {cause}") from None
    fields = {
        f.name: Setting(kinds[f.name], _default(f), f.metadata.get("doc", ""), f.metadata.get("count"))
        for f in dataclasses.fields(cls)
    }
    defaults = (setting.default for setting in fields.values())
    used = [name for d in defaults if isinstance(d, Default) for name in d.names]
    for name in (*(n for condition in where for n in condition.names), *used):
        if name not in fields:
            raise CodeError(f"`{cls.__name__}` has no field `{name}`; there are {', '.join(fields)}")
    return Configuration(cls.__name__, fields, where, doc)


def _default(f: dataclasses.Field[Any]) -> Any:
    if f.default_factory is not dataclasses.MISSING:
        return f.default_factory()
    return inspect.Parameter.empty if f.default is dataclasses.MISSING else f.default


def configuration_of(kind: Any) -> Configuration | None:
    """The declaration of a configuration class."""
    declaration = getattr(kind, "declaration", None) if isinstance(kind, type) else None
    return declaration if isinstance(declaration, Configuration) else None
