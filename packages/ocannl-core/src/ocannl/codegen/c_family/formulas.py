"""Formulas as functions of a C-like language: one line for each step.

    static inline float exp2_f32(float x)
    {
      float t1 = max_f32(x, -151.0f);
      ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from ocannl.codegen.c_family import builtins
from ocannl.codegen.c_family.dialect import Dialect, Function
from ocannl.codegen.c_family.infix import Term, binary, call, ternary, unary
from ocannl.codegen.formula import Formula, Operand, Step, spelled
from ocannl.codegen.formulas import FORMULAS
from ocannl.ir.precision import Precision, bool_, float32, int32
from ocannl.ir.text import short

INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
    "left_shift": "<<", "right_shift": ">>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip
"""Places to shift by are numbers that make sense."""


def function(d: Dialect, formula: Formula) -> Function:
    """All of it: where the library is needed, it is called."""
    if not formula.beyond:
        return _written(d, formula, formula.result, name(formula))
    test, inside = beyond(d, formula), near(d, formula)
    library = builtins.library_function(d, formula.name, float32)
    body = ternary(*(call(each.name, *map(Term, formula.params)) for each in (test, library, inside)))
    params, held = _params(d, formula), d.types[float32]
    return builtins.inline(d, name(formula), held, params, f"return {body.text};", (test, library, inside))


def near(d: Dialect, formula: Formula) -> Function:
    """What holds where the library is not needed."""
    return _written(d, formula, formula.result, f"near_{name(formula)}")


def beyond(d: Dialect, formula: Formula) -> Function:
    """Whether it is."""
    return _written(d, formula, formula.beyond, f"beyond_{name(formula)}")


def names() -> Iterator[str]:
    """What such functions may be called, beside the names of operations."""
    yield from (f"{part}_{name(formula)}" for part in ("near", "beyond") for formula in FORMULAS.values())


def name(formula: Formula) -> str:
    return f"{formula.name}_{short(float32)}"


def text(
    formula: Formula,
    result: str,
    held: Callable[[Precision], str],
    number: Callable[[int | float, Precision], Term],
    value: Callable[[Step, list[Term]], Term],
) -> str:
    """The steps up to the one that is the result."""
    values: dict[Operand, Term] = {param: Term(param) for param in formula.params}
    lines = []
    for step in formula.steps:
        given = [values[a] if isinstance(a, str) else number(a, step.source) for a in step.args]
        lines.append(f"{held(step.precision)} {step.name} = {value(step, given).text};")
        values[step.name] = Term(step.name)
        if step.name == result:
            break
    return "\n".join([*lines, f"return {result};"])


def _params(d: Dialect, formula: Formula) -> tuple[str, ...]:
    return tuple([f"{d.types[float32]} {param}" for param in formula.params])


def _held(d: Dialect, precision: Precision) -> str:
    return d.types[int32 if precision is bool_ else precision]


def _written(d: Dialect, formula: Formula, result: str, called: str) -> Function:
    needs: dict[str, Function] = {}
    body = text(spelled(formula), result, partial(_held, d), d.literal, lambda step, args: _value(d, step, args, needs))
    precision = next(step.precision for step in formula.steps if step.name == result)
    return builtins.inline(d, called, _held(d, precision), _params(d, formula), body, (*needs.values(),))


def _value(d: Dialect, step: Step, args: list[Term], needs: dict[str, Function]) -> Term:
    def called(made: Function) -> Term:
        needs[made.name] = made
        return call(made.name, *args)

    match step.op, step.source, step.precision:
        case "where", _, _:
            return ternary(args[0], args[1], args[2])
        case "bits", _, target if target is float32:
            return called(builtins.bits_float(d))
        case "bits", source, _ if source is float32:
            return called(builtins.float_bits(d))
        case "bits" | "cast", _, target:
            return unary(f"({d.types[target]})", args[0])
        case op, _, _ if op in INFIX:
            return binary(INFIX[op], args[0], args[1])
        case op, source, _:
            made = builtins.operation(d, op, source)
            assert made is not None
            return called(made)
