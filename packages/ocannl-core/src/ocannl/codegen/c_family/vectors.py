"""Vectors as GCC and Clang know them in C, and the functions of vectors that generated code calls, as text.

    typedef float f32x16 __attribute__((vector_size(64), aligned(4)));
    LANES(f32x16, y[64 * i]) += x * all_f32x16(2.0f);

Operators work lane by lane as they stand. A comparison gives a *mask*: for each lane an integer of as many bytes, of
ones where it holds. Any other function of numbers becomes one of vectors by a loop that is to stay one: compilers make
it the instruction that does the same to all lanes, where there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from ocannl.codegen.c_family import builtins, formulas
from ocannl.codegen.c_family.builtins import Choice, choice, inline
from ocannl.codegen.c_family.builtins import names as scalar_names
from ocannl.codegen.c_family.dialect import Dialect, Function
from ocannl.codegen.formula import Formula
from ocannl.codegen.numbers import is_narrow
from ocannl.ir.ops import Op
from ocannl.ir.precision import PRECISIONS, Family, Precision, float32, int32, int64, uint8, uint16, uint32
from ocannl.ir.text import short

WIDTHS = (16, 8, 4, 2)
"""Lanes that a vector can have; of more there are several vectors."""
MASKS = {1: ("i8", "signed char"), 2: ("i16", "short")}
"""By bytes, integers that masks are made of where values are not."""
FOLDED = ("add", "mul", "max", "min")
"""Operations by which vectors are folded half onto half."""
OPERATORS = {"add": "+", "mul": "*"}
EXPLICIT = {
    "bfloat16_to_f32": "return (f32xN)(CONVERT(x, u32xN) << 16);",
    "f32_to_bfloat16": """\
u32xN bits = (u32xN)x, near = bits + 0x7FFFu + (bits >> 16 & 1u), nan = (u32xN)(x != x);
return CONVERT(((nan & (bits | 0x400000u)) | (~nan & near)) >> 16, u16xN);""",
}
"""Functions of which compilers make something slow where they are in loops over lanes, as they are of vectors."""
STEMS = ("all", "pick", "take", "put", "stream", *(f"{op}_lanes" for op in FOLDED))


def holder(precision: Precision) -> Precision:
    """Numbers or bits that a value of the type is held as."""
    if is_narrow(precision) or precision.family is Family.BOOL:
        return uint16 if precision.nbytes == 2 else uint8
    return precision


def names() -> Iterator[str]:
    """All that a type or a function of this module may be called."""
    yield "LANES"
    yield from formulas.names()
    types = {*(short(precision) for precision in PRECISIONS), *(name for name, _ in MASKS.values())}
    for width in WIDTHS:
        yield from (f"{type_}x{width}" for type_ in types)
        yield from (f"{stem}_{type_}x{width}" for stem in STEMS for type_ in types)
        yield from (f"{name}_x{width}" for name in ("scale_f32", *scalar_names()))


def parts(width: int) -> Iterator[int]:
    """Widths of vectors, and of what is left a single number, that make up so many lanes."""
    for part in (*WIDTHS, 1):
        while width >= part:
            yield part
            width -= part


@cache
def vector(d: Dialect, precision: Precision, width: int) -> Function:
    """The type of vectors of what holds values of a precision."""
    held = holder(precision)
    return _type(d, f"{short(held)}x{width}", d.types[held], held.nbytes, width)


@cache
def mask(d: Dialect, nbytes: int, width: int) -> Function:
    """The type of masks of numbers of so many bytes."""
    for same in (int32, int64):
        if same.nbytes == nbytes:
            return vector(d, same, width)
    stem, type_ = MASKS[nbytes]
    return _type(d, f"{stem}x{width}", type_, nbytes, width)


def _type(d: Dialect, name: str, element: str, nbytes: int, width: int) -> Function:
    return Function(name, d.vector.format(type=element, name=name, bytes=nbytes * width, align=nbytes))


LANES = Function("LANES", "#define LANES(type, cell) (*(type *)&(cell))")
"""A vector in memory, at the cell of its first lane."""


def _function(
    d: Dialect, name: str, result: Function, params: str, body: str, needs: tuple[Function, ...] = ()
) -> Function:
    """`params` has VECTOR for the type of the result."""
    given = tuple(params.replace("VECTOR", result.name).split(", "))
    return inline(d, name, result.name, given, body.replace("VECTOR", result.name), (result, *needs), d.inlined)


@cache
def splat(d: Dialect, precision: Precision, width: int) -> Function:
    """A number in every lane."""
    result = vector(d, precision, width)
    params = f"{d.types[holder(precision)]} x"
    return _function(d, f"all_{result.name}", result, params, f"return (VECTOR){{ {', '.join('x' * width)} }};")


@cache
def pick(d: Dialect, precision: Precision, width: int) -> Function:
    """One vector where a mask holds, and the other elsewhere."""
    result, test = vector(d, precision, width), mask(d, precision.nbytes, width)
    body = f"return (VECTOR)((test & ({test.name})x) | (~test & ({test.name})y));"
    return _function(d, f"pick_{result.name}", result, f"{test.name} test, VECTOR x, VECTOR y", body, (test,))


@cache
def take(d: Dialect, precision: Precision, width: int) -> Function:
    """Cells that lie so many steps apart, as a vector."""
    result, type_ = vector(d, precision, width), d.types[holder(precision)]
    body = f"VECTOR out;\n{_each(d, width)} out[n] = x[n * step];\nreturn out;"
    return _function(d, f"take_{result.name}", result, f"const {type_} *x, {d.index} step", body)


@cache
def put(d: Dialect, precision: Precision, width: int) -> Function:
    """A vector into cells that lie so many steps apart."""
    given, type_ = vector(d, precision, width), d.types[holder(precision)]
    params = (f"{type_} *y", f"{d.index} step", f"{given.name} x")
    return inline(d, f"put_{given.name}", "void", params, f"{_each(d, width)} y[n * step] = x[n];", (given,), d.inlined)


@cache
def stream(d: Dialect, precision: Precision, width: int) -> Function | None:
    """A vector past the caches, to a multiple of its size; None where there is no way."""
    given, held = vector(d, precision, width), holder(precision)
    body = d.streams.get(width * held.nbytes)
    params = (f"{d.types[held]} *y", f"{given.name} x")
    return inline(d, f"stream_{given.name}", "void", params, body, (given,), d.inlined) if body else None


@cache
def lanewise(
    d: Dialect, function: Function, arity: int, source: Precision, target: Precision, width: int
) -> Function:
    """A function of numbers as one of vectors."""
    result, given = vector(d, target, width), vector(d, source, width)
    operands = "xyz"[:arity] if arity <= 3 else [f"x{n}" for n in range(arity)]
    params = ", ".join(f"{given.name} {x}" for x in operands)
    numbers = ", ".join(f"{x}[n]" for x in operands)
    body = f"VECTOR out;\n{_each(d, width)} out[n] = {function.name}({numbers});\nreturn out;"
    needs: tuple[Function, ...] = (given, function)
    if function.name in EXPLICIT:
        words = EXPLICIT[function.name].replace("xN", f"x{width}")
        body = re.sub(r"CONVERT\((.*), (\w+)\)", lambda m: d.convert.format(value=m[1], type=m[2]), words)
        needs = (given, vector(d, uint32, width))
    return _function(d, f"{function.name}_x{width}", result, params, body, needs)


@cache
def seldom(d: Dialect, formula: Formula, width: int) -> Function:
    """A formula, and one lane after the other where one of them needs the library."""
    result, whole = vector(d, float32, width), formulas.function(d, formula)
    near, beyond = formulas.near(d, formula), formulas.beyond(d, formula)
    numbers = ", ".join(f"{x}[n]" for x in formula.params)
    each = _each(d, width)
    body = f"""\
