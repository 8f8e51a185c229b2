"""Vector types (GCC and Clang vector extensions) and the vector functions that generated code calls.

    typedef float f32x16 __attribute__((vector_size(64), aligned(4)));
    LANES(f32x16, y[64 * i]) += x * all_f32x16(2.0f);

C operators are elementwise on vectors. A comparison returns a *mask*: an integer of the same size per lane, with all
bits set where it holds. Other functions are applied to vectors by a loop over the lanes, which compilers recognize as a
vector instruction, where there is one; `Dialect.lane_loop` is what they need for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from ocannl.codegen.c_family import builtins, formulas
from ocannl.codegen.c_family.builtins import SelectChain, inline, select_chain_of
from ocannl.codegen.c_family.builtins import names as scalar_names
from ocannl.codegen.c_family.dialect import Definition, Dialect
from ocannl.codegen.formula_ir import Formula
from ocannl.codegen.numbers import is_narrow
from ocannl.ir.ops import Op
from ocannl.ir.precision import PRECISIONS, Family, Precision, int8, int16, int32, int64, uint8, uint16, uint32
from ocannl.ir.printer import short_name

WIDTHS = (16, 8, 4, 2)
"""Supported numbers of lanes; wider loops use several vectors."""
MASKS = {precision.nbytes: precision for precision in (int8, int16, int32, int64)}
"""Types of the elements of masks, by size in bytes."""
REDUCIBLE = ("add", "mul", "max", "min")
"""Operations of horizontal reductions."""
OPERATORS = {"add": "+", "mul": "*"}
HAND_VECTORIZED = {
    "bfloat16_to_f32": "return (f32xN)(CONVERT(x, u32xN) << 16);",
    "f32_to_bfloat16": """\
u32xN bits = (u32xN)x, near = bits + 0x7FFFu + (bits >> 16 & 1u), nan = (u32xN)(x != x);
return CONVERT(((nan & (bits | 0x400000u)) | (~nan & near)) >> 16, u16xN);""",
}
"""Vector bodies of functions for which compilers generate slow code from a loop over lanes."""
HELPER_STEMS = ("all", "pick", "take", "put", "stream", *(f"{op}_lanes" for op in REDUCIBLE))


def storage_precision(precision: Precision) -> Precision:
    """The precision in which values are stored: unsigned integers for narrow floats and bool."""
    if is_narrow(precision) or precision.family is Family.BOOL:
        return uint16 if precision.nbytes == 2 else uint8
    return precision


def names() -> Iterator[str]:
    """All names of definitions of this module."""
    yield "LANES"
    yield from formulas.names()
    types = {short_name(precision) for precision in PRECISIONS}
    for width in WIDTHS:
        yield from (f"{type_}x{width}" for type_ in types)
        yield from (f"{stem}_{type_}x{width}" for stem in HELPER_STEMS for type_ in types)
        yield from (f"{name}_x{width}" for name in ("scale_f32", "scale_f64", *scalar_names()))


def split_width(width: int) -> Iterator[int]:
    """Splits `width` lanes into supported vector widths, greedily; 1 stands for a scalar."""
    for vector_width in (*WIDTHS, 1):
        while width >= vector_width:
            yield vector_width
            width -= vector_width


@cache
def vector(d: Dialect, precision: Precision, width: int) -> Definition:
    """The vector type for values of a precision, as they are stored."""
    storage = storage_precision(precision)
    name, nbytes = f"{short_name(storage)}x{width}", storage.nbytes
    return Definition(name, d.vector.format(type=d.types[storage], name=name, bytes=nbytes * width, align=nbytes))


@cache
def mask(d: Dialect, nbytes: int, width: int) -> Definition:
    """The mask type for elements of `nbytes` bytes."""
    return vector(d, MASKS[nbytes], width)


LANES = Definition("LANES", "#define LANES(type, cell) (*(type *)&(cell))")
"""The vector in memory whose first lane is `cell`, as an lvalue."""


def _function(
    d: Dialect, name: str, result: Definition, params: str, body: str, dependencies: tuple[Definition, ...] = ()
) -> Definition:
    """Defines a vector function; VECTOR in `params` and `body` stands for the result type."""
    declarations = tuple(params.replace("VECTOR", result.name).split(", "))
    return inline(
        d,
        name,
        result.name,
        declarations,
        body.replace("VECTOR", result.name),
        (result, *dependencies),
        d.always_inline,
    )


@cache
def splat(d: Dialect, precision: Precision, width: int) -> Definition:
    """Broadcasts a scalar to all lanes."""
    result = vector(d, precision, width)
    params = f"{d.types[storage_precision(precision)]} x"
    return _function(d, f"all_{result.name}", result, params, f"return (VECTOR){{ {', '.join('x' * width)} }};")


@cache
def blend(d: Dialect, precision: Precision, width: int) -> Definition:
    """Selects lanes of `x` where the mask holds, else of `y`."""
    result, test = vector(d, precision, width), mask(d, precision.nbytes, width)
    body = f"return (VECTOR)((test & ({test.name})x) | (~test & ({test.name})y));"
    return _function(d, f"pick_{result.name}", result, f"{test.name} test, VECTOR x, VECTOR y", body, (test,))


@cache
def strided_load(d: Dialect, precision: Precision, width: int) -> Definition:
    """Loads cells `step` elements apart into a vector."""
    result, type_ = vector(d, precision, width), d.types[storage_precision(precision)]
    body = f"VECTOR out;\n{_lane_loop(d, width)} out[n] = x[n * step];\nreturn out;"
    return _function(d, f"take_{result.name}", result, f"const {type_} *x, {d.index} step", body)


@cache
def strided_store(d: Dialect, precision: Precision, width: int) -> Definition:
    """Stores a vector to cells `step` elements apart."""
    vector_type, type_ = vector(d, precision, width), d.types[storage_precision(precision)]
    params = (f"{type_} *y", f"{d.index} step", f"{vector_type.name} x")
    return inline(
        d,
        f"put_{vector_type.name}",
        "void",
        params,
        f"{_lane_loop(d, width)} y[n * step] = x[n];",
        (vector_type,),
        d.always_inline,
    )


@cache
def nontemporal_store(d: Dialect, precision: Precision, width: int) -> Definition | None:
    """Stores a vector to an aligned address, bypassing the caches; None if the dialect has no such store."""
    vector_type, storage = vector(d, precision, width), storage_precision(precision)
    body = d.nontemporal_stores.get(width * storage.nbytes)
    params = (f"{d.types[storage]} *y", f"{vector_type.name} x")
    return (
        inline(d, f"stream_{vector_type.name}", "void", params, body, (vector_type,), d.always_inline) if body else None
    )


@cache
def lanewise(
    d: Dialect, function: Definition, arity: int, source: Precision, target: Precision, width: int
) -> Definition:
    """Applies a scalar function to all lanes."""
    result, source_vector = vector(d, target, width), vector(d, source, width)
    operands = "xyz"[:arity] if arity <= 3 else [f"x{n}" for n in range(arity)]
    params = ", ".join(f"{source_vector.name} {x}" for x in operands)
    numbers = ", ".join(f"{x}[n]" for x in operands)
    body = f"VECTOR out;\n{_lane_loop(d, width)} out[n] = {function.name}({numbers});\nreturn out;"
    dependencies: tuple[Definition, ...] = (source_vector, function)
    if function.name in HAND_VECTORIZED:
        template = HAND_VECTORIZED[function.name].replace("xN", f"x{width}")
        body = re.sub(r"CONVERT\((.*), (\w+)\)", lambda m: d.convert.format(value=m[1], type=m[2]), template)
        dependencies = (source_vector, vector(d, uint32, width))
    return _function(d, f"{function.name}_x{width}", result, params, body, dependencies)


@cache
def with_slow_lanes(d: Dialect, formula: Formula, width: int) -> Definition:
    """Evaluates a formula in all lanes; if any lane needs the slow path, computes all lanes serially."""
    result, full = vector(d, formula.precision, width), formulas.function(d, formula)
    fast, slow_test = formulas.fast_path(d, formula), formulas.needs_slow_path(d, formula)
    numbers = ", ".join(f"{x}[n]" for x in formula.params)
    loop = _lane_loop(d, width)
    body = f"""\
