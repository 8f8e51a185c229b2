"""Formulas as vector functions of a C-like language: each step computes all lanes.

    static inline f32x16 exp2_f32_x16(f32x16 x)
    {
      f32x16 t1 = max_f32_x16(x, all_f32x16(-151.0f));
      ...
"""

from __future__ import annotations

from functools import cache

from ocannl.codegen.c_family import builtins, formulas, vectors
from ocannl.codegen.c_family.dialect import Definition, Dialect
from ocannl.codegen.c_family.infix import ExprText, binary, call, unary
from ocannl.codegen.formula_ir import FORMATS, Formula, Step
from ocannl.ir.precision import Precision, bool_
from ocannl.ir.printer import short_name


@cache
def function(d: Dialect, formula: Formula, width: int) -> Definition:
    """The vector function of a formula whose values all have the same size (`Formula.is_single`); compilers generate
    poor code for vectors longer than a register."""
    steps = _VectorSteps(d, width, formula.precision)
    body = formulas.print_steps(formula, formula.result, steps.vector_type, steps.number, steps.value)
    vector_type = steps.vector_type(formula.precision)
    params = tuple([f"{vector_type} {param}" for param in formula.params])
    name = f"{formulas.name(formula)}_x{width}"
    return builtins.inline(d, name, vector_type, params, body, (*steps.dependencies.values(),), d.always_inline)


@cache
def scale(d: Dialect, precision: Precision, width: int) -> Definition:
    """`x * 2**n`, expanded as by `formula.expand_scale` on targets without an instruction for it."""
    form = FORMATS[precision]
    vector, bits_vector, splat = (define(d, kind, width) for define, kind in (
        (vectors.vector, precision), (vectors.vector, form.bits), (vectors.splat, precision)))  # fmt: skip
    magic, bits = d.literal(form.round_magic_twice_biased, precision).text, bits_vector.name
    body = f"""\
{bits} biased = ({bits})(n + {splat.name}({magic})), half = biased >> 1;
return x * ({vector.name})(half << {form.mantissa}) * ({vector.name})((biased - half) << {form.mantissa});"""
    params = (f"{vector.name} x", f"{vector.name} n")
    dependencies = (vector, bits_vector, splat)
    name = f"scale_{short_name(precision)}_x{width}"
    return builtins.inline(d, name, vector.name, params, body, dependencies, d.always_inline)


class _VectorSteps:
    """Prints steps as vector operations; `dependencies` collects the definitions they use."""

    __slots__ = ("d", "dependencies", "mask", "width")

    def __init__(self, d: Dialect, width: int, precision: Precision) -> None:
        self.d, self.width = d, width
        self.mask = vectors.MASKS[precision.nbytes]
        self.dependencies: dict[str, Definition] = {}

    def use(self, definition: Definition) -> str:
        self.dependencies[definition.name] = definition
        return definition.name

    def vector_type(self, precision: Precision) -> str:
        return self.use(vectors.vector(self.d, self.mask if precision is bool_ else precision, self.width))

    def number(self, value: int | float, precision: Precision) -> ExprText:
        return call(self.use(vectors.splat(self.d, precision, self.width)), self.d.literal(value, precision))

    def value(self, step: Step, args: list[ExprText]) -> ExprText:
        d, width, source, target = self.d, self.width, step.source, step.precision
        match step.op:
            case "where":
                return call(self.use(vectors.blend(d, target, width)), *args)
            case "bits":
                return unary(f"({self.vector_type(target)})", args[0])
            case "cast":
                return ExprText(d.convert.format(value=args[0].text, type=self.vector_type(target)))
            case "scale":
                return call(self.use(scale(d, source, width)), *args)
            case op if op in formulas.INFIX:
                return binary(formulas.INFIX[op], *args)
            case op:
                return call(self.use(vectors.operation(d, op, source, len(args), width)), *args)
