"""One kernel being written: statements of a program, in the words of triton.

Loops that have an axis run in blocks: their symbol is a block of numbers, and all that depends on it varies along the
axis. Where not all of a block is meant, because a loop has no more iterations or a condition fails for some, loads and
stores are masked; what is summed is neutral there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from ocannl.backend import Unsupported
from ocannl.codegen import printable
from ocannl.ir.index import Affine, Cond, Sym
from ocannl.ir.loops import (
    Apply,
    Body,
    Buf,
    Cast,
    Comment,
    Expr,
    For,
    Idx,
    If,
    Let,
    Load,
    Local,
    Num,
    Pick,
    Poll,
    Prefetch,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
    When,
)
from ocannl.ir.names import Namer
from ocannl.ir.ops import Op
from ocannl.ir.walk import walk
from ocannl_backend_triton import dot, owner_computes_scatter
from ocannl_backend_triton.axes import Axis, Layout
from ocannl_backend_triton.hazards import Hazards
from ocannl_backend_triton.memory import Memory, Register
from ocannl_backend_triton.nests import is_same, quotients
from ocannl_backend_triton.scope import Guard, Index, Scope
from ocannl_backend_triton.values import Operations, Value, neutral


class Emitter:
    def __init__(
        self, layout: Layout, names: Namer, operations: Operations, hazards: Hazards, parameters: Mapping[Buf, str],
        products: str,
    ) -> None:  # fmt: skip
        self.layout, self.operations, self.products = layout, operations, products
        self.scope = Scope(layout.rank, names)
        self.line = self.scope.line
        self.hazards = hazards
        hazards.wait = lambda: self.line("tl.debug_barrier()")
        self.lets: dict[str, Value] = {}
        self.memory = Memory(self.scope, operations, hazards, parameters, layout)
        self.blocks: dict[Sym, str] = {}  # the number of the block that a program takes
        self.starts: dict[Sym, Index] = {}  # the first iteration of a block
        self.factors: tuple[dot.Factor, ...] = ()  # of the product that is being summed
        self.conds: list[Cond] = []  # that let a term of it through

    def kernel(self, body: Body) -> None:
        """The statements as the body of a function of one program."""
        grid, programs = self.layout.grid, 1
        for axis in reversed(grid):
            pid = "tl.program_id(0)" if programs == 1 else f"tl.program_id(0) // {programs}"
            programs *= axis.count
            is_outermost = axis is grid[0] and self.layout.shared is None
            number = pid if is_outermost else f"{pid} % {axis.count}"
            self.blocks[axis.sym] = number if axis.count > 1 else ""
        dot.near(self)
        self.statements(body)

    def statements(self, body: Body) -> None:
        rest = list(reversed(body))
        while rest:
            stmt = rest.pop()
            match stmt, rest[-1:]:
                case Local(buf, None), [Store(Ref(begun, ()), value)] if begun is buf:
                    self.memory.local(buf, self.value(value))
                    rest.pop()
                case _:
                    self.statement(stmt)

    def statement(self, stmt: Stmt) -> None:
        self.hazards.statement()
        match stmt:
            case For(): self.loop(stmt)
            case If(cond, then, orelse): self.choice(cond, then, orelse)
            case Pick(sym, value, inner): self.pick(sym, value, inner)
            case Store(ref, value): self.memory.store(ref, self.value(value))
            case Update() if self.factors: dot.add(self, stmt)
            case Update(ref, op, value): self.memory.update(ref, op, self.value(value))
            case Let(name, value):
                made = self.operations.typed(self.value(value))
                self.lets[name] = replace(made, text=self.scope.let(name, made.text), truth="", constant="")
            case Local(buf, fill):
                self.memory.local(buf, self.operations.number(fill or 0, buf.precision), fill is not None)
            case Comment(text): self.line(f"# {printable(text)}")
            case Poll() | Prefetch(): pass  # whoever launches kernels looks between them
            case _: raise Unsupported(f"backend `triton` knows no statement {type(stmt).__name__}")

    # ------------------------------------------------------------------------------------------------------ loops

    def loop(self, loop: For) -> None:
        if loop.sym.extent == 0:
            return
        axis, shared = self.layout.axes.get(loop.sym), self.layout.shared
        if shared is not None and loop is shared.loop:
            owner_computes_scatter.search(self, shared)
        elif axis is None:
            self.serial(loop)
        elif loop.sym in self.layout.products:
            dot.products(self, axis, self.layout.products[loop.sym])
        elif axis.grid or axis.count == 1:
            self.enter(axis, self.blocks.get(axis.sym, ""))
        else:
            self.blocked(axis)

    def enter(self, axis: Axis, block: str) -> None:
        """One block of iterations; `block` is its number, if there is more than one."""
        scope = self.scope
        parts = [str(axis.sym.lo)] if axis.sym.lo else []
        if axis.block == 1:
            scope.syms[axis.sym] = Index(scope.let(axis.sym.name, " + ".join([block or "0", *parts])))
            self.statements(axis.loop.body)
            return
        size = scope.constant(f"BLOCK_{axis.sym.name}", axis.block)
        if block:
            parts.append(f"({block}) * {size}" if " " in block else f"{block} * {size}")
        self.starts[axis.sym] = Index(" + ".join(parts) or "0")
        self.within(axis, " + ".join([*parts, scope.arange(size, axis.place)]), size)

    def within(self, axis: Axis, value: str, size: str) -> None:
        """The body for a block of iterations."""
        self.scope.let_sym(axis.sym, value, frozenset((axis.place,)))
        with self.scope.along(axis.place, size), self.scope.guarded(*self.edge(axis)):
            self.statements(axis.loop.body)

    def edge(self, axis: Axis, place: int | None = None) -> tuple[Guard, ...]:
        """That there are so many iterations, where the last block has fewer."""
        if axis.is_even:
            return ()
        inside = self.scope.let(f"{axis.sym.name}_inside", f"{self.scope.sym(axis.sym).text} < {axis.sym.hi + 1}")
        return (Guard(inside, frozenset((axis.place if place is None else place,)), frozenset((axis.sym,)), True),)

    def blocked(self, axis: Axis) -> None:
        """A loop over blocks; what is summed is summed place by place first, and folded in the end."""
        scope = self.scope
        size = scope.constant(f"BLOCK_{axis.sym.name}", axis.block)
        with scope.along(axis.place, size):
            sums = list(self.widened(axis))
        start = self.turn(axis, size)
        with scope.deeper(), self.hazards.loop(axis.loop.body):
            self.within(axis, f"{start} + {scope.arange(size, axis.place)}", size)
        for buf, op, wide, outer in sums:
            self.memory.locals[buf] = outer
            with scope.along(axis.place, size):
                self.memory.update(Ref(buf, ()), op, Value(wide.name, buf.precision, wide.axes))

    def turn(self, axis: Axis, size: str) -> str:
        self.hazards.before(axis.loop.body)
        start = self.scope.new(f"{axis.sym.name}_start")
        self.line(f"for {start} in range({axis.sym.lo}, {axis.sym.hi + 1}, {size}):")
        return start

    def widened(self, axis: Axis) -> Iterator[tuple[Buf, Op, Register, Register]]:
        """Registers that the loop only adds to get a wider one while it runs."""
        found: dict[Buf, Op] = {}
        for node in walk(axis.loop.body):
            if isinstance(node, Update) and isinstance(self.memory.locals.get(node.ref.buf), Register):
                found.setdefault(node.ref.buf, node.op)
        for buf, op in found.items():
            outer = self.memory.locals[buf]
            if isinstance(outer, Register) and axis.place not in outer.axes:
                nothing = self.operations.number(neutral(op, buf.precision), buf.precision)
                start = self.scope.spread(nothing, outer.axes | {axis.place})
                name = self.scope.let(f"{buf.name}_wide", start.text)
                self.memory.locals[buf] = wide = Register(name, start.axes, len(self.scope.guards))
                yield buf, op, wide, outer

    def serial(self, loop: For) -> None:
        """One iteration after the other. Where the bounds vary within a block, those that some lack are masked."""
        scope = self.scope
        name = scope.new(loop.sym.name)
        scope.syms[loop.sym] = Index(name)
        self.hazards.before(loop.body)
        guards: tuple[Guard, ...] = ()
        with self.firsts(loop):
            varies = scope.axes_of(*(index for index, _ in quotients(loop)))
            if not varies:
                step = f", {loop.step}" if loop.step != 1 else ""
                self.line(f"for {name} in range({scope.start(loop.lo)}, {scope.stop(loop.hi)}{step}):")
        if varies:
            self.line(f"for {name} in range({loop.sym.lo}, {loop.sym.hi + 1}):")
            guards = tuple(self.bounds(loop))
        with scope.deeper(), scope.guarded(*guards), self.hazards.loop(loop.body):
            self.statements(loop.body)

    @contextmanager
    def firsts(self, loop: For) -> Iterator[None]:
        """Symbols are what they are where their block begins, if the loop has the same bounds in all of it."""
        syms, same = self.scope.syms, list(quotients(loop))
        first = {
            axis.sym: self.starts[axis.sym] for axis in self.layout.grid
            if axis.sym in self.starts and all(is_same(index, div, axis.sym, axis.block) for index, div in same)
        }  # fmt: skip
        self.scope.syms = syms | first
        yield
        self.scope.syms = syms

    def bounds(self, loop: For) -> Iterator[Guard]:
        here = Affine.of(loop.sym)
        facts = [here * d - a for a, d in loop.lo.of] + [a - here * d for a, d in loop.hi.of]
        yield self.scope.guard(Cond(tuple(facts)))
        if loop.step != 1:
            text = f"((({self.scope.syms[loop.sym].text}) - ({self.scope.start(loop.lo)})) % {loop.step} == 0)"
            yield Guard(text, self.scope.axes_of(*(a for a, _ in loop.lo.of)), frozenset((loop.sym,)))

    # ------------------------------------------------------------------------------------------------- conditions

    def choice(self, cond: Cond, then: Body, orelse: Body) -> None:
        scope = self.scope
        if cond.is_true:
            self.statements(then)
            return
        if self.factors:  # each of them is guarded by what it can tell
            self.conds.append(cond)
            self.statements(then)
            self.conds.pop()
            return
        guard = scope.guard(cond)
        if guard.axes:
            guard = replace(guard, text=scope.let("when", guard.text))
            with scope.guarded(guard):
                self.statements(then)
            with scope.guarded(guard.negated):
                self.statements(orelse)
            return
        self.line(f"if {guard.text}:")
        with scope.deeper(), self.hazards.branch():
            self.statements(then)
        if orelse:
            self.line("else:")
            with scope.deeper(), self.hazards.branch():
                self.statements(orelse)

    def pick(self, sym: Sym, value: Expr, inner: Body) -> None:
        made = self.operations.typed(self.value(value))
        name = self.scope.let(sym.name, made.text)
        self.scope.syms[sym] = Index(name, made.axes)
        test = f"({name} >= {sym.lo}) & ({name} <= {sym.hi})"
        if made.axes:
            inside = self.scope.let(f"{sym.name}_inside", test)
            with self.scope.guarded(Guard(inside, made.axes, frozenset((sym,)))):
                self.statements(inner)
            return
        self.line(f"if {test}:")
        with self.scope.deeper(), self.hazards.branch():
            self.statements(inner)

    # ----------------------------------------------------------------------------------------------------- values

    def value(self, expr: Expr) -> Value:
        match expr:
            case Num(value, precision):
                return self.operations.number(value, precision)
            case Idx(index, precision):
                place = self.scope.index(index)
                return self.operations.whole_number(place.text, precision, place.axes)
            case Var(name, _):
                return self.lets[name]
            case Load(ref):
                return self.memory.load(ref)
            case Cast(value, precision):
                return self.operations.cast(self.value(value), precision)
            case Apply(op, args):
                return self.operations.apply(op, [self.value(arg) for arg in args])
            case When(cond, then, orelse):
                return self.when(cond, then, orelse)

    def when(self, cond: Cond, then: Expr, orelse: Expr) -> Value:
        if cond.is_true:
            return self.value(then)
        guard = self.scope.guard(cond)
        with self.scope.guarded(guard):
            first = self.operations.typed(self.value(then))
        with self.scope.guarded(guard.negated):
            second = self.operations.typed(self.value(orelse))
        text = f"tl.where({guard.text}, {first.text}, {second.text})"
        return Value(text, first.precision, guard.axes | first.axes | second.axes)

