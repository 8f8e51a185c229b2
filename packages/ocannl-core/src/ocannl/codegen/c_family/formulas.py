"""Formulas as scalar functions of a C-like language, one statement per step.

    static inline float exp2_f32(float x)
    {
      float t1 = max_f32(x, -151.0f);
      ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ocannl.codegen.c_family import builtins
from ocannl.codegen.c_family.dialect import Definition, Dialect
from ocannl.codegen.c_family.infix import ExprText, binary, call, ternary, unary
from ocannl.codegen.formula_ir import Formula, Operand, Step, expand_scale
from ocannl.codegen.formulas import ALL_FORMULAS
from ocannl.ir.precision import Precision, bool_, int32
from ocannl.ir.printer import short_name

INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
    "left_shift": "<<", "right_shift": ">>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip
"""Shift counts are constants less than the number of bits, so shifts need no function."""


def function(d: Dialect, formula: Formula) -> Definition:
    """The function of a formula, which calls the mathematical library if the slow-path test holds."""
    if not formula.slow_path_test:
        return _define(d, formula, formula.result, name(formula))
    slow, fast = needs_slow_path(d, formula), fast_path(d, formula)
    library = builtins.operation(d, formula.name, formula.precision, prefix="far_")
    assert library is not None
    body = ternary(*(call(definition.name, *map(ExprText, formula.params)) for definition in (slow, library, fast)))
    params, type_ = _declared_params(d, formula), d.types[formula.precision]
    return builtins.inline(d, name(formula), type_, params, f"return {body.text};", (slow, library, fast))


def fast_path(d: Dialect, formula: Formula) -> Definition:
    """The function that evaluates the steps, valid where `needs_slow_path` is false."""
    return _define(d, formula, formula.result, f"near_{name(formula)}")


def needs_slow_path(d: Dialect, formula: Formula) -> Definition:
    """The function that evaluates the slow-path test."""
    return _define(d, formula, formula.slow_path_test, f"beyond_{name(formula)}")


def names() -> Iterator[str]:
    """The names of the functions of fast paths, slow paths and tests; functions of formulas are named as operations."""
    yield from (f"{prefix}_{name(formula)}" for prefix in ("near", "beyond", "far") for formula in ALL_FORMULAS)


def name(formula: Formula) -> str:
    return f"{formula.name}_{short_name(formula.precision)}"


def print_steps(
    formula: Formula,
    result: str,
    type_name: Callable[[Precision], str],
    number: Callable[[int | float, Precision], ExprText],
    value: Callable[[Step, list[ExprText]], ExprText],
) -> str:
    """The body of a function: the steps that the one named `result` depends on, and this one."""
    values: dict[Operand, ExprText] = {param: ExprText(param) for param in formula.params}
    lines = []
    for step in _needed_steps(formula.steps, result):
        args = [values[a] if isinstance(a, str) else number(a, step.source) for a in step.args]
        lines.append(f"{type_name(step.precision)} {step.name} = {value(step, args).text};")
        values[step.name] = ExprText(step.name)
    return "\n".join([*lines, f"return {result};"])


def _needed_steps(steps: Sequence[Step], result: str) -> list[Step]:
    needed: set[Operand] = {result}
    backwards = []
    for step in reversed(steps):
        if step.name in needed:
            needed.update(step.args)
            backwards.append(step)
    return backwards[::-1]


def _declared_params(d: Dialect, formula: Formula) -> tuple[str, ...]:
    return tuple([f"{d.types[formula.precision]} {param}" for param in formula.params])


def _type_name(d: Dialect, precision: Precision) -> str:
    return d.types[int32 if precision is bool_ else precision]


def _define(d: Dialect, formula: Formula, result: str, function_name: str) -> Definition:
    dependencies: dict[str, Definition] = {}
    value = partial(_step_value, d, dependencies)
    body = print_steps(expand_scale(formula), result, partial(_type_name, d), d.literal, value)
    precision = next(step.precision for step in formula.steps if step.name == result)
    return builtins.inline(
        d, function_name, _type_name(d, precision), _declared_params(d, formula), body, (*dependencies.values(),)
    )


def _step_value(d: Dialect, dependencies: dict[str, Definition], step: Step, args: list[ExprText]) -> ExprText:
    def use(definition: Definition) -> ExprText:
        dependencies[definition.name] = definition
        return call(definition.name, *args)

    match step.op, step.source, step.precision:
        case "where", _, _:
            return ternary(args[0], args[1], args[2])
        case "bits", _, target if target.is_float:
            return use(builtins.bits_float(d, target))
        case "bits", source, _ if source.is_float:
            return use(builtins.float_bits(d, source))
        case "bits" | "cast", _, target:
            return unary(f"({d.types[target]})", args[0])
        case op, _, _ if op in INFIX:
            return binary(INFIX[op], args[0], args[1])
        case op, source, _:
            definition = builtins.operation(d, op, source)
            assert definition is not None
            return use(definition)
