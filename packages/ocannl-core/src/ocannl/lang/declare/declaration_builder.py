"""Builds and validates declarations: every inconsistency in the arguments of `oc.defop` is reported here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from ocannl.base.errors import CodeError
from ocannl.base.traceback_filtering import user_names
from ocannl.ir.precision import precision
from ocannl.lang.declare.conditions import Condition
from ocannl.lang.declare.declaration import POSITIONAL, Declaration
from ocannl.lang.declare.inputs import Input, as_input
from ocannl.lang.declare.outputs import Output, as_output
from ocannl.lang.declare.samples import Sample
from ocannl.lang.declare.settings import Default, Setting
from ocannl.lang.declare.shared_part import Part, merged
from ocannl.lang.declare.texts import with_expanded_texts
from ocannl.lang.declare.use import check_use

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
    settings: object = ()
    signatures: object = ()
    backend_where: object = ()


def build_declaration(function: Callable[..., Any], arguments: DefopArguments) -> Declaration:
    """The declaration of an operation. Raises: CodeError when the arguments are inconsistent."""
    title = _checked_title(function, arguments)
    signature = _resolved_signature(function)
    operands = [p for p in signature.parameters.values() if p.kind in (*POSITIONAL, Parameter.VAR_POSITIONAL)]
    if not operands:
        raise CodeError(f"operation `{title}` has no operands")
    parts = _as_tuple(arguments.parts, Part, title, "parts")
    shared = merged(parts, f"`{title}`")
    settings = _settings(signature, shared, arguments.settings, title)
    declared_inputs = _inputs(arguments.inputs, shared, title)
    conditions = (*shared.where, *_as_tuple(arguments.where, Condition, title, "where"))
    results = _results(arguments, shared, [p.name for p in operands], title)
    kinds = tuple(output.kind for output in results.values())
    defaults = (*(p.default for p in operands), *(s.default for s in settings.values()))
    defined = [*(p.name for p in operands), *settings]
    signatures = _signatures(arguments.signatures, shared, title)
    used = (*(n for s in signatures for n in s), *_referenced_names(conditions, defaults, (arguments.shape, *kinds)))
    for name in (*declared_inputs, *used):
        if name not in defined:
            raise CodeError(f"`{title}` has no input or setting `{name}`; there are {', '.join(defined)}")
    _check_kinds(kinds, title)
    keywords = [setting.parameter(n) for n, setting in settings.items()]
    texts = filter(None, (arguments.doc or inspect.getdoc(function), shared.doc))
    declared = Declaration(
        name=title,
        namespace=arguments.namespace,
        signature=inspect.Signature([*operands, *keywords]),
        inputs={p.name: declared_inputs.get(p.name, Input()) for p in operands},
        settings=settings,
        results=results,
        shape=arguments.shape,
        where=conditions,
        samples=_as_tuple(arguments.samples, Sample, title, "samples"),
        doc="\n\n".join(texts),
        rules=function,
        signatures=signatures,
        backend_where=(*shared.backend_where, *_backend_conditions(arguments.backend_where, title)),
        parts=parts,
    )
    check_use(declared)
    _check_required(declared)
    for sample in declared.samples:
        _check_sample(declared, sample)
    return with_expanded_texts(declared)


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


def _check_kinds(kinds: tuple[object, ...], title: str) -> None:
    for dtype in kinds:
        if dtype is not None and not inspect.isfunction(dtype):
            precision(dtype)


def _check_required(declared: Declaration) -> None:
    """Checks that every signature has all arguments without a default. Raises: CodeError."""
    parameters = declared.signature.parameters.values()
    required = [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    for signature in declared.signatures:
        missing = [name for name in required if name not in signature]
        if missing:
            names = ", ".join(f"`{name}`" for name in missing)
            raise CodeError(f"the signature ({', '.join(signature)}) of `{declared.title}` lacks {names}")


def _resolved_signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function, with string annotations evaluated where it is declared, if possible."""
    signature = inspect.signature(function)
    scope, names = getattr(inspect.unwrap(function), "__globals__", {}), user_names()

    def evaluate(annotation: Any) -> Any:
        try:
            return eval(annotation, scope, names) if isinstance(annotation, str) else annotation
        except Exception:  # a name imported for type checkers only
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


