"""The declaration of one operation, from which its function, stub, reference page and checks are generated."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ocannl.base.errors import CodeError, DtypeError
from ocannl.base.keyword_answers import unknown_keyword
from ocannl.infer.explain import Line, table
from ocannl.infer.logic import Logic
from ocannl.infer.size_provenance import described
from ocannl.ir.precision import Precision, precision
from ocannl.lang.declare.axes import logic_of
from ocannl.lang.declare.conditions import AbsentInput, Arguments, Condition
from ocannl.lang.declare.configurations import configuration_of
from ocannl.lang.declare.inputs import Input
from ocannl.lang.declare.outputs import Output
from ocannl.lang.declare.samples import Sample
from ocannl.lang.declare.settings import Default, Setting, resolve_defaults
from ocannl.lang.declare.shared_part import Part

Parameter = inspect.Parameter
POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Declaration:
    """A declared operation. `rules` returns `forward, gradient` for the inputs and settings of one call.

    shape          the axis logic of all outputs, or a tuple with one for each output; a function computes it from the
                   inputs and settings that its parameters name
    results        the outputs by name; their data types are None where they are inferred, and may be functions as well
    signatures     the sets of arguments that a call may give; any set if there are none
    backend_where  conditions that backends check, or texts: documentation only
    rules          None for the operations of the language, which are not declared by two rules
    """

    name: str
    namespace: str
    signature: inspect.Signature
    inputs: Mapping[str, Input]
    settings: Mapping[str, Setting]
    results: Mapping[str, Output]
    shape: object
    where: tuple[Condition, ...]
    samples: tuple[Sample, ...]
    doc: str
    rules: Callable[..., Any] | None
    signatures: tuple[tuple[str, ...], ...] = ()
    backend_where: tuple[Condition | str, ...] = ()
    parts: tuple[Part, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    @property
    def variadic(self) -> str | None:
        """The name of the variadic input `*xs`, if there is one."""
        kind = Parameter.VAR_POSITIONAL
        return next((p.name for p in self.signature.parameters.values() if p.kind is kind), None)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the results."""
        return tuple(self.results)

    @property
    def kinds(self) -> tuple[object, ...]:
        """The data type of each output, as declared."""
        return tuple(output.kind for output in self.results.values())

    @property
    def optional(self) -> tuple[str, ...]:
        """The inputs that a call may omit."""
        return tuple(name for name in self.inputs if self.signature.parameters[name].default is None)

    def is_list(self, name: str) -> bool:
        """Whether an input is a list of tensors, or variadic."""
        return name == self.variadic or self.inputs[name].is_list

    def named_operands(self, arguments: Arguments) -> Iterable[tuple[str, Any]]:
        """The operands of a call, each with the name of its input."""
        for name in self.inputs:
            for operand in self.operands_of(name, arguments):
                yield name, operand

    # --- one call ----------------------------------------------------------------------------------------------------

    def bind(self, args: tuple[Any, ...], settings: Mapping[str, Any], embed: Callable[[Any], Any]) -> Arguments:
        """Embedded inputs and settings by name, with defaults resolved. Raises: CodeError, DtypeError."""
        try:
            bound = self.signature.bind(*args, **settings)
        except TypeError as e:
            unknown = unknown_keyword(f"`{self.title}`", settings, self.signature.parameters)
            raise CodeError(unknown or f"`{self.title}{self.signature}`: {e}") from None
        passed = {name: value for name, value in bound.arguments.items() if not isinstance(value, tuple) or value}
        self._check_signature([*passed])
        bound.apply_defaults()
        arguments = {name: self._embed(name, value, embed) for name, value in bound.arguments.items()}
        resolved = resolve_defaults(arguments, self.title)
        arguments = {name: self._embed(name, value, embed) for name, value in resolved.items()}
        for name, declared in self.inputs.items():
            if self.is_list(name) and declared.count is not None and arguments[name] is not None:
                wants, count = declared.count, len(arguments[name])
                if not wants.allows(count):
                    listed = f"*{name}" if name == self.variadic else name
                    raise CodeError(f"`{self.title}` takes {wants} of `{listed}`, and {count} {_are(count)} given")
        for name, setting in self.settings.items():
            setting.check(self.title, name, arguments[name])
        return arguments

    def _check_signature(self, passed: list[str]) -> None:
        if self.signatures and not any(set(passed) == set(signature) for signature in self.signatures):
            listed = " or ".join(f"({', '.join(signature)})" for signature in self.signatures)
            raise CodeError(f"`{self.title}` takes {listed}, not ({', '.join(passed)})")

    def _embed(self, name: str, value: Any, embed: Callable[[Any], Any]) -> Any:
        if name not in self.inputs:
            return self.settings[name].converted(value)
        if isinstance(value, Default) or (value is None and name in self.optional):
            return value
        if not self.is_list(name):
            return embed(value)
        if not isinstance(value, list | tuple):
            raise CodeError(f"`{name}` of `{self.title}` is a list of tensors, not {value!r}"[:200])
        return tuple(map(embed, value))

    @property
    def shapes(self) -> tuple[object, ...]:
        """The axis logic of each output, as declared."""
        return self.shape if isinstance(self.shape, tuple) else (self.shape,) * len(self.outputs)

    def logics(self, arguments: Arguments, operands: int) -> tuple[Logic, ...]:
        """The axis logic of each output of one call."""
        shape = self._resolve_rule(self.shape, arguments)
        shapes = shape if isinstance(shape, tuple) else (shape,) * len(self.outputs)
        if len(shapes) != len(self.outputs):
            raise CodeError(f"`{self.title}` has {len(self.outputs)} outputs, but axes for {len(shapes)}")
        return tuple(logic_of(s, operands) for s in shapes)

    def named_values(self, arguments: Arguments) -> dict[str, object]:
        """The settings of a call, and the fields of configurations that have no name in common."""
        values: dict[str, object] = {}
        ambiguous: set[str] = set()
        for name in self.settings:
            configuration = configuration_of(type(arguments[name]))
            for field in configuration.fields if configuration else ():
                ambiguous |= {field} & values.keys()
                values[field] = getattr(arguments[name], field)
        return {n: v for n, v in values.items() if n not in ambiguous} | {n: arguments[n] for n in self.settings}

    def precisions(self, arguments: Arguments) -> tuple[Precision | None, ...]:
        kinds = (self._resolve_rule(kind, arguments) for kind in self.kinds)
        return tuple(None if kind is None else precision(kind) for kind in kinds)

    def _resolve_rule(self, rule: object, arguments: Arguments) -> object:
        """The value of a declared constant, or of a function called with the arguments that its parameters name."""
        if not inspect.isfunction(rule):
            return rule
        return rule(*(arguments[name] for name in inspect.signature(rule).parameters))

    # --- checks ------------------------------------------------------------------------------------------------------

    def check_types(self, arguments: Arguments) -> None:
        for name, t in self.named_operands(arguments):
            accepts = self.inputs[name].accepts(t.typing.current)
            if not accepts and (t.literal is None or not self._accepts_literals(name)):
                problem = f"`{self.title}` takes {' or '.join(self.inputs[name].kinds)} as `{name}`"
                raise DtypeError("\n".join([problem, *table((), "convert it", [_explanation_line(name, t)])]))

    def _accepts_literals(self, name: str) -> bool:
        return self.inputs[name].has_gradient  # a Python number becomes a float where one is required

    def check_conditions(self, conditions: Iterable[Condition], arguments: Arguments) -> tuple[Condition, ...]:
        """Raises the error of the first condition that fails; returns the conditions that are still unknown."""
        unknown = []
        for condition in conditions:
            try:
                holds = condition.test(arguments)
            except AbsentInput:
                continue
            if holds is None:
                unknown.append(condition)
            elif not holds:
                lines = [_explanation_line(n, t) for n in condition.names for t in self.operands_of(n, arguments)]
                fix = condition.fix or f"give other {', '.join(f'`{n}`' for n in condition.names)}"
                problem = f"`{self.title}` needs {condition.text}"
                raise condition.error("\n".join([problem, *table((), fix, lines)]))
        return tuple(unknown)

    def operands_of(self, name: str, arguments: Arguments) -> tuple[Any, ...]:
        """The tensors of an input, or the value of a setting."""
        value = arguments[name]
        if name not in self.inputs:
            return (value,)
        return () if value is None else tuple(value) if self.is_list(name) else (value,)


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _explanation_line(name: str, value: Any) -> Line:
    if not hasattr(value, "handle"):
        return name, repr(value), ""
    shape = value.handle
    description = f"{value.label}: {shape.known or '(no axes)'} {value.typing.current}"
    return name, description, described(shape.provenance.role, shape.provenance.where)
