"""Formulas in LLVM: their steps, one by one."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.codegen.formula import RELATIONS, Formula, Operand, Step, spelled
from ocannl.ir.ops import BY_NAME
from ocannl_backend_llvm.arith import apply, compare
from ocannl_backend_llvm.build import Builder
from ocannl_backend_llvm.convert import convert
from ocannl_backend_llvm.types import HELD, constant


def write(b: Builder, formula: Formula, args: Sequence[str]) -> dict[Operand, str]:
    """The values of all steps; truth values are of type i1."""
    values: dict[Operand, str] = dict(zip(formula.params, args, strict=True))
    for step in (formula if b.scales else spelled(formula)).steps:
        first = values[step.args[0]] if step.op == "where" else ""
        given = [values[a] if isinstance(a, str) else constant(a, step.source) for a in step.args[bool(first) :]]
        values[step.name] = b.select(first, HELD[step.source], *given) if first else _step(b, step, given)
    return values


def _step(b: Builder, step: Step, args: list[str]) -> str:
    match step.op:
        case "bits":
            source, target = HELD[step.source], HELD[step.precision]
            return args[0] if source == target else b.cast("bitcast", args[0], source, target)
        case "cast":
            return convert(b, args[0], step.source, step.precision)
        case "scale":
            return b.scale(*args)
        case relation if relation in RELATIONS:
            return compare(b, relation, step.source, *args)
        case op:
            return apply(b, BY_NAME[op], step.source, tuple(args))
