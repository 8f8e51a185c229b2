"""Random small programs, with arrays on which any faithful execution agrees to a known tolerance.

The generator keeps, for every value, how large it is, of which power of two it is a multiple, and how far two correct
computations of it may differ. Where nothing is rounded they may not differ at all, and only there does it compare,
truncate or count; so a disagreement beyond `Program.tolerance` is somebody's defect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, isfinite, log, prod, sqrt
from random import Random
from typing import Any

import ml_dtypes
import numpy as np

from ocannl.ir.assign import Apply, Assign, Block, Comp, Convert, Index, Number, Origin, Piece, Read, Seq, Value
from ocannl.ir.index import TRUE, Affine, Cond, Sym, SymKind, inside
from ocannl.ir.ops import BY_NAME, Domain, Op
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
    promote,
    uint8,
    uint32,
)
from ocannl.ir.tnode import Role, TNode
from ocannl.testing.evaluate import evaluate

Array = np.ndarray[Any, Any]

LABELS = ("w", "x", "y", "b", "h", "w.grad", "two words", "3rd", "for", "")
LOOPS = ("i", "j", "k", "b", "oh", "wh")
COMMON = (*(float32,) * 9, float64, float64, float16, bfloat16, float8_e5m2, float8_e4m3fn, int32, int32, int64, uint8,
          uint32, bool_)  # fmt: skip
ACCUMULATORS = (*("add",) * 6, "sub", "sub", "mul", "max", "max", "min", "and", "or", "div", "pow", "mod", "relu_gate",
                "sat01_gate", "fst", "snd")  # fmt: skip
LOGICAL = ("id", "not", "max", "min", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "where", "fst", "snd")
BITS = 21  # of an exact number: what any sum or product of float32 holds
LARGE = 64.0  # operands are kept below this


@dataclass(frozen=True)
class Program:
    """A computation and everything it needs to run; results agree within `tolerance`, absolutely, node by node."""

    code: Comp
    arrays: dict[TNode, Array]
    merged: dict[TNode, Array]
    symbols: dict[Sym, int]
    tolerance: dict[TNode, float]


@dataclass(frozen=True)
class Info:
    """What is known of a value: its range, the power of two whose multiple it is, by how much it may be off, its type
    (None: weak)."""

    low: float
    high: float
    grain: int
    error: float
    kind: Precision | None
    is_index: bool = False

    @property
    def exact(self) -> bool:
        return self.error == 0

    @property
    def size(self) -> float:
        return max(abs(self.low), abs(self.high))


Known = tuple[Value, Info]


def programs_differ(expected: dict[TNode, Array], got: dict[TNode, Array], tolerance: dict[TNode, float]) -> str:
    """Where two results differ beyond the tolerance, in words; empty when they agree."""
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
    """A program of at most that many statements."""
    return _Maker(random).program(random.randint(1, statements))


def limits(kind: Precision) -> tuple[int, int]:
    if kind.family is Family.BOOL:
        return 0, 1
    return int(np.iinfo(kind.numpy).min), int(np.iinfo(kind.numpy).max)


def is_integer(kind: Precision | None) -> bool:
    return kind is not None and not kind.is_float


def settled(info: Info) -> Info:
    """The same, once it is rounded to the type that it is computed in."""
    kind = info.kind or float32
    if not kind.is_float:
        least, most = limits(kind)
        if kind.family is Family.BOOL or (info.low >= least and info.high <= most):
            return info
        return replace(info, low=least, high=most)  # it wrapped
    if info.exact and info.grain + log(info.size + 1, 2) <= BITS:
        return info
    return replace(info, error=info.error + info.size * 2.0**-21)


def converted(info: Info, kind: Precision) -> Info:
    """After a conversion; one to an integer type must be known to fit."""
    if kind.family is Family.BOOL:
        return Info(0, 1, 0, 0, kind)
    if not kind.is_float:
        whole = replace(info, kind=kind) if info.grain == 0 else replace(info, grain=0, kind=kind)
        return settled(whole)
    narrow = kind.nbytes < 4
    wide = settled(replace(info, kind=float32))
    error = wide.error + (wide.size * float(ml_dtypes.finfo(kind.numpy).eps) if narrow and wide.error else 0)
    grow = 1.25 if narrow else 1
    return Info(wide.low * grow, wide.high * grow, wide.grain, error, kind)


class _Maker:
    """Statements in the making, and what is known of the nodes so far."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.arrays: dict[TNode, Array] = {}
        self.merged: dict[TNode, Array] = {}
        self.state: dict[TNode, Array] = {}
        self.info: dict[TNode, Info] = {}  # of the nodes that may be read
        self.tolerance: dict[TNode, float] = {}
        self.statics: dict[Sym, int] = {}
        self.old_loops: list[Sym] = []
        self.loops: list[Sym] = []  # of the piece at hand
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
                code = [Block(f"so far {n}", Seq(tuple(code))), statement]
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
        if not clear and op is not None and not self.can_meet(op, old):
            return None
        pieces: list[Piece] = []
        infos: list[tuple[Info, int]] = []
        for part in self.parts(lhs.dims):
            made = self.piece(lhs, op, part)
            if made is None:
                return None
            pieces.append(made[0])
            infos.append((made[1], prod(s.extent for s in made[0].loops)))
        assign = Assign(lhs, op, clear, tuple(pieces), Origin(lhs.label, f"made.py:{n + 1}"))
        start = old if not clear else Info(0, 0, 0, 0, lhs.precision)
        if clear and op is not None and op.neutral is not None:
            if isfinite(op.neutral):
                start = replace(start, low=op.neutral, high=op.neutral, grain=1 if op.neutral == 0.5 else 0)
            elif is_integer(lhs.precision):
                start = replace(start, low=limits(lhs.precision)[0], high=limits(lhs.precision)[1])
        error = self.error_of(op, start, infos, lhs.precision)
        if error is None:
            return None
        self.commit(assign, max(error, old.error if not clear else 0))
        return assign

    def commit(self, assign: Assign, error: float) -> None:
        lhs = assign.lhs
        self.state |= evaluate(assign, self.state, self.statics, self.merged)
        array = self.state[lhs].astype(np.float64)
        self.tolerance[lhs] = 4 * error
        self.info.pop(lhs, None)
        if np.isfinite(array).all():
            self.info[lhs] = self.measured(lhs, error)
            self.tolerance[lhs] = 4 * self.info[lhs].error

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

    def can_meet(self, op: Op, old: Info) -> bool:
        """That accumulating into cells like these is well conditioned."""
        match op.name:
            case "and" | "or" | "relu_gate" | "sat01_gate" | "mod": return old.exact and old.size <= 1e6
            case "pow": return (old.low >= 0.25 and old.high <= 8) or (is_integer(old.kind) and old.size < 100)
            case "div": return old.size <= 1e5
            case _: return old.size <= 1e6 or is_integer(old.kind)

    def error_of(
        self, op: Op | None, start: Info, values: Sequence[tuple[Info, int]], kind: Precision
    ) -> float | None:
        """How far the cells may be off after meeting these values, each so many times; None if that is unclear."""
        cell = start
        for value, times in values:
            if times == 0:
                continue
            v, grow = value.size, max(1.0, value.size)
            match op.name if op is not None else "":
                case "add" | "sub":
                    bound = cell.size + times * v
                    cell = Info(-bound, bound, max(cell.grain, value.grain), cell.error + times * value.error, None)
                case "mul":
                    bound = max(cell.size, 1e-9) * grow**times
                    error = (cell.error + times * value.error * max(1.0, cell.size)) * grow**times
                    cell = Info(-bound, bound, cell.grain + times * value.grain, error, None)
                case "div" | "pow":
                    if is_integer(kind):
                        continue
                    cell = replace(cell, error=cell.error + times * (value.error + 2.0**-16) * max(cell.size, 8.0))
                case _:
                    bound = max(cell.size, v)
                    error = max(cell.error, value.error)
                    cell = Info(-bound, bound, max(cell.grain, value.grain), error, None)
            if not is_integer(kind):
                if cell.size > 1e8:
                    return None
                error = cell.error
                cell = settled(replace(cell, kind=None))
                if cell.error != error:
                    cell = replace(cell, error=error + times * cell.size * 2.0**-21)
        if kind.is_float and kind.nbytes < 4:
            if cell.size > 200:
                return None
            if cell.error:
                return cell.error + 1.25 * cell.size * float(ml_dtypes.finfo(kind.numpy).eps)
        return cell.error

    def wanted(self, known: Known, op: Op | None, kind: Precision) -> Known | None:
        """The value made fit for accumulation into cells of this type, where that is possible."""
        value, info = known
        name = op.name if op is not None else ""
        if name in ("and", "or", "relu_gate", "sat01_gate", "mod") and not info.exact:
            return None
        if name in ("div", "mod"):
            value, info = self.positive((value, info))
        if name == "pow":
            value, info = self.clamped((value, info), 0, 2)
        if kind.family is Family.BOOL:
            return (value, converted(info, kind)) if info.exact else None
        if is_integer(kind):
            if not is_integer(info.kind):
                if not info.exact:
                    return None
                low = 1 if name in ("div", "mod") else 0 if name == "pow" or limits(kind)[0] == 0 else -50
                value, info = self.clamped((value, info), low, 50)
            elif name in ("div", "mod", "pow") and info.high > limits(kind)[1]:
                return None
            return value, converted(info, kind)
        value, info = self.tame((value, info))
        if name == "mul":
            value, info = self.clamped((value, info), -2, 2)
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
        """None for a piece anywhere, or (axis, start, length) for a part of a concatenation."""
        if dims and max(dims) > 1 and self.chance(0.15):
            axis = self.random.choice([a for a, n in enumerate(dims) if n > 1])
            cut = self.random.randint(1, dims[axis] - 1)
            return [(axis, 0, cut), (axis, cut, dims[axis] - cut)]
        return [None] * self.random.choice((1, 1, 1, 1, 1, 2))

    def sym(self, extent: int) -> Sym:
        """A loop of the piece at hand; sometimes an object that another piece used."""
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
        """How one axis of the left side is indexed."""
        if part is not None:
            return self.from_zero(self.sym(part[1])) + part[0], TRUE
        if size == 0:
            return self.from_zero(self.sym(0)), TRUE
        match self.random.choice(("plain",) * 9 + ("back", "const", "strided", "digits", "sum", "same", "static", "over")):
            case "back":
                return -self.from_zero(self.sym(size)) + (size - 1), TRUE
            case "const":
                return Affine.of(self.random.randrange(size)), TRUE
            case "strided" if size > 1:
                step = self.random.randint(2, 3)
                start = self.random.randrange(min(step, size))
                return self.from_zero(self.sym((size - 1 - start) // step + 1)) * step + start, TRUE
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
            case "over":
                index = self.from_zero(self.sym(size + 1)) - self.random.randint(0, 1)
                return index, inside(index, size)
            case _:
                pass
        return self.from_zero(self.sym(size)), TRUE

    def piece(self, lhs: TNode, op: Op | None, part: tuple[int, int, int] | None) -> tuple[Piece, Info] | None:
        self.loops = []
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
            one, other = self.random.choice(self.loops), self.random.choice((*self.loops, *self.statics))
            apart = Affine.of(one) - other
            when = when & (Cond((apart,)) if self.chance(0.7) else Cond((), (apart,)))
        self.random.shuffle(self.loops)
        self.lhs, self.at, self.guarded = lhs, tuple(at), not when.is_true
        if op is not None and op.name in ("max", "min") and lhs.precision in (float32, float64) and self.chance(0.3):
            known = self.windowed(op)
        else:
            known = self.wanted(self.value(self.random.choice((0, 1, 1, 2, 2, 3))), op, lhs.precision)
        if known is None:
            return None
        return Piece(tuple(self.loops), tuple(at), known[0], when), known[1]

    def windowed(self, op: Op) -> Known | None:
        """What a pooling window reads: the neutral element outside."""
        read, info = self.read()
        if not isinstance(read, Read) or read.outside is None or op.neutral is None:
            return None
        return replace(read, outside=op.neutral), info

    def index(self) -> Affine:
        """Any index over the loops at hand."""
        syms = [*self.loops, *self.statics]
        out = Affine.of(self.random.choice((0, 0, 0, 0, 1, -1)))
        for _ in range(self.random.choice((0, 1, 1, 1, 1, 2))):
            if syms:
                out = out + Affine.of(self.random.choice(syms)) * self.random.choice((1, 1, 1, 1, 2, -1))
        return out

    def span(self, index: Affine) -> tuple[int, int]:
        return (0, -1) if any(s.extent == 0 for s in index.syms) else index.range()

    # --- values ---

    def value(self, depth: int) -> Known:
        if depth <= 0:
            match self.random.choice(("read",) * 8 + ("number", "number", "index")):
                case "number":
                    return self.number(self.random.choice((0, 1, 2, 3, -1, -2, 0.5, -1.5, 0.25, 2.0, 300, 0.1)))
                case "index":
                    index = self.index()
                    low, high = self.span(index)
                    return Index(index), Info(low, max(low, high), 0, 0, None, True)
                case _:
                    return self.read()
        match self.random.choice((1, 1, 2, 2, 2, 2, 2, 3, "convert")):
            case 1:
                name = self.random.choice(
                    ("id", "neg", "neg", "abs", "relu", "sat01", "not", "trunc", "exp", "exp2", "log", "log2", "sin", "cos",
                     "tanh", "sqrt", "recip", "recip_sqrt")
                )  # fmt: skip
                return self.unary(name, self.value(depth - 1))
            case 2:
                name = self.random.choice(
                    ("add", "add", "sub", "sub", "mul", "mul", "mul", "max", "min", "lt", "le", "gt", "ge", "eq", "ne",
                     "and", "or", "relu_gate", "sat01_gate", "fst", "snd", "div", "pow", "mod")
                )  # fmt: skip
                return self.binary(name, self.value(depth - 1), self.value(self.random.randrange(depth)))
            case 3:
                a, b = self.value(depth - 1), self.value(self.random.randrange(depth))
                c = self.value(0)
                if self.chance(0.4):
                    return self.fma(a, b, c)
                return self.where(c, a, b)
            case _:
                return self.convert(self.value(depth - 1), self.random.choice(COMMON))

    def number(self, value: float) -> Known:
        grain = next((g for g in range(4) if (value * 2.0**g).is_integer()), None)
        error = 0.0 if grain is not None else 2.0**-20
        return Number(value), Info(value, value, grain or 0, error, None)

    def read(self) -> Known:
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
                return self.number(1)
            node = self.node(tuple(sizes))
        info = self.info[node]
        leaves = any(low < 0 or high >= n for n, (low, high) in zip(node.dims, map(self.span, at), strict=True))
        outside = None
        if leaves:
            outside = self.random.choice((0.0, 0.0, 1.0, -2.0, 3.0) if limits_below(node.precision, -2) else (0.0, 1.0))
            info = replace(info, low=min(info.low, outside), high=max(info.high, outside))
        if merge:
            self.merged.setdefault(node, self.contents(node.dims, node.precision))
            info = Info(-8 if limits_below(node.precision, -8) else 0, 8, 2 if node.precision.is_float else 0, 0, node.precision)
        return Read(node, tuple(at), outside, merge), info

    def index_into(self, size: int) -> Affine:
        """An index into an axis of this size, inside or not."""
        for _ in range(4):
            index = self.index()
            low, high = self.span(index)
            if low >= 0 and high < size:
                return index
        return index if self.chance(0.6) or size == 0 else Affine.of(self.random.randrange(size))

    def apply(self, name: str, known: Sequence[Known], low: float, high: float, grain: int, error: float) -> Known:
        """An application, given what is known of its result before rounding."""
        op = BY_NAME[name]
        infos = [i for _, i in known]
        kind = common(op, infos[1:] if name == "where" else infos)
        if is_integer(kind):
            grain, error = 0, 0.0
        elif any(is_integer(i.kind) and i.size > 2**21 for i in infos):
            error += max(i.size for i in infos) * 2.0**-20
        value = Apply(op, tuple(v for v, _ in known))
        return value, settled(Info(min(low, high), max(low, high), grain, error, kind))

    def unary(self, name: str, known: Known) -> Known:
        known = self.tame(known)
        if name in ("not", "trunc") and not known[1].exact:
            name = "neg"
        if name in ("exp", "exp2"):
            known = self.clamped(known, -4, 4)
        if name in ("log", "log2", "recip", "recip_sqrt"):
            known = self.positive(known)
        if name == "sqrt":
            known = self.unary("abs", known)
        x = known[1]
        low, high, size, e = x.low, x.high, x.size, x.error
        slope: float = 1
        match name:
            case "neg": return self.apply(name, [known], -high, -low, x.grain, e)
            case "abs": return self.apply(name, [known], 0, size, x.grain, e)
            case "relu": return self.apply(name, [known], max(low, 0), max(high, 0), x.grain, e)
            case "sat01" | "not": return self.apply(name, [known], 0, 1, x.grain, e)
            case "trunc": return self.apply(name, [known], -size, size, 0, e)
            case "id": return self.apply(name, [known], low, high, x.grain, e)
            case "exp" | "exp2": bounds, slope = (0, exp(high)), exp(high)
            case "log" | "log2": bounds, slope = (0, log(high + 1, 2)), 1.5
            case "sqrt": bounds, slope = (0, sqrt(size)), 1
            case _: bounds = (-1, 1)
        if name == "sqrt" and e:
            e = sqrt(e)
        off = slope * e + 2.0**-19 * max(1.0, *map(abs, bounds)) * (1 + (size if name in ("sin", "cos") else 0))
        return self.apply(name, [known], *bounds, 99, off)

    def binary(self, name: str, left: Known, right: Known) -> Known:
        if name in ("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "mod") and not (left[1].exact and right[1].exact):
            name = "sub"
        if name in ("relu_gate", "sat01_gate") and not left[1].exact:
            name = "mul"
        left, right = self.tame(left), self.tame(right)
        if name == "pow":
            kind = common(BY_NAME[name], [left[1], right[1]])
            if is_integer(kind):
                right = self.clamped(self.tame(right), 0, 2)
                if right[1].low < 0 or is_integer(common(BY_NAME[name], [left[1], right[1]])) is False:
                    name = "mul"
            else:
                left, right = self.positive(left), self.clamped(right, -2, 2)
        if name in ("div", "mod"):
            right = self.positive(right)
        x, y = left[1], right[1]
        both = [left, right]
        grain, e = max(x.grain, y.grain), x.error + y.error
        match name:
            case "add": return self.apply(name, both, x.low + y.low, x.high + y.high, grain, e)
            case "sub": return self.apply(name, both, x.low - y.high, x.high - y.low, grain, e)
            case "mul":
                bound = x.size * y.size
                low = 0 if x.low >= 0 and y.low >= 0 else -bound
                return self.apply(name, both, low, bound, x.grain + y.grain, x.size * y.error + y.size * x.error)
            case "div": return self.apply(name, both, -x.size, x.size, 99, x.error + x.size * y.error + 2.0**-20)
            case "pow":
                bound = max(x.size, 1.0) ** max(y.high, -y.low, 0)
                kind = common(BY_NAME[name], [x, y])
                rough = e * bound * 8 + 2.0**-18 * bound
                return self.apply(name, both, 0 if x.low >= 0 else -bound, bound, 0, 0 if is_integer(kind) else rough)
            case "mod": return self.apply(name, both, 0, y.high, grain, 0)
            case "relu_gate" | "sat01_gate": return self.apply(name, both, min(y.low, 0), max(y.high, 0), y.grain, y.error)
            case "fst": return self.apply(name, both, x.low, x.high, x.grain, x.error)
            case "snd": return self.apply(name, both, y.low, y.high, y.grain, y.error)
            case "max" | "min":
                return self.apply(name, both, min(x.low, y.low), max(x.high, y.high), grain, max(x.error, y.error))
            case _: return self.apply(name, both, 0, 1, 0, 0)

    def where(self, cond: Known, left: Known, right: Known) -> Known:
        if not cond[1].exact:
            cond = self.number(self.random.choice((0, 1, 0.5)))
        x, y = left[1], right[1]
        low, high = min(x.low, y.low), max(x.high, y.high)
        return self.apply("where", [cond, left, right], low, high, max(x.grain, y.grain), max(x.error, y.error))

    def fma(self, left: Known, right: Known, add: Known) -> Known:
        left, right, add = self.tame(left), self.tame(right), self.tame(add)
        x, y, z = left[1], right[1], add[1]
        bound = x.size * y.size + z.size
        error = x.size * y.error + y.size * x.error + z.error
        return self.apply("fma", [left, right, add], -bound, bound, max(x.grain + y.grain, z.grain), error)

    def convert(self, known: Known, kind: Precision) -> Known:
        value, info = known
        if not kind.is_float and not is_integer(info.kind):
            if not info.exact:
                return known
            if kind.family is not Family.BOOL:
                value, info = self.clamped(known, 0 if limits(kind)[0] == 0 else -50, 50)
        if kind.is_float and info.size > 200:
            value, info = self.tame((value, info))
        return Convert(value, kind), converted(info, kind)

    def tame(self, known: Known) -> Known:
        """The value, brought into a range where further computation is well conditioned."""
        value, info = known
        if info.size <= LARGE:
            return known
        if is_integer(info.kind) or info.kind is None:
            return Apply(BY_NAME["mod"], (value, Number(7))), Info(0, 6, 0, 0, common(BY_NAME["mod"], [info]))
        return self.clamped(known, -LARGE, LARGE)

    def clamped(self, known: Known, low: float, high: float) -> Known:
        out = known
        if known[1].high > high:
            out = self.least(out, high)
        if known[1].low < low:
            out = self.most(out, low)
        return out

    def least(self, known: Known, high: float) -> Known:
        x, limit = known[1], self.number(high)
        return self.apply("min", [known, limit], min(x.low, high), min(x.high, high), max(x.grain, limit[1].grain), x.error)

    def most(self, known: Known, low: float) -> Known:
        x, limit = known[1], self.number(low)
        return self.apply("max", [known, limit], max(x.low, low), max(x.high, low), max(x.grain, limit[1].grain), x.error)

    def positive(self, known: Known) -> Known:
        """Its magnitude plus one."""
        x = self.tame(known)
        size = self.unary("abs", x)
        one = self.number(1)
        return self.apply("add", [size, one], 1, size[1].high + 1, size[1].grain, size[1].error)


def limits_below(kind: Precision, value: int) -> bool:
    return kind.is_float or limits(kind)[0] <= value


def common(op: Op, infos: Sequence[Info]) -> Precision:
    """The type that operands like these are computed in: what decides whether integers wrap."""
    kind: Precision | None = None
    for info in infos:
        if info.kind is not None:
            kind = info.kind if kind is None else promote(kind, info.kind)
    if kind is None:
        whole = any(i.is_index for i in infos) and all(i.grain == 0 and i.exact for i in infos)
        kind = int32 if whole else float32
    for info in infos:
        if info.kind is None and not kind.is_float:
            least, most = limits(kind)
            if info.grain or not info.exact:
                kind = float32
            elif info.low < least or info.high > most:
                kind = promote(kind, int32)
    if op.domain is Domain.FLOAT and not kind.is_float:
        return float32
    if kind.family is Family.BOOL and op.name not in LOGICAL:
        return int32
    return kind.arithmetic