VECTOR out;
int far = 0;
{each} out[n] = {near.name}({numbers});
{each} far |= {beyond.name}({numbers});
if (far)
  {each.splitlines()[-1]} out[n] = {whole.name}({numbers});
return out;"""
    params = ", ".join(f"VECTOR {x}" for x in formula.params)
    return _function(d, f"{whole.name}_x{width}", result, params, body, (near, beyond, whole))


def _each(d: Dialect, width: int) -> str:
    return f"{d.rolled}\nfor (int n = 0; n < {width}; n++)"


@cache
def choosing(d: Dialect, name: str, choice: Choice, precision: Precision, width: int) -> Function:
    """A choice, in each lane."""
    result, picked, every = vector(d, precision, width), pick(d, precision, width), splat(d, precision, width)

    def wide(text: str) -> str:
        return re.sub(r"\b[01]\b", rf"{every.name}(\g<0>)", text)

    text = wide(choice.last)
    for test, value in reversed(choice.cases):
        text = f"{picked.name}({wide(test)}, {wide(value)}, {text})"
    params = ", ".join(f"VECTOR {x}" for x in choice.params.split())
    called = f"{name}_{short(precision)}_x{width}"
    return _function(d, called, result, params, f"return {text};", (picked, every))


def operation(d: Dialect, name: str, precision: Precision, arity: int, width: int) -> Function:
    """An operation that is no operator, of vectors, or of numbers where the width is 1."""
    found, number = choice(name, precision), builtins.operation(d, name, precision)
    assert number is not None
    if width == 1:
        return number
    if found is not None:
        return choosing(d, name, found, precision, width)
    return lanewise(d, number, arity, precision, precision, width)


@cache
def fold(d: Dialect, op: Op, precision: Precision, width: int) -> Function:
    """All lanes of a vector combined, half with half."""
    given, half = vector(d, precision, width), width // 2
    needs = [given]

    def combined(x: str, y: str) -> str:
        if op.name in OPERATORS:
            return f"{x} {OPERATORS[op.name]} {y}"
        needs.append(operation(d, op.name, precision, 2, half))
        return f"{needs[-1].name}({x}, {y})"

    if half == 1:
        body = f"return {combined('x[0]', 'x[1]')};"
    else:
        part, rest = vector(d, precision, half), fold(d, op, precision, half)
        needs += [part, rest]
        held = f"union {{ {given.name} whole; {part.name} half[2]; }} held = {{ x }};"
        body = f"{held}\nreturn {rest.name}({combined('held.half[0]', 'held.half[1]')});"
    name, type_ = f"{op.name}_lanes_{given.name}", d.types[holder(precision)]
    return inline(d, name, type_, (f"{given.name} x",), body, tuple(needs), d.inlined)