def _settings(signature: inspect.Signature, shared: Part, declared: object, title: str) -> dict[str, Setting]:
    """The settings of the parts, then those of the function, which may override them."""
    described = _mapping(declared, "settings", title)
    settings = dict(shared.settings)
    for p in signature.parameters.values():
        is_inherited = p.name in settings and p.default is p.empty
        if p.kind is p.KEYWORD_ONLY and not is_inherited:
            settings[p.name] = Setting(Any if p.annotation is p.empty else p.annotation, p.default)
        elif p.kind in (*POSITIONAL, p.VAR_POSITIONAL) and p.name in settings:
            raise CodeError(f"`{p.name}` is an input of `{title}`, and a setting of one of its parts")
    for n, setting in described.items():
        if n not in settings or not isinstance(setting, Setting):
            problem = f"`settings` of `{title}` is a mapping from keywords to declare.Setting"
            raise CodeError(f"{problem}, not {n}={setting!r}"[:200])
        kind = settings[n].kind if setting.kind is Any else setting.kind
        default = settings[n].default if setting.default is Parameter.empty else setting.default
        settings[n] = Setting(kind, default, setting.doc or settings[n].doc, setting.count or settings[n].count)
    if "label" in settings:
        raise CodeError(f"`{title}`: every operation takes `label=`; rename yours")
    for n, setting in settings.items():
        if not isinstance(setting.default, Default) and setting.default is not Parameter.empty:
            setting.check(title, n, setting.converted(setting.default))
    return settings


def _mapping(value: object, keyword: str, title: str) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    if value == ():
        return {}
    kind = keyword.removesuffix("s").title()
    raise CodeError(f"`{keyword}` of `{title}` is a mapping from names to declare.{kind}, not {value!r}"[:200])


def _inputs(value: object, shared: Part, title: str) -> dict[str, Input]:
    return {n: as_input(spec) for n, spec in {**shared.inputs, **_mapping(value, "inputs", title)}.items()}


def _results(arguments: DefopArguments, shared: Part, inputs: list[str], title: str) -> dict[str, Output]:
    """The outputs of the operation, or else of its parts, or else one output."""
    value = arguments.outputs if arguments.outputs is not None else shared.outputs or ("v",)
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else ()
    if not names or len(set(names)) < len(names) or not all(isinstance(n, str) and n.isidentifier() for n in names):
        raise CodeError(f"outputs of `{title}` are different names such as ('v', 'w'), not {value!r}")
    for number, n in enumerate(names):
        if SLOT.fullmatch(n) and (number, n) != (0, "v"):
            raise CodeError(f"`{n}` is already a slot of `{title}`; rename the output")
        if n in inputs:
            raise CodeError(f"`{n}` is an input of `{title}`; rename the output")
    results = {n: as_output(value[n]) if isinstance(value, Mapping) else Output() for n in names}
    if arguments.kind is None:
        return results
    kinds = arguments.kind if isinstance(arguments.kind, tuple) else (arguments.kind,) * len(names)
    if len(kinds) != len(names):
        raise CodeError(f"`{title}` has {len(names)} outputs, but types for {len(kinds)}")
    return {n: Output(kind, results[n].doc) for n, kind in zip(names, kinds, strict=True)}


def _signatures(value: object, shared: Part, title: str) -> tuple[tuple[str, ...], ...]:
    signatures = tuple(value) if isinstance(value, list | tuple) else (value,)
    for names in signatures:
        if not isinstance(names, list | tuple) or not names or not all(isinstance(n, str) for n in names):
            raise CodeError(f"`signatures` of `{title}` is a list of lists of names, not {value!r}")
    return (*shared.signatures, *map(tuple, signatures))


def _backend_conditions(value: object, title: str) -> tuple[Condition | str, ...]:
    items = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not all(isinstance(item, Condition | str) for item in items):
        raise CodeError(f"`backend_where` of `{title}` is a list of declare.Condition or texts, not {value!r}"[:200])
    return items


def _check_sample(declared: Declaration, sample: Sample) -> None:
    """Checks that a sample matches the signature. Raises: CodeError."""
    try:
        bound = declared.signature.bind(*sample.operands, **sample.settings)
    except TypeError as error:
        raise CodeError(f"a sample of `{declared.title}{declared.signature}` does not fit: {error}") from None
    for name, value in bound.arguments.items():
        if name in declared.settings:
            declared.settings[name].check(declared.title, name, declared.settings[name].converted(value))
