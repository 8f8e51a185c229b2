"""Stockham's algorithm for transforms of complex numbers along rows, as assignments whose lanes are rows.

A stage of radix r turns a transform of length r * l into r transforms of length l, where s = n / (r * l):

    y[p, j, q] = w ** (j * p) * (sum over k of x[p + l * k, q] * v ** (j * k))    for p in 0..l, q in 0..s, j in 0..r

with w and v the roots of unity of order r * l and r. After the last stage, the results are in order. Nodes have one
axis for each earlier stage in place of q, so that all indices of a stage are loops; the components of complex numbers
are adjacent along the axis of j.

Source: Stockham 1966; Van Loan 1992, section 1.7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import Assign, Call, Convert, Index, Number, Origin, Piece, Read, Value, call
from ocannl.ir.ops import ADD, MUL, NEG, SUB
from ocannl.ir.precision import Precision, float64
from ocannl.ir.tnode import TNode

Complex = tuple[Value, Value]


@dataclass(frozen=True, slots=True)
class TwiddleFactors:
    """A table of the powers of the root of unity of order `count`, for transforms in one direction."""

    node: TNode  # of two rows, the real and imaginary components
    count: int
    is_inverse: bool

    def code(self, origin: Origin) -> Assign:
        """Computes the table, in float64: the powers of a rounded root would be inaccurate."""
        power = Sym("power", 0, self.count - 1)
        step = 2 * math.pi / self.count * (1 if self.is_inverse else -1)
        angle = call("mul", Convert(Index(Affine.of(power)), float64), Number(step))
        pieces = [
            Piece((power,), (Affine.of(component), Affine.of(power)), Convert(call(name, angle), self.node.precision))
            for component, name in enumerate(("cos", "sin"))
        ]
        return Assign(self.node, None, False, tuple(pieces), origin)

    def power(self, exponent: Affine) -> Complex:
        return Read(self.node, (Affine(), exponent)), Read(self.node, (Affine.of(1), exponent))


@dataclass(frozen=True, slots=True)
class StockhamStages:
    """The stages of transforms of `length` numbers in each lane of a strip of rows.

    `node` creates a node with axes of some sizes before that of the lanes, and returns it with the index of the chunk
    of strips, which one thread executes.
    """

    length: int
    twiddles: TwiddleFactors
    lane: Sym
    node: Callable[[str, tuple[int, ...], Precision], tuple[TNode, tuple[Affine, ...]]]
    precision: Precision
    origin: Origin

    def code(self, source: Callable[[Affine], Complex]) -> tuple[list[Assign], Spectrum]:
        """Returns the stages and their result. `source` are the numbers to transform, by index."""
        stages: list[Assign] = []
        radices = radices_of(self.length)
        length, sums = self.length, 1  # of the remaining transforms, and their number
        earlier: tuple[int, ...] = ()  # radices, the last stage first
        read: Callable[[Affine, Sequence[Sym]], Complex] = lambda at, _: source(at)  # noqa: E731
        for number, radix in enumerate(radices):
            length //= radix
            outputs = Sym("j", 0, 2 * radix - 1)
            loop, digits = Sym("p", 0, length - 1), [Sym("q", 0, size - 1) for size in earlier]
            p = Affine.of(loop) if length > 1 else Affine()
            loops = (*([loop] if length > 1 else []), outputs, *digits, self.lane)
            results: list[Value] = []
            numbers = [read(p + k * length, digits) for k in range(radix)]
            for j, value in enumerate(butterfly(numbers, self.twiddles.is_inverse)):
                step = j * sums * (self.twiddles.count // self.length)
                results += multiply(value, self.twiddles.power(p * step)) if j and length > 1 else value
            if number == len(radices) - 1:
                merged = Affine.sum((math.prod(earlier[n + 1 :]), digit) for n, digit in enumerate(digits))
                target, chunk = self.node("spectrum", (2 * radix, sums), self.precision)
                indices = (*chunk, Affine.of(outputs), merged, Affine.of(self.lane))
            else:
                target, chunk = self.node(f"stage{number + 1}", (length, 2 * radix, *earlier), self.precision)
                indices = (*chunk, p, Affine.of(outputs), *map(Affine.of, digits), Affine.of(self.lane))
            stages.append(Assign(target, None, False, (Piece(loops, indices, cases(outputs, results)),), self.origin))
            read = _reader(target, chunk, self.lane)
            earlier, sums = (radix, *earlier), sums * radix
        return stages, Spectrum(target, chunk, self.lane, radices[-1], self.length // radices[-1])


def _reader(node: TNode, chunk: tuple[Affine, ...], lane: Sym) -> Callable[[Affine, Sequence[Sym]], Complex]:
    def read(at: Affine, digits: Sequence[Sym]) -> Complex:
        j, *others = map(Affine.of, digits)
        real, imaginary = (Read(node, (*chunk, at, j * 2 + c, *others, Affine.of(lane))) for c in (0, 1))
        return real, imaginary

    return read


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The results of the last stage; number `q + size * j` is in row `j` of `count`."""

    node: TNode
    chunk: tuple[Affine, ...]
    lane: Sym
    count: int
    size: int

    def at(self, j: Affine, q: Affine) -> Complex:
        real, imaginary = (Read(self.node, (*self.chunk, j * 2 + c, q, Affine.of(self.lane))) for c in (0, 1))
        return real, imaginary


def radices_of(length: int) -> list[int]:
    """The radices of the stages for a power of two: 4, after one stage of radix 2 if the power is odd."""
    exponent = length.bit_length() - 1
    return [2] * (exponent % 2) + [4] * (exponent // 2)


def butterfly(x: Sequence[Complex], is_inverse: bool) -> list[Complex]:
    """The transform of two or four numbers."""
    if len(x) == 2:
        return [add(x[0], x[1]), subtract(x[0], x[1])]
    even, odd, both = add(x[0], x[2]), add(x[1], x[3]), subtract(x[0], x[2])
    rotated = times_i(subtract(x[1], x[3]))
    first, third = (add, subtract) if is_inverse else (subtract, add)
    return [add(even, odd), first(both, rotated), subtract(even, odd), third(both, rotated)]


def cases(sym: Sym, values: Sequence[Value]) -> Value:
    """The value whose position is that of the symbol."""
    *rest, value = values
    for number in reversed(range(len(rest))):
        value = call("where", call("eq", Index(Affine.of(sym)), Number(number)), rest[number], value)
    return value


def add(z: Complex, w: Complex) -> Complex:
    return Call(ADD, (z[0], w[0])), Call(ADD, (z[1], w[1]))


def subtract(z: Complex, w: Complex) -> Complex:
    return Call(SUB, (z[0], w[0])), Call(SUB, (z[1], w[1]))


def multiply(z: Complex, w: Complex) -> Complex:
    (a, b), (c, d) = z, w
    return (
        Call(SUB, (Call(MUL, (a, c)), Call(MUL, (b, d)))),
        Call(ADD, (Call(MUL, (a, d)), Call(MUL, (b, c)))),
    )


def times_i(z: Complex) -> Complex:
    return Call(NEG, (z[1],)), z[0]


def conjugate(z: Complex) -> Complex:
    return z[0], Call(NEG, (z[1],))
