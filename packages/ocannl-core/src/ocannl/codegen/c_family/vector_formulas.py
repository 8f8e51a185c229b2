"""Formulas as functions of vectors of a C-like language: their steps, of all lanes at once.

    static inline f32x16 exp2_f32_x16(f32x16 x)
    {
      f32x16 t1 = max_f32_x16(x, all_f32x16(-151.0f));
      ...
"""

from __future__ import annotations

from functools import cache

from ocannl.codegen.c_family import builtins, formulas, vectors
from ocannl.codegen.c_family.dialect import Dialect, Function
from ocannl.codegen.c_family.infix import Term, binary, call, unary
from ocannl.codegen.formula import TWICE, Formula, Step
from ocannl.ir.precision import Precision, bool_, float32, int32, uint32


@cache
def function(d: Dialect, formula: Formula, width: int) -> Function:
    """A formula whose numbers have all the same size: compilers do badly with vectors longer than registers."""
    steps = _Steps(d, width)
    body = formulas.text(formula, formula.result, steps.held, steps.number, steps.value)
    held = steps.held(float32)
    params = tuple([f"{held} {param}" for param in formula.params])
    name = f"{formulas.name(formula)}_x{width}"
    return builtins.inline(d, name, held, params, body, (*steps.needs.values(),), d.inlined)


@cache
def scale(d: Dialect, width: int) -> Function:
    """`x * 2**n`, as `formula.spelled` spells it where no instruction does it."""
    held, whole, every = (made(d, kind, width) for made, kind in (
        (vectors.vector, float32), (vectors.vector, uint32), (vectors.splat, float32)))  # fmt: skip
    body = f"""\
{whole.name} biased = ({whole.name})(n + {every.name}({d.literal(TWICE, float32).text})), half = biased >> 1;
return x * ({held.name})(half << 23) * ({held.name})((biased - half) << 23);"""
    params = (f"{held.name} x", f"{held.name} n")
    return builtins.inline(d, f"scale_f32_x{width}", held.name, params, body, (held, whole, every), d.inlined)


class _Steps:
    """Steps being written of vectors; `needs` are the types and functions that they mention."""

    __slots__ = ("d", "needs", "width")

    def __init__(self, d: Dialect, width: int) -> None:
        self.d, self.width = d, width
        self.needs: dict[str, Function] = {}

    def use(self, made: Function) -> str:
        self.needs[made.name] = made
        return made.name

    def held(self, precision: Precision) -> str:
        return self.use(vectors.vector(self.d, int32 if precision is bool_ else precision, self.width))

    def number(self, value: int | float, precision: Precision) -> Term:
        return call(self.use(vectors.splat(self.d, precision, self.width)), self.d.literal(value, precision))

    def value(self, step: Step, args: list[Term]) -> Term:
        d, width, source, target = self.d, self.width, step.source, step.precision
        match step.op:
            case "where":
                return call(self.use(vectors.pick(d, target, width)), *args)
            case "bits":
                return unary(f"({self.held(target)})", args[0])
            case "cast":
                return Term(d.convert.format(value=args[0].text, type=self.held(target)))
            case "scale":
                return call(self.use(scale(d, width)), *args)
            case op if op in formulas.INFIX:
                return binary(formulas.INFIX[op], *args)
            case op:
                return call(self.use(vectors.operation(d, op, source, len(args), width)), *args)
