"""Random small programs, with inputs on which every correct execution agrees within a known tolerance.

The generator bounds each value: its range, the power of two that it is a multiple of, and the maximum difference of two
correct computations. Only exact values are compared, truncated or used as indices, so a difference that exceeds
`Program.tolerance` is a defect.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite, prod
from random import Random
from typing import Any

import numpy as np

from ocannl.ir.affine import TRUE, Affine, Cond, Sym, SymKind, bounds_condition
from ocannl.ir.assign import Assign, Comp, IndirectIndex, LabeledBlock, Origin, Piece, Read, Seq
from ocannl.ir.ops import BY_NAME, Op
from ocannl.ir.precision import (
    PRECISIONS,
    Family,
    Precision,
    bfloat16,
    bool_,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint8,
    uint32,
)
from ocannl.ir.tnode import Role, TNode
from ocannl.testing.error_bounds import (
    BoundedValue,
    Info,
    can_meet,
    converted,
    error_of,
    is_integer,
    limits,
    limits_below,
    settled,
    step_of,
)
from ocannl.testing.evaluate import evaluate
from ocannl.testing.random_values import Values

Array = np.ndarray[Any, Any]

LABELS = ("w", "x", "y", "b", "h", "w.grad", "two words", "3rd", "for", "")
LOOPS = ("i", "j", "k", "b", "oh", "wh")
COMMON = (*(float32,) * 9, float64, float64, float16, bfloat16, float8_e5m2, float8_e4m3fn, int32, int32, int64, uint8,
          uint32, bool_)  # fmt: skip
ACCUMULATORS = (*("add",) * 6, "sub", "sub", "mul", "max", "max", "min", "and", "or", "div", "pow", "mod", "relu_gate",
                "sat01_gate", "fst", "snd")  # fmt: skip


# ways to index the left side
WRITTEN = ("back", "const", "strided", "digits", "sum", "same", "static", "over", "picked", "picked", "picked")


@dataclass(frozen=True)
class Program:
    """A computation with its inputs; `tolerance` bounds the absolute difference of results, by node."""

    code: Comp
    arrays: dict[TNode, Array]
    merged: dict[TNode, Array]
    symbols: dict[Sym, int]
    tolerance: dict[TNode, float]




def difference(expected: dict[TNode, Array], got: dict[TNode, Array], tolerance: dict[TNode, float]) -> str:
    """Describes the first difference beyond the tolerance; empty if there is none."""
    for node, array in got.items():
        want, have = expected[node].astype(np.float64), array.astype(np.float64)
        off = np.asarray(~(np.isnan(want) & np.isnan(have)) & (want != have))
        with np.errstate(invalid="ignore"):
            off &= ~(np.abs(want - have) <= tolerance[node])
        if off.any():
            at = tuple(int(n) for n in np.argwhere(off)[0])
            return f"{node.label}{list(at)} is {have[at]}, and should be {want[at]} (within {tolerance[node]:.2g})"
    return ""


def generate(random: Random, statements: int = 3) -> Program:
    """A program of at most `statements` statements."""
    return _Maker(random).program(random.randint(1, statements))


class _Maker:
    """Generates statements; tracks the values of nodes and their bounds."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.arrays: dict[TNode, Array] = {}
        self.merged: dict[TNode, Array] = {}
        self.state: dict[TNode, Array] = {}
        self.info: dict[TNode, Info] = {}  # of the nodes that may be read
        self.tolerance: dict[TNode, float] = {}
        self.statics: dict[Sym, int] = {}
        self.values = Values(random, self.read, self.index, COMMON)
        self.old_loops: list[Sym] = []
        # of the current piece
        self.lhs: TNode
        self.at: tuple[Affine, ...] = ()
        self.loops: list[Sym] = []
        self.picked: list[Sym] = []
        for n in range(random.choice((0, 0, 1, 2))):
            low = random.randint(0, 1)
            sym = Sym(f"n{n}", low, low + random.randint(0, 2), SymKind.STATIC)
            self.statics[sym] = random.randint(sym.lo, sym.hi)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # --- programs ---

    def program(self, statements: int) -> Program:
        code: list[Comp] = []
        for n in range(statements):
            statement = self.statement(n)
            if self.chance(0.2):
                code = [LabeledBlock(f"so far {n}", Seq(tuple(code))), statement]
            else:
                code.append(statement)
        return Program(Seq(tuple(code)), self.arrays, self.merged, self.statics, self.tolerance)

    def statement(self, n: int) -> Assign:
        for _ in range(50):
            assign = self.attempt(n)
            if assign is not None:
                return assign
        raise AssertionError("no statement could be made")

    def attempt(self, n: int) -> Assign | None:
        choose = self.random.choice
        readable = [x for x in self.info if self.info[x].error <= 0.001 * max(1.0, self.info[x].size)]
        lhs = choose(readable) if readable and self.chance(0.35) else self.node(self.dims())
        op = BY_NAME[choose(ACCUMULATORS)] if self.chance(0.75) else None
        clear = self.chance(0.6) and (op is None or op.neutral is not None)
        if lhs.role is Role.DATA:
            return None
        old = self.info[lhs]
        if not clear and op is not None and not can_meet(op, old):
            return None
        pieces: list[Piece] = []
        infos: list[tuple[Info, int]] = []
        for part in self.parts(lhs.dims):
            new_piece = self.piece(lhs, op, part)
            if new_piece is None:
                return None
            pieces.append(new_piece[0])
            infos.append((new_piece[1], prod(s.extent for s in new_piece[0].loops)))
        assign = Assign(lhs, op, clear, tuple(pieces), Origin(lhs.label, f"made.py:{n + 1}"))
        start = old if not clear else Info(0, 0, 0, 0, lhs.precision)
        if clear and op is not None and op.neutral is not None:
            if isfinite(op.neutral):
                start = replace(start, low=op.neutral, high=op.neutral, grain=1 if op.neutral == 0.5 else 0)
            elif is_integer(lhs.precision):
                start = replace(start, low=limits(lhs.precision)[0], high=limits(lhs.precision)[1])
        error = error_of(op, start, infos, lhs.precision)
        if error is None:
            return None
        self.commit(assign, max(error, old.error if not clear else 0))
        return assign

    def commit(self, assign: Assign, error: float) -> None:
        lhs = assign.lhs
        self.state |= evaluate(assign, self.state, self.statics, self.merged)
        array = self.state[lhs].astype(np.float64)
        rounding = step_of(error, float(np.abs(array[np.isfinite(array)]).max(initial=0)), lhs.precision)
        self.info.pop(lhs, None)
        if np.isfinite(array).all():
            self.info[lhs] = self.measured(lhs, error + rounding)
            error = self.info[lhs].error - rounding
        self.tolerance[lhs] = 4 * error + rounding

    def measured(self, node: TNode, error: float) -> Info:
        array = self.state[node].astype(np.float64)
        if array.size == 0:
            return Info(0, 0, 0, 0, node.precision)
        low, high = float(array.min()), float(array.max())
        if is_integer(node.precision):
            return Info(low, high, 0, error, node.precision)
        grain = next((g for g in range(21) if not (array * 2.0**g % 1).any()), 99)
        return settled(Info(low, high, grain, error, node.precision))

    # --- accumulation ---

    def wanted(self, operand: BoundedValue, op: Op | None, kind: Precision) -> BoundedValue | None:
        """Adapts a value for accumulation into cells of this type; None if that is impossible."""
        value, info = operand
        name = op.name if op is not None else ""
        if name in ("and", "or", "relu_gate", "sat01_gate", "mod") and not info.exact:
            return None
        if name in ("div", "mod"):
            value, info = self.values.positive((value, info))
        if name == "pow":
            value, info = self.values.clamped((value, info), 0, 2)
        if kind.family is Family.BOOL:
            return (value, converted(info, kind)) if info.exact else None
        if is_integer(kind):
            if not is_integer(info.kind):
                if not info.exact:
                    return None
                low = 1 if name in ("div", "mod") else 0 if name == "pow" or limits(kind)[0] == 0 else -50
                value, info = self.values.clamped((value, info), low, 50)
            elif name in ("div", "mod", "pow") and info.high > limits(kind)[1]:
                return None
            return value, converted(info, kind)
        value, info = self.values.tame((value, info))
        if name == "mul":
            value, info = self.values.clamped((value, info), -2, 2)
        return value, settled(replace(info, kind=float32))

    # --- nodes ---

    def dims(self) -> tuple[int, ...]:
        sizes = [self.random.choice((1, 2, 2, 3, 3, 4, 5, 6)) for _ in range(self.random.choice((0, 1, 1, 2, 2, 3)))]
        while prod(sizes) > 30:
            sizes[self.random.randrange(len(sizes))] = 1
        if sizes and self.chance(0.03):
            sizes[self.random.randrange(len(sizes))] = 0
        return tuple(sizes)

    def node(self, dims: tuple[int, ...]) -> TNode:
        choose = self.random.choice
        kind = choose(COMMON) if self.chance(0.95) else choose(PRECISIONS)
        role = choose((Role.RESULT, Role.PARAMETER, Role.GRADIENT, Role.DATA, Role.PLACEHOLDER))
        node = TNode(choose(LABELS), role, lambda: dims, lambda: kind)
        self.arrays[node] = self.state[node] = self.contents(dims, kind)
        self.tolerance[node] = 0
        self.info[node] = self.measured(node, 0)
        return node

    def contents(self, dims: tuple[int, ...], kind: Precision) -> Array:
        if kind.family is Family.BOOL:
            low, step = 0, 1.0
        elif not kind.is_float:
            low, step = (0 if limits(kind)[0] == 0 else -3), 1.0
        elif self.chance(0.2):
            low, step = 1, 0.25  # positive
        else:
            low, step = -8, 0.25
        numbers = [self.random.randint(low, 1 if kind.family is Family.BOOL else 8) * step for _ in range(prod(dims))]
        return np.array(numbers, np.float64).reshape(dims).astype(kind.numpy)

    # --- boxes and indices ---

    def parts(self, dims: tuple[int, ...]) -> list[tuple[int, int, int] | None]:
        """(axis, start, length) for each part of a concatenation; None for a piece that writes the whole array."""
        if dims and max(dims) > 1 and self.chance(0.15):
            axis = self.random.choice([a for a, n in enumerate(dims) if n > 1])
            cut = self.random.randint(1, dims[axis] - 1)
            return [(axis, 0, cut), (axis, cut, dims[axis] - cut)]
        return [None] * self.random.choice((1, 1, 1, 1, 1, 2))

    def sym(self, extent: int) -> Sym:
        """A loop of the current piece; sometimes the loop object of an earlier piece."""
        old = [s for s in self.old_loops if s.extent == extent and s not in self.loops]
        if old and self.chance(0.4):
            sym = self.random.choice(old)
        else:
            low = 1 if self.chance(0.1) else 0
            sym = Sym(self.random.choice(LOOPS), low, low + extent - 1)
            self.old_loops.append(sym)
        self.loops.append(sym)
        return sym

    def from_zero(self, sym: Sym) -> Affine:
        return Affine.of(sym) - sym.lo

    def written(self, size: int, part: tuple[int, int] | None) -> tuple[Affine, Cond]:
        """The index of an axis of the left side."""
        if part is not None:
            return self.from_zero(self.sym(part[1])) + part[0], TRUE
        if size == 0:
            return self.from_zero(self.sym(0)), TRUE
        match self.random.choice(("plain",) * 9 + WRITTEN):
            case "back":
                return -self.from_zero(self.sym(size)) + (size - 1), TRUE
            case "const":
                return Affine.of(self.random.randrange(size)), TRUE
            case "strided" if size > 1:
                stride = self.random.randint(2, 3)
                start = self.random.randrange(min(stride, size))
                return self.from_zero(self.sym((size - 1 - start) // stride + 1)) * stride + start, TRUE
            case "digits" if size in (4, 6):
                return self.from_zero(self.sym(size // 2)) * 2 + self.from_zero(self.sym(2)), TRUE
            case "sum" if size > 1:
                return self.from_zero(self.sym(size - 1)) + self.from_zero(self.sym(2)), TRUE
            case "same":
                fitting = [s for s in self.loops if 0 < s.extent <= size]
                if fitting:
                    return self.from_zero(self.random.choice(fitting)), TRUE
            case "static":
                fitting = [s for s in self.statics if s.lo >= 0 and s.hi < size]
                if fitting:
                    return Affine.of(self.random.choice(fitting)), TRUE
            case "picked":
                fitting = [s for s in self.picked if s.extent <= size]
                if fitting:
                    return Affine.of(self.random.choice(fitting)), TRUE
            case "over":
                index = self.from_zero(self.sym(size + 1)) - self.random.randint(0, 1)
                return index, bounds_condition(index, size)
            case _:
                pass
        return self.from_zero(self.sym(size)), TRUE

    def piece(self, lhs: TNode, op: Op | None, part: tuple[int, int, int] | None) -> tuple[Piece, Info] | None:
        self.loops = []
        self.picked = [Sym("v", 0, self.random.randint(0, 3), SymKind.INDIRECT)] if self.chance(0.2) else []
        at: list[Affine] = []
        when = TRUE
        for axis, size in enumerate(lhs.dims):
            index, cond = self.written(size, part[1:] if part is not None and part[0] == axis else None)
            at.append(index)
            when = when & cond
        for _ in range(self.random.choice((0, 0, 1, 1, 2))):
            self.sym(0 if self.chance(0.02) else self.random.choice((1, 2, 3)))
        if prod(s.extent for s in self.loops) > 48:
            return None
        if self.loops and self.chance(0.1):
            first, second = self.random.choice(self.loops), self.random.choice((*self.loops, *self.statics))
            apart = Affine.of(first) - second
            when = when & (Cond((apart,)) if self.chance(0.7) else Cond((), (apart,)))
        self.random.shuffle(self.loops)
        picks = tuple([IndirectIndex(sym, self.choose_index(sym)) for sym in self.picked])
        self.lhs, self.at = lhs, tuple(at)
        if op is not None and op.name in ("max", "min") and lhs.precision in (float32, float64) and self.chance(0.3):
            operand = self.windowed(op)
        else:
            operand = self.wanted(self.values.value(self.random.choice((0, 1, 1, 2, 2, 3))), op, lhs.precision)
        if operand is None:
            return None
        return Piece(tuple(self.loops), tuple(at), operand[0], when, picks), operand[1]

    def choose_index(self, sym: Sym) -> Read:
        """Integers for some of the loops at hand, most of them in the range of the symbol."""
        loops = self.random.sample(self.loops, min(len(self.loops), self.random.choice((0, 1, 1, 2))))
        dims = tuple(s.extent for s in loops)
        kind = self.random.choice((int32, int64, uint8))
        node = TNode("ids", self.random.choice((Role.DATA, Role.PLACEHOLDER)), lambda: dims, lambda: kind)
        numbers = [self.random.randint(-1 if kind is not uint8 else 0, sym.hi + 1) for _ in range(prod(dims))]
        self.arrays[node] = self.state[node] = np.array(numbers, kind.numpy).reshape(dims)
        self.tolerance[node] = 0
        return Read(node, tuple(map(self.from_zero, loops)))

    def windowed(self, op: Op) -> BoundedValue | None:
        """What a pooling window reads: the neutral element outside."""
        read, info = self.read()
        if not isinstance(read, Read) or read.outside is None or op.neutral is None:
            return None
        return replace(read, outside=op.neutral), info

    def index(self) -> Affine:
        """Any index over the loops at hand."""
        syms = [*self.loops, *self.statics, *self.picked]
        out = Affine.of(self.random.choice((0, 0, 0, 0, 1, -1)))
        for _ in range(self.random.choice((0, 1, 1, 1, 1, 2))):
            if syms:
                out = out + Affine.of(self.random.choice(syms)) * self.random.choice((1, 1, 1, 1, 2, -1))
        return out

    def span(self, index: Affine) -> tuple[int, int]:
        return (0, -1) if any(s.extent == 0 for s in index.syms) else index.range()

    # --- cells ---

    def read(self) -> BoundedValue:
        usable = [n for n, i in self.info.items() if i.error <= 0.001 * max(1.0, i.size)]
        same = [n for n in usable if n.dims == self.lhs.dims]
        if same and self.chance(0.25):
            node = self.lhs if self.lhs in same and self.chance(0.6) else self.random.choice(same)
            return Read(node, self.at), self.info[node]
        merge = self.chance(0.06)
        if usable and self.chance(0.4):
            node = self.random.choice(usable)
            at = [self.index_into(n) for n in node.dims]
        else:
            at = [self.index() for _ in range(self.random.choice((0, 1, 1, 2, 2, 3)))]
            sizes = []
            for n, index in enumerate(at):
                low, high = self.span(index)
                if low < 0 and self.chance(0.5):
                    at[n], high = index - low, high - low
                sizes.append(max(high + self.random.choice((1, 1, 1, 1, 2, 0)), 0))
            if prod(sizes) > 60:
                return self.values.number(1)
            node = self.node(tuple(sizes))
        info = self.info[node]
        leaves = any(low < 0 or high >= n for n, (low, high) in zip(node.dims, map(self.span, at), strict=True))
        outside = None
        if leaves:
            outside = self.random.choice((0.0, 0.0, 1.0, -2.0, 3.0) if limits_below(node.precision, -2) else (0.0, 1.0))
            info = replace(info, low=min(info.low, outside), high=max(info.high, outside))
        if merge:
            self.merged.setdefault(node, self.contents(node.dims, node.precision))
            low = -8 if limits_below(node.precision, -8) else 0
            info = Info(low, 8, 2 * node.precision.is_float, 0, node.precision)
        return Read(node, tuple(at), outside, merge), info

    def index_into(self, size: int) -> Affine:
        """An index into an axis of this size, inside or not."""
        for _ in range(4):
            index = self.index()
            low, high = self.span(index)
            if low >= 0 and high < size:
                return index
        return index if self.chance(0.6) or size == 0 else Affine.of(self.random.randrange(size))
