"""The plugin interface: all names with their signatures and fields, compared with the list of its version."""

from __future__ import annotations

import ctypes
import dataclasses
import inspect
from collections.abc import Callable, Iterator
from importlib import import_module

from ocannl.backend import API_MINOR, API_VERSION

MODULES = (
    "ocannl.backend", "ocannl.backend.cpu", "ocannl.base.setting_types", "ocannl.codegen", "ocannl.ir.affine",
    "ocannl.ir.capabilities", "ocannl.ir.loops", "ocannl.ir.name_mangling", "ocannl.ir.ops", "ocannl.ir.precision",
)  # fmt: skip
RULE = """\
# The interface of backend plugins. After a change, raise API_VERSION if a plugin for the version before might not work,
# or else API_MINOR if something was added, as docs/writing-a-backend.md describes; then write the list with
# --update-golden.
"""


def public_names(module: str) -> Iterator[tuple[str, object]]:
    namespace = vars(import_module(module))
    for name in sorted(namespace.get("__all__", namespace)):
        value = namespace[name]
        is_own = getattr(value, "__module__", None) == module or "__all__" in namespace
        if not name.startswith("_") and is_own and not inspect.ismodule(value):
            yield name, value


def signature(function: Callable[..., object]) -> str:
    """The parameters and the result, with dots for the values of defaults."""
    declared = inspect.signature(function)
    listed = []
    for parameter in declared.parameters.values():
        default = parameter.empty if parameter.default is parameter.empty else Ellipsis
        listed.append(str(parameter.replace(default=default)).replace("Ellipsis", "..."))
    result = "" if declared.return_annotation is declared.empty else f" -> {declared.return_annotation}"
    return f"({', '.join(name for name in listed if name not in ('self', 'cls'))}){result}".replace("'", "")


def lines(name: str, value: object) -> Iterator[str]:
    if not inspect.isclass(value):
        yield f"  {name}{signature(value)}" if inspect.isfunction(value) else f"  {name}"
        return
    yield f"  class {name}"
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            has_default = (field.default, field.default_factory) != (dataclasses.MISSING, dataclasses.MISSING)
            yield f"    {field.name}: {field.type}{' = ...' if has_default else ''}"
    if issubclass(value, ctypes.Structure):
        yield from (f"    {field}: {type_.__name__}" for field, type_ in value._fields_)
    for member, content in sorted(vars(value).items()):
        if member.startswith("_"):
            continue
        if isinstance(content, property):
            yield f"    {member}{signature(content.fget)}".replace("()", "")
        elif inspect.isfunction(content):
            yield f"    {member}{signature(content)}"
        elif isinstance(content, classmethod | staticmethod):
            yield f"    {member}{signature(content.__func__)}"


def test_plugin_interface(golden):
    text = [RULE, f"version {API_VERSION}.{API_MINOR}\n"]
    for module in MODULES:
        text.append(f"\n{module}\n")
        text += [f"{line}\n" for name, value in public_names(module) for line in lines(name, value)]
    golden("".join(text))
