"""Emits formulas step by step."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.codegen.formula_ir import RELATIONS, Formula, Operand, Step, expand_scale
from ocannl.ir.ops import BY_NAME
from ocannl_backend_llvm.arithmetic import apply, compare
from ocannl_backend_llvm.builder import Builder
from ocannl_backend_llvm.convert import convert
from ocannl_backend_llvm.types import LLVM_TYPES, constant

SCALE_MASK_TYPES = {
    ("float", 16): "i16", ("float", 8): "i8", ("float", 4): "i8", ("double", 8): "i8", ("double", 4): "i8",
    ("double", 2): "i8",
}  # fmt: skip
"""Mask types of the `scalef` instruction, by type and vector width."""
SCALE_SUFFIXES = {"float": ("ps", 32), "double": ("pd", 64)}


def emit_formula(b: Builder, formula: Formula, args: Sequence[str]) -> dict[Operand, str]:
    """Emits all steps and returns their values; truth values are i1."""
    values: dict[Operand, str] = dict(zip(formula.params, args, strict=True))
    scales = b.module.instructions.scale and (LLVM_TYPES[formula.precision], b.width) in SCALE_MASK_TYPES
    for step in (formula if scales else expand_scale(formula)).steps:
        condition = values[step.args[0]] if step.op == "where" else ""
        operands = [values[a] if isinstance(a, str) else constant(a, step.source) for a in step.args[bool(condition) :]]
        values[step.name] = (
            b.select(condition, LLVM_TYPES[step.source], *operands) if condition else _emit_step(b, step, operands)
        )
    return values


def _emit_step(b: Builder, step: Step, args: list[str]) -> str:
    match step.op:
        case "bits":
            source, target = LLVM_TYPES[step.source], LLVM_TYPES[step.precision]
            return args[0] if source == target else b.cast("bitcast", args[0], source, target)
        case "cast":
            return convert(b, args[0], step.source, step.precision)
        case "scale":
            return _emit_scale(b, LLVM_TYPES[step.source], *args)
        case relation if relation in RELATIONS:
            return compare(b, relation, step.source, *args)
        case op:
            return apply(b, BY_NAME[op], step.source, tuple(args))


def _emit_scale(b: Builder, element: str, x: str, n: str) -> str:
    suffix, bits = SCALE_SUFFIXES[element]
    name, type_ = f"llvm.x86.avx512.mask.scalef.{suffix}.{bits * b.width}", b.type(element)
    mask = SCALE_MASK_TYPES[element, b.width]
    rounding_mode = ["i32 4"] if bits * b.width == 512 else []  # current rounding direction
    b.module.declare(name, type_, (type_, type_, type_, mask, *(operand.split()[0] for operand in rounding_mode)))
    factors = [f"{type_} {b.operand(element, operand)}" for operand in (x, n)]
    return b.assign(f"call {type_} @{name}({', '.join([*factors, f'{type_} poison', f'{mask} -1', *rounding_mode])})")
