"""The reference interpreter of loop programs: scalar, exact and slow, for programs with small shapes.

It checks the bounds of every access, fills uninitialized memory with a poison value, and overlays the buffers of a
placed arena, so that it detects wrong code from any pass. An observer can receive every write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from time import perf_counter_ns
from typing import Any

import numpy as np

from ocannl.ir.affine import Affine, Bound, Cond, Sym
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    BindIndex,
    Body,
    Buf,
    Cast,
    Comment,
    Const,
    Expr,
    For,
    If,
    IndexValue,
    Let,
    Load,
    Local,
    MemorySpace,
    Poll,
    Prefetch,
    Proc,
    ReadClock,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
    When,
)
from ocannl.ir.precision import Precision
from ocannl.ir.precomputed import request_buffer
from ocannl.ir.printer import format_ref
from ocannl.ir.tnode import TNode

Array = np.ndarray[Any, Any]
Arrays = Mapping[TNode, Array]
Number = Any  # a NumPy scalar
Run = Callable[[], None]
POISON = 0xFF  # each byte: NaN as a float, -1 as a signed integer


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that was read, with its value."""

    buf: Buf
    at: tuple[int, ...]
    value: Number


@dataclass(frozen=True, slots=True)
class Write:
    """A write: the cell, its old and new value, and the other cells that were read since the previous write."""

    stmt: Store | Update
    at: tuple[int, ...]
    old: Number
    new: Number
    read: tuple[Cell, ...]


def interpret(
    proc: Proc,
    arrays: Arrays,
    symbols: Mapping[Sym, int] | None = None,
    merged: Arrays | None = None,
    on_write: Callable[[Write], None] | None = None,
    iteration_order: Random | None = None,
) -> dict[TNode, Array]:
    """Returns the arrays in global memory after the first call. Raises `IndexError` for an access out of bounds.

    `iteration_order` shuffles the iterations of parallel loops; without it they execute in program order.
    """
    machine = _Machine(proc, arrays, symbols or {}, merged or {}, on_write, iteration_order)
    with np.errstate(all="ignore"):
        machine.block(proc.body)()
    return {
        buf.node: np.array(machine.memory[buf]).reshape(buf.node.dims)
        for buf in proc.bufs
        if buf.space is MemorySpace.GLOBAL and buf.node is not None and buf.access is not AccessMode.MERGE
    }


