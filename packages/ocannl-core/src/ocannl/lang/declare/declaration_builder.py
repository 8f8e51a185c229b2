"""Builds and validates declarations: every inconsistency in the arguments of `oc.defop` is reported here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from ocannl.base.annotations import fits, kind_text
from ocannl.base.errors import CodeError
from ocannl.ir.precision import precision
from ocannl.lang.declare.conditions import Condition
from ocannl.lang.declare.declaration import POSITIONAL, Declaration
from ocannl.lang.declare.inputs import ANY_NUMBER, Input, as_input
from ocannl.lang.declare.samples import Sample
from ocannl.lang.declare.settings import Default, Setting
from ocannl.lang.declare.shared_part import Part

Parameter = inspect.Parameter
SLOT = re.compile(r"[vtg]([0-9]+|s)?|g_.*")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DefopArguments:
    """The arguments of `oc.defop`, unchecked."""

    name: str | None
    namespace: str
    shape: object
    inputs: object
    outputs: object
    kind: object
    where: object
    parts: object
    samples: object
    doc: str


def build_declaration(function: Callable[..., Any], arguments: DefopArguments) -> Declaration:
    """The declaration of an operation. Raises: CodeError when the arguments are inconsistent."""
    title = _checked_title(function, arguments)
    signature = _resolved_signature(function)
    operands = [p for p in signature.parameters.values() if p.kind in (*POSITIONAL, Parameter.VAR_POSITIONAL)]
    if not operands:
        raise CodeError(f"operation `{title}` has no operands")
    shared = _as_tuple(arguments.parts, Part, title, "parts")
    settings = _settings(signature, shared, title)
    declared_inputs = _inputs(arguments.inputs, shared, operands, title)
    conditions = (*(c for part in shared for c in part.where), *_as_tuple(arguments.where, Condition, title, "where"))
    names = _outputs(arguments.outputs, title)
    kinds = arguments.kind if isinstance(arguments.kind, tuple) else (arguments.kind,) * len(names)
    defaults = (*(p.default for p in operands), *(s.default for s in settings.values()))
    defined = [*(p.name for p in operands), *settings]
    for used in (*declared_inputs, *_referenced_names(conditions, defaults, (arguments.shape, *kinds))):
        if used not in defined:
            raise CodeError(f"`{title}` has no input or setting `{used}`; there are {', '.join(defined)}")
    _check_kinds(kinds, names, title)
    keywords = [setting.parameter(n) for n, setting in settings.items()]
    declared = Declaration(
        name=title,
        namespace=arguments.namespace,
        signature=inspect.Signature([*operands, *keywords]),
        inputs={p.name: declared_inputs.get(p.name, Input()) for p in operands},
        settings=settings,
        outputs=names,
        shape=arguments.shape,
        kinds=kinds,
        where=conditions,
        samples=_as_tuple(arguments.samples, Sample, title, "samples"),
        doc="\n\n".join(filter(None, (arguments.doc or inspect.getdoc(function), *(part.doc for part in shared)))),
        rules=function,
    )
    for sample in declared.samples:
        _check_sample(declared, sample)
    return declared


def _checked_title(function: Callable[..., Any], arguments: DefopArguments) -> str:
    """The name of the operation, after checks of the arguments that are not about its operands."""
    if not inspect.isroutine(function):
        raise CodeError(f"oc.defop decorates functions, not {function!r}")
    title: Any = function.__name__ if arguments.name is None else arguments.name
    for identifier in (title, arguments.namespace or "operations"):
        if not isinstance(identifier, str) or not identifier.isidentifier():
            pair = f"{title!r} and {arguments.namespace!r}"
            raise CodeError(f"the names of operations and namespaces must be identifiers, not {pair}")
    if not isinstance(arguments.doc, str):
        raise CodeError(f"`doc` of `{title}` is a text, not {arguments.doc!r}")
    return cast("str", title)


def _referenced_names(
    conditions: tuple[Condition, ...], defaults: tuple[object, ...], rules: tuple[object, ...]
) -> Iterator[str]:
    """The names of inputs and settings that conditions, computed defaults and rules of shape and type refer to."""
    for condition in conditions:
        yield from condition.names
    for default in defaults:
        yield from default.names if isinstance(default, Default) else ()
    for rule in rules:
        yield from inspect.signature(rule).parameters if inspect.isfunction(rule) else ()


def _check_kinds(kinds: tuple[object, ...], names: tuple[str, ...], title: str) -> None:
    if len(kinds) != len(names):
        raise CodeError(f"`{title}` has {len(names)} outputs, but types for {len(kinds)}")
    for dtype in kinds:
        if dtype is not None and not inspect.isfunction(dtype):
            precision(dtype)


def _resolved_signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function, with string annotations evaluated in the globals of the function where possible."""
    signature = inspect.signature(function)
    scope = getattr(inspect.unwrap(function), "__globals__", {})

    def evaluate(annotation: Any) -> Any:
        try:
            return eval(annotation, scope) if isinstance(annotation, str) else annotation
        except Exception:  # a local name, or one imported for type checkers only
            return annotation

    parameters = [p.replace(annotation=evaluate(p.annotation)) for p in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)


