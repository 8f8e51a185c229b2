"""The declarations of the built-in operations, as data: `oc.conv2d.declaration`.

Signatures, documentation and shape rules are those of the functions, whose positional parameters of type `object` are
the inputs. Tables add inputs that are keywords, the types of inputs, documentation, the names of results, and
conditions.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter
from typing import Any

from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.declare.builtin_conditions import CONDITIONS
from ocannl.lang.declare.builtin_inputs import KEYWORDS, LISTS, RESULTS, builtin_input
from ocannl.lang.declare.builtin_samples import SAMPLES
from ocannl.lang.declare.builtin_settings import setting_doc
from ocannl.lang.declare.declaration import POSITIONAL, Declaration
from ocannl.lang.declare.inputs import Input
from ocannl.lang.declare.outputs import Output
from ocannl.lang.declare.samples import Draw, Sample
from ocannl.lang.declare.settings import Setting
from ocannl.lang.ops import functions
from ocannl.lang.ops.control_flow import cond, scan, while_loop
from ocannl.lang.ops.methods import METHODS, Methods
from ocannl.lang.ops.recomputation import recompute

SETTINGS_OF_ANY_TYPE = ("dtype",)
SHAPES = re.compile(r"^Shapes: +`([^`]*=>[^`]*)`", re.MULTILINE)


def builtin_functions() -> dict[str, Callable[..., Any]]:
    """The operations of the language by spelling: functions, and methods without a function of their name."""
    calls = {f"oc.{name}": REGISTRY[name] for name in functions.__all__}
    return calls | {f"x.{name}": getattr(Methods, name) for name in sorted(METHODS) if name not in functions.__all__}


CONTROL_FLOW: dict[str, Callable[..., Any]] = {
    "oc.cond": cond, "oc.recompute": recompute, "oc.scan": scan, "oc.while_loop": while_loop
}  # fmt: skip
"""Loops and branches, whose arguments are functions."""


def attach() -> None:
    """Gives every function and method of the language its declaration."""
    for call, function in {**builtin_functions(), **CONTROL_FLOW}.items():
        function.declaration = BuiltinDeclaration(call.rpartition(".")[2], function)  # type: ignore[attr-defined]
    for name, operation in METHODS.items():
        if name in functions.__all__:
            getattr(Methods, name).declaration = REGISTRY[operation].declaration  # type: ignore[attr-defined]


def attach_to_namespace(namespace: str, functions: Mapping[str, Callable[..., Any]]) -> None:
    """Gives the functions of a module of the language, such as `oc.linalg`, their declarations."""
    for name, function in functions.items():
        function.declaration = BuiltinDeclaration(name, function, namespace)  # type: ignore[attr-defined]


class BuiltinDeclaration(Declaration):
    """The declaration of a function of the language, computed at the first use: most programs read none."""

    def __init__(self, name: str, function: Callable[..., Any], namespace: str = "") -> None:
        self.__dict__["_source"] = (name, function, namespace)

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_") or "signature" in self.__dict__:
            raise AttributeError(attribute)
        self.__dict__.update(vars(builtin_declaration(*self.__dict__["_source"])))
        return getattr(self, attribute)


def builtin_declaration(name: str, function: Callable[..., Any], namespace: str = "") -> Declaration:
    title = f"{namespace}.{name}".lstrip(".")
    signature = inspect.signature(function, eval_str=True)
    parameters = [p for p in signature.parameters.values() if p.name not in ("self", "label")]
    inputs = {p.name: builtin_input(title, p.name) for p in parameters if _is_input(title, p)}
    settings = {p.name: _setting(title, p) for p in parameters if p.name not in inputs}
    receiver = {"x": Input()} if "self" in signature.parameters else {}
    doc = inspect.getdoc(function) or ""
    return Declaration(
        name=name,
        namespace=namespace,
        signature=signature.replace(parameters=[*_receivers(receiver), *parameters]),
        inputs=receiver | inputs,
        settings=settings,
        results=RESULTS.get(title, {"v": Output()}),
        shape="".join(SHAPES.findall(doc)[:1]) or None,
        where=CONDITIONS.get(title, ()),
        samples=() if namespace else _samples(name, parameters, bool(receiver)),
        doc=doc,
        rules=None,
    )


def _is_input(operation: str, p: Parameter) -> bool:
    is_operand = p.annotation is object and p.kind in (*POSITIONAL, Parameter.VAR_POSITIONAL)
    is_keyword = p.name in KEYWORDS.get(operation, ())
    return (is_operand and p.name not in SETTINGS_OF_ANY_TYPE) or is_keyword or p.name in LISTS


def _setting(name: str, p: Parameter) -> Setting:
    kind = Any if p.annotation is object else p.annotation
    return Setting(kind, p.default, setting_doc(name, p.name))


def _receivers(receiver: dict[str, Input]) -> Iterator[Parameter]:
    for name in receiver:
        yield Parameter(name, Parameter.POSITIONAL_ONLY, annotation=object)


def _samples(name: str, parameters: list[Parameter], is_method: bool) -> tuple[Sample, ...]:
    """The samples in the table, or one call with a random operand for each input, if nothing else is required."""
    if name in SAMPLES:
        return SAMPLES[name]
    required = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    if not all(_is_input(name, p) for p in required):
        return ()
    return (Sample((*[Draw()] * is_method, *(Draw() for _ in required)), {}),)
