"""Formulas in LLVM: their steps, one by one."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.codegen.formula import RELATIONS, Formula, Operand, Step, spelled
from ocannl.ir.ops import BY_NAME
from ocannl_backend_llvm.arith import apply, compare
from ocannl_backend_llvm.build import Builder
from ocannl_backend_llvm.convert import convert
from ocannl_backend_llvm.types import HELD, constant

MASKS = {16: "i16", 8: "i8", 4: "i8"}
"""By the width of vectors that an instruction multiplies by powers of two, the type of its mask."""


def write(b: Builder, formula: Formula, args: Sequence[str]) -> dict[Operand, str]:
    """The values of all steps; truth values are of type i1."""
    values: dict[Operand, str] = dict(zip(formula.params, args, strict=True))
    scales = b.module.instructions.scale and b.width in MASKS
    for step in (formula if scales else spelled(formula)).steps:
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
            return _scaled(b, *args)
        case relation if relation in RELATIONS:
            return compare(b, relation, step.source, *args)
        case op:
            return apply(b, BY_NAME[op], step.source, tuple(args))


def _scaled(b: Builder, x: str, n: str) -> str:
    name, held, mask = f"llvm.x86.avx512.mask.scalef.ps.{32 * b.width}", b.type("float"), MASKS[b.width]
    ways = ["i32 4"] if b.width == 16 else []  # of rounding: the usual one
    b.module.declare(name, held, (held, held, held, mask, *(way.split()[0] for way in ways)))
    factors = [f"{held} {b.operand('float', each)}" for each in (x, n)]
    return b.let(f"call {held} @{name}({', '.join([*factors, f'{held} poison', f'{mask} -1', *ways])})")
