"""Parts and configurations that an operation declares and does not use."""

from __future__ import annotations

import dis
import inspect
import re
from collections.abc import Callable, Mapping, Sequence

from ocannl.base.errors import CodeError
from ocannl.lang.declare.configurations import configuration_of
from ocannl.lang.declare.declaration import Declaration
from ocannl.lang.declare.settings import Default
from ocannl.lang.declare.shared_part import Part, merged

NAME = re.compile(r"[A-Za-z_]\w*")


def check_use(declared: Declaration) -> None:
    """Raises: CodeError for a part without effect on the operation, and for a configuration that is never read."""
    used = _names_read(declared)
    for part in declared.parts:
        flat = merged((part,), "a part")
        has_effect = flat.inputs or flat.outputs or flat.signatures or not used.isdisjoint(flat.settings)
        if not has_effect and (flat.settings or not (flat.doc or flat.where or flat.backend_where)):
            settings = ", ".join(f"`{name}`" for name in flat.settings)
            problem = f"reads none of its settings {settings}" if flat.settings else "gets nothing from it"
            raise CodeError(f"a part of `{declared.title}` is not used: the operation {problem}; remove the part")
    for name, setting in declared.settings.items():
        configuration = configuration_of(setting.kind)
        if configuration is not None and name not in used:
            problem = f"`{declared.title}` never reads its configuration `{name}`"
            raise CodeError(f"{problem}: read a field of `{configuration.name}` in a rule, or remove the keyword")


def _names_read(declared: Declaration) -> set[str]:
    """The settings that rules, axes, data types and computed defaults read; all of them for `**settings`."""
    assert declared.rules is not None
    parameters = inspect.signature(declared.rules).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return set(declared.settings)
    settings = declared.settings
    names = {
        p.name for p in parameters
        if p.name not in settings or not configuration_of(settings[p.name].kind) or _reads(declared.rules, p.name)
    }  # fmt: skip
    for rule in (*declared.shapes, declared.shape, *declared.kinds):
        names |= set(inspect.signature(rule).parameters) if inspect.isfunction(rule) else set()
        names |= set(NAME.findall(rule)) if isinstance(rule, str) else set()
    for setting in declared.settings.values():
        names |= set(setting.default.names) if isinstance(setting.default, Default) else set()
    fields = {
        field: name for name, s in declared.settings.items() if (c := configuration_of(s.kind)) for field in c.fields
    }
    return names | {name for field, name in fields.items() if field in names}


def _reads(rules: Callable[..., object], parameter: str) -> bool:
    """Whether the code of the rules, or of a function in them, reads a parameter; true if there is no Python code."""
    code = getattr(inspect.unwrap(rules), "__code__", None)
    if code is None or parameter in code.co_cellvars:
        return True
    loads = (step.argval for step in dis.get_instructions(code) if "LOAD" in step.opname)
    return any(parameter in (names if isinstance(names, tuple) else (names,)) for names in loads)


def unused_names(module: Mapping[str, object], declarations: Sequence[Declaration]) -> list[str]:
    """The parts and configurations of a module that none of its operations contains."""
    parts = {id(inner) for declared in declarations for part in declared.parts for inner in part.contents()}
    kinds = {id(s.kind) for declared in declarations for s in declared.settings.values()}
    name_of_module = module.get("__name__")
    return [
        name
        for name, value in module.items()
        if (isinstance(value, Part) and id(value) not in parts)
        or (configuration_of(value) and getattr(value, "__module__", "") == name_of_module and id(value) not in kinds)
    ]
