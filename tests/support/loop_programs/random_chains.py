"""Random programs of many small statements on a few arrays of equal size, for tests of loop fusion.

Numbers are integers, so that everything is exact in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from ocannl.ir.affine import TRUE, Affine, Cond, Sym
from ocannl.ir.assign import Assign, Call, Comp, Index, Number, Origin, Piece, Read, Seq, Value
from ocannl.ir.ops import ADD, BY_NAME, MAX, MIN, MUL, Op
from ocannl.ir.precision import int32
from ocannl.ir.tnode import Role, TNode

Array = np.ndarray[Any, Any]
SHAPES = ((), (1,), (3,), (4,), (9,), (3, 4), (4, 4), (4, 3), (2, 9), (1, 5))
ROLES = (Role.RESULT, Role.RESULT, Role.RESULT, Role.PARAMETER, Role.GRADIENT)
OPS = ("add", "sub", "mul", "max", "min", "neg", "id", "lt")


@dataclass(frozen=True)
class Chain:
    code: Comp
    arrays: dict[TNode, Array]
    requested: dict[TNode, str]


def chain(random: Random, statements: int = 12, shapes: Sequence[tuple[int, ...]] = SHAPES) -> Chain:
    return _Maker(random, random.choice(shapes)).generate(statements)


class _Maker:
    def __init__(self, random: Random, dims: tuple[int, ...]) -> None:
        self.random = random
        self.dims = dims
        self.arrays: dict[TNode, Array] = {}
        for _ in range(random.randint(3, 6)):
            self.node(self.dims, random.choice(ROLES))
        self.count = 0

    def generate(self, statements: int) -> Chain:
        kinds: list[Callable[[], Assign]] = [self.cells] * 6 + [self.total] * 2 + [self.turned, self.guarded, self.part]
        kinds += [self.down, self.up] * 2 if self.dims else []
        code = [self.random.choice(kinds)() for _ in range(statements)]
        requested = {node: "a test" for node in self.arrays if self.random.random() < 0.2}
        return Chain(Seq(tuple(code)), self.arrays, requested)

    def node(self, dims: tuple[int, ...], role: Role) -> TNode:
        array_node = TNode(f"x{len(self.arrays)}", role, lambda: dims, lambda: int32)
        self.arrays[array_node] = np.array([self.random.randint(-3, 3) for _ in range(int(np.prod(dims)))], np.int32)
        self.arrays[array_node] = self.arrays[array_node].reshape(dims)
        return array_node

    def syms(self, dims: tuple[int, ...]) -> list[Sym]:
        self.count += len(dims)
        return [Sym(f"i{self.count + n}", 0, size - 1) for n, size in enumerate(dims)]

    def known(self) -> TNode:
        """A node, most likely a recent one."""
        nodes = [node for node in self.arrays if node.dims == self.dims and node.role is not Role.DATA]
        return self.random.choice(nodes[-4:] if self.random.random() < 0.7 else nodes)

    def value(self, at: list[Sym] | list[Affine], depth: int) -> Value:
        r = self.random
        if depth == 0 or r.random() < 0.2:
            if r.random() < 0.1:
                return Index(Affine.of(at[0])) if at and r.random() < 0.5 else Number(r.randint(0, 3))
            return Read(self.known(), tuple(map(Affine.of, at)))
        op = BY_NAME[r.choice(OPS)]
        args = [self.value(at, depth - 1) for _ in range(op.arity)]
        if all(isinstance(arg, Number) for arg in args):  # which are floats among themselves, and round integers
            args[0] = Read(next(iter(self.arrays)), tuple(map(Affine.of, at)))
        return Call(op, tuple(args))

    def accum(self) -> Op | None:
        return self.random.choice((None, None, None, ADD, ADD, MAX))

    def write(self, at: list[Sym] | list[Affine], loops: list[Sym], value: Value, op: Op | None, when: Cond) -> Assign:
        fresh = when.is_true and self.random.random() < 0.4
        lhs = self.node(self.dims, Role.RESULT) if fresh else self.known()
        clear = when.is_true and (op is None or self.random.random() < 0.5)
        indices = tuple(map(Affine.of, at))
        return Assign(lhs, op, clear, (Piece(tuple(loops), indices, value, when),), Origin(lhs.label))

    def cells(self) -> Assign:
        syms = self.syms(self.dims)
        return self.write(syms, syms, self.value(syms, self.random.choice((0, 1, 1, 2))), self.accum(), TRUE)

    def total(self) -> Assign:
        """The sum of something larger, or of what is at hand."""
        r, syms = self.random, self.syms(self.dims)
        (over,) = self.syms((r.choice((1, 2, 3, 9)),))
        wide = self.node((*self.dims, over.extent), Role.DATA)
        term: Value = Read(wide, tuple(map(Affine.of, (*syms, over))))
        if r.random() < 0.5:
            term = Call(MUL, (term, self.value(syms, 1)))
        op = r.choice((ADD, ADD, ADD, MAX, MIN, MUL))
        return self.write(syms, [*syms, over], term, op, TRUE)

    def row(self, fresh: bool) -> TNode:
        """An array without the last axis."""
        dims = self.dims[:-1]
        nodes = [node for node in self.arrays if node.dims == dims and node.role is not Role.DATA]
        return self.random.choice(nodes) if nodes and not fresh else self.node(dims, self.random.choice(ROLES))

    def down(self) -> Assign:
        """The total of each row."""
        r, syms = self.random, self.syms(self.dims)
        lhs, op = self.row(r.random() < 0.6), r.choice((ADD, ADD, MAX, MIN))
        piece = Piece(tuple(syms), tuple(map(Affine.of, syms[:-1])), self.value(syms, r.choice((0, 1))), TRUE)
        return Assign(lhs, op, r.random() < 0.8, (piece,), Origin(lhs.label))

    def up(self) -> Assign:
        """The value of a row, broadcast to its cells."""
        syms = self.syms(self.dims)
        operand = Read(self.row(False), tuple(map(Affine.of, syms[:-1])))
        op = BY_NAME[self.random.choice(("add", "sub", "mul", "max"))]
        return self.write(syms, syms, Call(op, (self.value(syms, 1), operand)), None, TRUE)

    def turned(self) -> Assign:
        """Transposed or reversed cells."""
        syms = self.syms(self.dims)
        at = [Affine.of(s) for s in syms]
        if len(set(self.dims)) == 1 and len(at) > 1 and self.random.random() < 0.5:
            at.reverse()
        else:
            at = [Affine.of(s.hi) - s if self.random.random() < 0.5 else Affine.of(s) for s in syms]
        if self.random.random() < 0.5:
            return self.write(at, syms, self.value(syms, 1), self.accum(), TRUE)
        return self.write(syms, syms, self.value(at, 1), self.accum(), TRUE)

    def guarded(self) -> Assign:
        syms = self.syms(self.dims)
        when = Cond((Affine.of(syms[0]) - 1,)) if syms else TRUE
        return self.write(syms, syms, self.value(syms, 1), self.accum(), when)

    def part(self) -> Assign:
        """A condition on cells."""
        syms = self.syms(tuple([max(min(size, 1), size - 1) for size in self.dims]))
        assign = self.write(syms, syms, self.value(syms, 1), self.accum(), TRUE)
        return Assign(assign.lhs, assign.accum, False, assign.pieces, assign.origin)