# --- parts of a declaration -------------------------------------------------------------------------------------------


def _as_tuple(value: object, kind: type[T], title: str, keyword: str) -> tuple[T, ...]:
    items = tuple(value) if isinstance(value, Iterable) else (value,)
    valid = tuple(item for item in items if isinstance(item, kind))
    if not isinstance(value, Iterable) or len(valid) < len(items):
        raise CodeError(f"`{keyword}` of `{title}` is a list of declare.{kind.__name__}, not {value!r}"[:200])
    return valid


def _settings(signature: inspect.Signature, shared: tuple[Part, ...], title: str) -> dict[str, Setting]:
    """The settings of the parts, then those of the function, which may override them."""
    settings: dict[str, Setting] = {}
    for part in shared:
        for n, setting in part.settings.items():
            if settings.setdefault(n, setting) != setting:
                raise CodeError(f"two parts of `{title}` declare `{n}` differently")
    for p in signature.parameters.values():
        is_inherited = p.name in settings and p.default is p.empty
        if p.kind is p.KEYWORD_ONLY and not is_inherited:
            settings[p.name] = Setting(Any if p.annotation is p.empty else p.annotation, p.default)
        elif p.kind in (*POSITIONAL, p.VAR_POSITIONAL) and p.name in settings:
            raise CodeError(f"`{p.name}` is an input of `{title}`, and a setting of one of its parts")
    if "label" in settings:
        raise CodeError(f"`{title}`: every operation takes `label=`; rename yours")
    for n, setting in settings.items():
        if not isinstance(setting.default, Default) and setting.default is not Parameter.empty:
            _check_setting(title, n, setting, setting.default)
    return settings


def _check_setting(title: str, name: str, setting: Setting, value: object) -> None:
    if not fits(value, setting.kind):
        raise CodeError(f"`{title}`: {name}={value!r} is not {kind_text(setting.kind)}")


def _inputs(value: object, shared: tuple[Part, ...], operands: list[Parameter], title: str) -> dict[str, Input]:
    if not isinstance(value, Mapping):
        raise CodeError(f"`inputs` of `{title}` is a mapping from names to declare.Input, not {value!r}")
    inherited = {n: spec for part in shared for n, spec in part.inputs.items()}
    inputs = {n: as_input(spec) for n, spec in {**inherited, **value}.items()}
    for p in operands:
        if p.kind is not p.VAR_POSITIONAL and inputs.get(p.name, Input()).count != ANY_NUMBER:
            raise CodeError(f"`{p.name}` of `{title}` is one tensor; a count is for inputs such as `*{p.name}`")
    return inputs


def _outputs(value: object, title: str) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else ()
    if not names or len(set(names)) < len(names) or not all(isinstance(n, str) and n.isidentifier() for n in names):
        raise CodeError(f"outputs of `{title}` are different names such as ('v', 'w'), not {value!r}")
    for number, n in enumerate(names):
        if SLOT.fullmatch(n) and (number, n) != (0, "v"):
            raise CodeError(f"`{n}` is already a slot of `{title}`; rename the output")
    return names


def _check_sample(declared: Declaration, sample: Sample) -> None:
    """Checks that a sample matches the signature. Raises: CodeError."""
    try:
        bound = declared.signature.bind(*sample.operands, **sample.settings)
    except TypeError as error:
        raise CodeError(f"a sample of `{declared.title}{declared.signature}` does not fit: {error}") from None
    for name, value in bound.arguments.items():
        if name in declared.settings:
            _check_setting(declared.title, name, declared.settings[name], value)