VECTOR out;
int far = 0;
{loop} out[n] = {fast.name}({numbers});
{loop} far |= {slow_test.name}({numbers});
if (far)
  {loop.splitlines()[-1]} out[n] = {full.name}({numbers});
return out;"""
    params = ", ".join(f"VECTOR {x}" for x in formula.params)
    return _function(d, f"{full.name}_x{width}", result, params, body, (fast, slow_test, full))


def _lane_loop(d: Dialect, width: int) -> str:
    return f"{d.lane_loop}\nfor (int n = 0; n < {width}; n++)"


@cache
def select_chain(d: Dialect, name: str, chain: SelectChain, precision: Precision, width: int) -> Definition:
    """A select chain as blends."""
    result = vector(d, precision, width)
    blend_function, splat_function = blend(d, precision, width), splat(d, precision, width)

    def broadcast_constants(text: str) -> str:
        return re.sub(r"\b[01]\b", rf"{splat_function.name}(\g<0>)", text)

    text = broadcast_constants(chain.default)
    for test, value in reversed(chain.cases):
        text = f"{blend_function.name}({broadcast_constants(test)}, {broadcast_constants(value)}, {text})"
    params = ", ".join(f"VECTOR {x}" for x in chain.params.split())
    function_name = f"{name}_{short_name(precision)}_x{width}"
    return _function(d, function_name, result, params, f"return {text};", (blend_function, splat_function))


def operation(d: Dialect, name: str, precision: Precision, arity: int, width: int) -> Definition:
    """The function of an operation that is no C operator; a scalar function if `width` is 1."""
    chain, scalar = select_chain_of(name, precision), builtins.operation(d, name, precision)
    assert scalar is not None
    if width == 1:
        return scalar
    if chain is not None:
        return select_chain(d, name, chain, precision, width)
    return lanewise(d, scalar, arity, precision, precision, width)


@cache
def horizontal_reduction(d: Dialect, op: Op, precision: Precision, width: int) -> Definition:
    """Reduces the lanes of a vector pairwise, combining its halves recursively."""
    vector_type, half = vector(d, precision, width), width // 2
    dependencies = [vector_type]

    def combine(x: str, y: str) -> str:
        if op.name in OPERATORS:
            return f"{x} {OPERATORS[op.name]} {y}"
        dependencies.append(operation(d, op.name, precision, 2, half))
        return f"{dependencies[-1].name}({x}, {y})"

    if half == 1:
        body = f"return {combine('x[0]', 'x[1]')};"
    else:
        half_vector, half_reduction = vector(d, precision, half), horizontal_reduction(d, op, precision, half)
        dependencies += [half_vector, half_reduction]
        declaration = f"union {{ {vector_type.name} whole; {half_vector.name} half[2]; }} held = {{ x }};"
        body = f"{declaration}\nreturn {half_reduction.name}({combine('held.half[0]', 'held.half[1]')});"
    name, type_ = f"{op.name}_lanes_{vector_type.name}", d.types[storage_precision(precision)]
    return inline(d, name, type_, (f"{vector_type.name} x",), body, tuple(dependencies), d.always_inline)
