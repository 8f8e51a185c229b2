"""The row of an operation, from what its author wrote. Whatever in it cannot be is refused here, in words."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ocannl.base.errors import CodeError
from ocannl.ir.precision import precision
from ocannl.lang.declare.conditions import Condition
from ocannl.lang.declare.declaration import POSITIONAL, Declaration
from ocannl.lang.declare.inputs import ANY_NUMBER, Input, input_of
from ocannl.lang.declare.part import Part
from ocannl.lang.declare.samples import Sample
from ocannl.lang.declare.settings import Default, Setting, fits, kind_text

Parameter = inspect.Parameter
SLOT = re.compile(r"[vtg]([0-9]+|s)?|g_.*")
T = TypeVar("T")


def declaration(
    function: Callable[..., Any],
    *,
    name: str | None,
    namespace: str,
    shape: object,
    inputs: object,
    outputs: object,
    kind: object,
    where: object,
    parts: object,
    samples: object,
    doc: str,
) -> Declaration:
    """The row of an operation. Raises: CodeError about whatever in it cannot be."""
    if not inspect.isroutine(function):
        raise CodeError(f"oc.defop decorates functions, not {function!r}")
    title: Any = function.__name__ if name is None else name
    for word in (title, namespace or "operations"):
        if not isinstance(word, str) or not word.isidentifier():
            raise CodeError(f"an operation and its namespace are called by names, not {title!r} and {namespace!r}")
    own = _annotated(function)
    takes = [p for p in own.parameters.values() if p.kind in (*POSITIONAL, Parameter.VAR_POSITIONAL)]
    if not takes:
        raise CodeError(f"operation `{title}` has no operands")
    if not isinstance(doc, str):
        raise CodeError(f"`doc` of `{title}` is a text, not {doc!r}")
    shared = _list(parts, Part, title, "parts")
    settings = _settings(own, shared, title)
    said_of = _inputs(inputs, shared, takes, title)
    conditions = (*(c for part in shared for c in part.where), *_list(where, Condition, title, "where"))
    defaults = (*(p.default for p in takes), *(s.default for s in settings.values()))
    names = _outputs(outputs, title)
    kinds = kind if isinstance(kind, tuple) else (kind,) * len(names)
    known = [*(p.name for p in takes), *settings]
    follow = [n for default in defaults if isinstance(default, Default) for n in default.names]
    follow += [n for given in (shape, *kinds) if inspect.isfunction(given) for n in inspect.signature(given).parameters]
    for used in (*said_of, *(n for c in conditions for n in c.names), *follow):
        if used not in known:
            raise CodeError(f"`{title}` has no input or setting `{used}`; there are {', '.join(known)}")
    if len(kinds) != len(names):
        raise CodeError(f"`{title}` has {len(names)} outputs, and types for {len(kinds)}")
    for one in kinds:
        if one is not None and not inspect.isfunction(one):
            precision(one)
    keywords = [setting.parameter(n) for n, setting in settings.items()]
    declared = Declaration(
        name=title,
        namespace=namespace,
        signature=inspect.Signature([*takes, *keywords]),
        inputs={p.name: said_of.get(p.name, Input()) for p in takes},
        settings=settings,
        outputs=names,
        shape=shape,
        kinds=kinds,
        where=conditions,
        samples=_list(samples, Sample, title, "samples"),
        doc="\n\n".join(filter(None, (doc or inspect.getdoc(function), *(part.doc for part in shared)))),
        rules=function,
    )
    for sample in declared.samples:
        _check(declared, sample)
    return declared


def _annotated(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function; annotations that are texts are read where the names in them are known."""
    signature = inspect.signature(function)
    scope = getattr(inspect.unwrap(function), "__globals__", {})

    def read(annotation: Any) -> Any:
        try:
            return eval(annotation, scope) if isinstance(annotation, str) else annotation
        except Exception:  # a name of a function's own, or one that only type checkers see
            return annotation

    parameters = [p.replace(annotation=read(p.annotation)) for p in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)


# --- piece by piece --------------------------------------------------------------------------------------------------


def _list(given: object, kind: type[T], title: str, word: str) -> tuple[T, ...]:
    items = tuple(given) if isinstance(given, Iterable) else (given,)
    found = tuple(item for item in items if isinstance(item, kind))
    if not isinstance(given, Iterable) or len(found) < len(items):
        raise CodeError(f"`{word}` of `{title}` is a list of declare.{kind.__name__}, not {given!r}"[:200])
    return found


def _settings(own: inspect.Signature, shared: tuple[Part, ...], title: str) -> dict[str, Setting]:
    """Those of the parts, then the operation's own, which may replace them."""
    settings: dict[str, Setting] = {}
    for part in shared:
        for n, setting in part.settings.items():
            if settings.setdefault(n, setting) != setting:
                raise CodeError(f"two parts of `{title}` declare `{n}`, each in its own way")
    for p in own.parameters.values():
        only_read = p.name in settings and p.default is p.empty
        if p.kind is p.KEYWORD_ONLY and not only_read:
            settings[p.name] = Setting(Any if p.annotation is p.empty else p.annotation, p.default)
        elif p.kind in (*POSITIONAL, p.VAR_POSITIONAL) and p.name in settings:
            raise CodeError(f"`{p.name}` is an input of `{title}`, and a setting of one of its parts")
    if "label" in settings:
        raise CodeError(f"`{title}`: every operation takes `label=`; rename yours")
    for n, setting in settings.items():
        if not isinstance(setting.default, Default) and setting.default is not Parameter.empty:
            _fit(title, n, setting, setting.default)
    return settings


def _fit(title: str, name: str, setting: Setting, value: object) -> None:
    if not fits(value, setting.kind):
        raise CodeError(f"`{title}`: {name}={value!r} is not {kind_text(setting.kind)}")


def _inputs(given: object, shared: tuple[Part, ...], takes: list[Parameter], title: str) -> dict[str, Input]:
    if not isinstance(given, Mapping):
        raise CodeError(f"`inputs` of `{title}` is a mapping from names to declare.Input, not {given!r}")
    parts = {n: one for part in shared for n, one in part.inputs.items()}
    found = {n: input_of(one) for n, one in {**parts, **given}.items()}
    for p in takes:
        if p.kind is not p.VAR_POSITIONAL and found.get(p.name, Input()).count != ANY_NUMBER:
            raise CodeError(f"`{p.name}` of `{title}` is one tensor; a count is for inputs such as `*{p.name}`")
    return found


def _outputs(given: object, title: str) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else ()
    if not names or len(set(names)) < len(names) or not all(isinstance(n, str) and n.isidentifier() for n in names):
        raise CodeError(f"outputs of `{title}` are different names such as ('v', 'w'), not {given!r}")
    for at, n in enumerate(names):
        if SLOT.fullmatch(n) and (at, n) != (0, "v"):
            raise CodeError(f"`{n}` is a slot of `{title}` already; call the output something else")
    return names


def _check(declared: Declaration, sample: Sample) -> None:
    """A sample is a call that can be."""
    try:
        bound = declared.signature.bind(*sample.operands, **sample.settings)
    except TypeError as wrong:
        raise CodeError(f"a sample of `{declared.title}{declared.signature}` does not fit: {wrong}") from None
    for name, value in bound.arguments.items():
        if name in declared.settings:
            _fit(declared.title, name, declared.settings[name], value)