class _Machine:
    """Compiles statements and expressions to closures without arguments that operate on one memory."""

    def __init__(
        self,
        proc: Proc,
        arrays: Arrays,
        symbols: Mapping[Sym, int],
        merged: Arrays,
        on_write: Callable[[Write], None] | None,
        iteration_order: Random | None,
    ) -> None:
        self.on_write = on_write
        self.iteration_order = iteration_order
        self.read: list[Cell] = []  # since the last write, if there is an observer
        self.syms: dict[Sym, int] = {s: symbols[s] for s in proc.syms}
        self.vars: dict[str, Number] = {}
        self.memory: dict[Buf, Array] = {}
        arena = np.full(proc.arena, POISON, np.uint8)
        pool: dict[TNode, Array] = {}
        request = request_buffer(proc)
        for buf in proc.bufs:
            kind = buf.precision.numpy
            if buf.space is MemorySpace.ARENA and buf.offset is not None:
                self.memory[buf] = arena[buf.offset : buf.offset + buf.nbytes].view(kind)
            elif buf is request:
                self.memory[buf] = np.ones(1, kind)
            elif buf.node is None:
                self.memory[buf] = _poisoned(buf)
            else:
                sources = merged if buf.access is AccessMode.MERGE else arrays
                contents = sources.get(buf.node) if buf.space is MemorySpace.GLOBAL else None
                flat = _poisoned(buf) if contents is None else np.array(contents, kind).reshape(-1)
                self.memory[buf] = flat if buf.access is AccessMode.MERGE else pool.setdefault(buf.node, flat)

    # --- indices ---

    def index(self, index: Affine) -> Callable[[], int]:
        syms, const, terms = self.syms, index.const, index.terms
        match terms:
            case ():
                return lambda: const
            case ((coef, sym),):
                return lambda: coef * syms[sym] + const
            case _:
                return lambda: const + sum(c * syms[s] for c, s in terms)

    def cond(self, cond: Cond) -> Callable[[], bool]:
        ge0, eq0 = [self.index(a) for a in cond.ge0], [self.index(a) for a in cond.eq0]
        return lambda: all(a() >= 0 for a in ge0) and all(a() == 0 for a in eq0)

    def lower(self, bound: Bound) -> Callable[[], int]:
        parts = [(self.index(a), d) for a, d in bound.quotients]
        return lambda: max(-(-a() // d) for a, d in parts)

    def upper(self, bound: Bound) -> Callable[[], int]:
        parts = [(self.index(a), d) for a, d in bound.quotients]
        return lambda: min(a() // d for a, d in parts) + 1

    def cell(self, ref: Ref) -> Callable[[], int]:
        """The offset of the cell in its buffer, in elements."""
        axes = [(self.index(a), n, s) for a, n, s in zip(ref.indices, ref.buf.shape, ref.buf.strides, strict=True)]

        def locate() -> int:
            offset = 0
            for index, size, stride in axes:
                i = index()
                if not 0 <= i < size:
                    raise IndexError(f"`{format_ref(ref)}` has index {i} on an axis of size {size}")
                offset += i * stride
            return offset

        return locate

    # --- statements ---

    def block(self, body: Body) -> Run:
        parts = [self.stmt(s) for s in body]

        def run() -> None:
            for part in parts:
                part()

        return run

    def stmt(self, stmt: Stmt) -> Run:
        match stmt:
            case Store(ref, value):
                return self.store(stmt, self.cell(ref), self.expr(value))
            case Update(ref, op, value):
                return self.store(stmt, self.cell(ref), self.expr(Apply(op, (Load(ref), value))))
            case For():
                return self.loop(stmt)
            case If(cond, then, orelse):
                test, yes, no = self.cond(cond), self.block(then), self.block(orelse)
                return lambda: yes() if test() else no()
            case BindIndex(sym, value, body):
                return self.pick(sym, self.expr(value), self.block(body))
            case Let(name, value):
                compute = self.expr(value)
                return lambda: self.vars.update({name: compute()})
            case Local(buf, fill):
                start = _poisoned(buf) if fill is None else np.full(buf.size, fill).astype(buf.precision.numpy)
                return lambda: self.memory.update({buf: start.copy()})
            case ReadClock(ref):
                memory, buf, cell = self.memory, ref.buf, self.cell(ref)
                return lambda: memory[buf].__setitem__(cell(), perf_counter_ns())
            case Comment() | Poll() | Prefetch():
                return lambda: None

    def store(self, stmt: Store | Update, cell: Callable[[], int], compute: Callable[[], Number]) -> Run:
        memory, buf, on_write = self.memory, stmt.ref.buf, self.on_write

        def run() -> None:
            value = compute()
            memory[buf][cell()] = value

        if on_write is None:
            return run
        position = self.position(stmt.ref)

        def watched() -> None:
            old = memory[buf][cell()]
            run()
            at = position()
            read = tuple(c for c in self.read if (c.buf, c.at) != (buf, at))
            self.read.clear()
            on_write(Write(stmt, at, old, memory[buf][cell()], read))

        return watched

    def position(self, ref: Ref) -> Callable[[], tuple[int, ...]]:
        axes = [self.index(at) for at in ref.indices]
        return lambda: tuple([axis() for axis in axes])

    def load(self, ref: Ref) -> Callable[[], Number]:
        memory, buf, cell = self.memory, ref.buf, self.cell(ref)
        if self.on_write is None:
            return lambda: memory[buf][cell()]
        position = self.position(ref)

        def watched() -> Number:
            value = memory[buf][cell()]
            self.read.append(Cell(buf, position(), value))
            return value

        return watched

    def loop(self, stmt: For) -> Run:
        low, high, body = self.lower(stmt.lo), self.upper(stmt.hi), self.block(stmt.body)
        syms, sym, step = self.syms, stmt.sym, stmt.step
        iteration_order = self.iteration_order if stmt.parallel_chunk else None

        def run() -> None:
            values: Sequence[int] = range(low(), high(), step)
            if iteration_order is not None:
                values = iteration_order.sample(values, len(values))
            for n in values:
                syms[sym] = n
                body()

        return run

    def pick(self, sym: Sym, value: Callable[[], Number], body: Run) -> Run:
        syms = self.syms

        def run() -> None:
            number = int(value())
            if sym.lo <= number <= sym.hi:
                syms[sym] = number
                body()

        return run

    # --- values ---

    def expr(self, expr: Expr) -> Callable[[], Number]:
        match expr:
            case Const(value, precision):
                number = _scalar(value, precision)
                return lambda: number
            case IndexValue(index, precision):
                position = self.index(index)
                return lambda: _scalar(position(), precision)
            case Var(name, _):
                return lambda: self.vars[name]
            case Load(ref):
                return self.load(ref)
            case Apply(op, args):
                meaning, kind, parts = op.numpy, expr.precision.numpy.type, [self.expr(a) for a in args]
                return lambda: kind(meaning(*(part() for part in parts)))
            case When(cond, then, orelse):
                test, yes, no = self.cond(cond), self.expr(then), self.expr(orelse)
                return lambda: yes() if test() else no()
            case Cast(value, precision):
                inner = self.expr(value)
                return lambda: _scalar(inner(), precision)


def _scalar(value: Number, precision: Precision) -> Number:
    return np.asarray(value).astype(precision.numpy)[()]


def _poisoned(buf: Buf) -> Array:
    return np.full(buf.nbytes, POISON, np.uint8).view(buf.precision.numpy)
