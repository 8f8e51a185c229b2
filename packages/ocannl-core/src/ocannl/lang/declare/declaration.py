"""One row of the table of declared operations: all that functions, stubs, pages and checks are made from."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ocannl.base.errors import CodeError, DtypeError
from ocannl.infer.explain import Line, table
from ocannl.infer.logic import Logic
from ocannl.infer.reasons import said
from ocannl.ir.precision import Precision, precision
from ocannl.lang.declare.axes import logic_of
from ocannl.lang.declare.conditions import Condition, Arguments
from ocannl.lang.declare.inputs import Input
from ocannl.lang.declare.samples import Sample
from ocannl.lang.declare.settings import Default, Setting, fits, kind_text, resolve

Parameter = inspect.Parameter
POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Declaration:
    """What was declared of an operation. `rules` gives `forward, gradient` for the inputs and settings of one call.

    shape     how axes are walked: one for all outputs, or one for each; of a function, what it gives for the inputs and
              settings that its arguments are called after
    kinds     the type of each output, None where it follows from the inputs; functions as well
    """

    name: str
    namespace: str
    signature: inspect.Signature
    inputs: Mapping[str, Input]
    settings: Mapping[str, Setting]
    outputs: tuple[str, ...]
    shape: object
    kinds: tuple[object, ...]
    where: tuple[Condition, ...]
    samples: tuple[Sample, ...]
    doc: str
    rules: Callable[..., Any]

    @property
    def title(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    @property
    def variadic(self) -> str | None:
        """The input that is any number of tensors."""
        kind = Parameter.VAR_POSITIONAL
        return next((p.name for p in self.signature.parameters.values() if p.kind is kind), None)

    def each(self, facts: Arguments) -> Iterable[tuple[str, Any]]:
        """The operands with the names of the inputs that they are."""
        for name in self.inputs:
            for operand in facts[name] if name == self.variadic else (facts[name],):
                yield name, operand

    # --- one call ----------------------------------------------------------------------------------------------------

    def bind(self, args: tuple[Any, ...], settings: Mapping[str, Any], embed: Callable[[Any], Any]) -> Arguments:
        """Inputs, embedded, and settings by name, defaults included. Raises: CodeError, DtypeError."""
        try:
            bound = self.signature.bind(*args, **settings)
        except TypeError as e:
            raise CodeError(f"`{self.title}{self.signature}`: {e}") from None
        bound.apply_defaults()
        found = {name: self._embedded(name, given, embed) for name, given in bound.arguments.items()}
        found = {name: self._embedded(name, given, embed) for name, given in resolve(found, self.title).items()}
        if self.variadic is not None and not self.inputs[self.variadic].count.holds(len(found[self.variadic])):
            wants, given = self.inputs[self.variadic].count, len(found[self.variadic])
            raise CodeError(f"`{self.title}` takes {wants} of `*{self.variadic}`, and {given} {_are(given)} given")
        for name, setting in self.settings.items():
            if not fits(found[name], setting.kind):
                raise CodeError(f"`{self.title}`: {name}={found[name]!r} is not {kind_text(setting.kind)}")
        return found

    def _embedded(self, name: str, given: Any, embed: Callable[[Any], Any]) -> Any:
        if name not in self.inputs or isinstance(given, Default):
            return given
        return tuple(map(embed, given)) if name == self.variadic else embed(given)

    @property
    def shapes(self) -> tuple[object, ...]:
        """How the axes of each output are walked, as it was declared."""
        return self.shape if isinstance(self.shape, tuple) else (self.shape,) * len(self.outputs)

    def logics(self, facts: Arguments, operands: int) -> tuple[Logic, ...]:
        """How the axes of each output are walked."""
        shape = self._told(self.shape, facts)
        shapes = shape if isinstance(shape, tuple) else (shape,) * len(self.outputs)
        if len(shapes) != len(self.outputs):
            raise CodeError(f"`{self.title}` has {len(self.outputs)} outputs, and axes for {len(shapes)}")
        return tuple(logic_of(one, operands) for one in shapes)

    def precisions(self, facts: Arguments) -> tuple[Precision | None, ...]:
        told = (self._told(kind, facts) for kind in self.kinds)
        return tuple(None if kind is None else precision(kind) for kind in told)

    def _told(self, given: object, facts: Arguments) -> object:
        if not inspect.isfunction(given):
            return given
        return given(*(facts[name] for name in inspect.signature(given).parameters))

    # --- what must hold ----------------------------------------------------------------------------------------------

    def check_types(self, facts: Arguments) -> None:
        for name, t in self.each(facts):
            if not (self.inputs[name].takes(t.typing.known) or (t.literal is not None and self._takes_numbers(name))):
                wants = " or ".join(self.inputs[name].words)
                raise DtypeError(
                    "\n".join([f"`{self.title}` takes {wants} as `{name}`", *table((), "convert it", [_line(name, t)])])
                )

    def _takes_numbers(self, name: str) -> bool:
        return self.inputs[name].has_gradient  # a mere number is a float where that is wanted

    def check(self, conditions: Iterable[Condition], facts: Arguments) -> tuple[Condition, ...]:
        """Refuses a call of which some condition does not hold; gives those of which that is not known yet."""
        unknown = []
        for condition in conditions:
            holds = condition.test(facts)
            if holds is None:
                unknown.append(condition)
            elif not holds:
                lines = [_line(name, one) for name in condition.names for one in self._all(name, facts)]
                fix = condition.fix or f"give other {', '.join(f'`{n}`' for n in condition.names)}"
                problem = f"`{self.title}` needs {condition.words}"
                raise condition.error("\n".join([problem, *table((), fix, lines)]))
        return tuple(unknown)

    def _all(self, name: str, facts: Arguments) -> tuple[Any, ...]:
        return tuple(facts[name]) if name == self.variadic else (facts[name],)


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _line(name: str, given: Any) -> Line:
    if not hasattr(given, "handle"):
        return name, repr(given), ""
    shape = given.handle
    about = f"{given.label}: {shape.known or '(no axes)'} {given.typing.known}"
    return name, about, said(shape.provenance.role, shape.provenance.where)
