"""One kernel being written: statements of a program, in the words of triton.

Loops that have an axis run in blocks: their symbol is a block of numbers, and all that depends on it varies along the
axis. Where not all of a block is meant, because a loop has no more iterations or a condition fails for some, loads and
stores are masked; what is summed is neutral there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod

from ocannl.backend import Unsupported
from ocannl.codegen import Document, printable
from ocannl.ir.index import Affine, Bound, Cond, Sym, SymKind
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
from ocannl_backend_triton.axes import Axis, Layout, address
from ocannl_backend_triton.hazards import Hazards
from ocannl_backend_triton.types import held
from ocannl_backend_triton.values import NOWHERE, Axes, Operations, Value

MOST = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Index:
    """A symbol or an index as text."""

    text: str
    axes: Axes = NOWHERE


@dataclass(frozen=True, slots=True)
class Guard:
    """What has to hold for an iteration to be meant; `syms` are those that it depends on, none meaning all."""

    text: str
    axes: Axes
    syms: frozenset[Sym]


@dataclass(frozen=True, slots=True)
class Register:
    """A local number, of which there is one in each place along the axes; `depth` guards hold where it was made."""

    name: str
    axes: Axes
    depth: int


@dataclass(frozen=True, slots=True)
class Scratch:
    """A local array, of which each program has one in each place along the axes, in memory that nobody else sees."""

    base: Index
    stride: int
    depth: int


class Emitter:
    def __init__(
        self, layout: Layout, names: Namer, operations: Operations, hazards: Hazards, parameters: Mapping[Buf, str]
    ) -> None:
        self.layout, self.new, self.operations, self.hazards = layout, names, operations, hazards
        self.parameters = parameters
        self.doc = Document()
        self.indent = "    "
        self.statics: dict[Sym, Index] = {}
        self.syms: dict[Sym, Index] = {}
        self.lets: dict[str, Value] = {}
        self.locals: dict[Buf, Register | Scratch] = {}
        self.guards: list[Guard] = []
        self.active: dict[int, str] = {}  # axes that blocks vary along here, with their sizes
        self.constants: dict[str, int] = {}
        self.scratch: list[tuple[str, Buf, int]] = []  # parameter, array, how many of it
        self.blocks: dict[Sym, str] = {}

    # ------------------------------------------------------------------------------------------------------ lines

    def line(self, text: str) -> None:
        self.doc.line(self.indent + text)

    @contextmanager
    def deeper(self) -> Iterator[None]:
        self.indent += "    "
        yield
        self.indent = self.indent[:-4]

    @contextmanager
    def guarded(self, *guards: Guard) -> Iterator[None]:
        self.guards += guards
        yield
        del self.guards[len(self.guards) - len(guards) :]

    # ----------------------------------------------------------------------------------------------------- kernel

    def kernel(self, body: Body) -> None:
        """The statements as the body of a function of one program."""
        grid = self.layout.grid
        step = 1
        for axis in reversed(grid):
            pid = "tl.program_id(0)" if step == 1 else f"tl.program_id(0) // {step}"
            step *= axis.count
            if axis.count == 1:
                self.blocks[axis.sym] = ""
            elif axis is grid[0]:
                self.blocks[axis.sym] = pid
            else:
                self.blocks[axis.sym] = f"{pid} % {axis.count}"
        self.programs = step
        self.statements(body)

    def block(self, body: Body) -> None:
        before = len(list(self.doc.lines()))
        for stmt in body:
            self.statement(stmt)
        if len(list(self.doc.lines())) == before:
            self.line("pass")

    def statement(self, stmt: Stmt) -> None:
        match stmt:
            case For(): self.loop(stmt)
            case If(cond, then, orelse): self.choice(cond, then, orelse)
            case Pick(sym, value, inner): self.pick(sym, value, inner)
            case Store(ref, value): self.store(ref, self.value(value))
            case Update(ref, op, value): self.update(ref, op, self.value(value))
            case Let(name, value):
                made = self.operations.typed(self.value(value))
                text = self.new(name)
                self.line(f"{text} = {made.text}")
                self.lets[name] = Value(text, made.precision, made.axes)
            case Local(buf, fill): self.local(buf, fill)
            case Comment(text): self.line(f"# {printable(text)}")
            case Poll(): pass  # whoever launches kernels looks between them
            case _: raise Unsupported(f"backend `triton` knows no statement {type(stmt).__name__}")

    # ------------------------------------------------------------------------------------------------------ loops

    def loop(self, loop: For) -> None:
        if loop.sym.extent == 0:
            return
        axis = self.layout.axes.get(loop.sym)
        if axis is None:
            self.serial(loop)
        elif axis.grid:
            self.enter(axis, self.blocks[axis.sym])
        else:
            self.blocked(axis)

    def enter(self, axis: Axis, block: str) -> None:
        """One block of iterations; `block` is its number, if there is more than one."""
        name = self.new(axis.sym.name)
        parts = [str(axis.sym.lo)] if axis.sym.lo else []
        if axis.block == 1:
            self.line(f"{name} = {' + '.join([block or '0', *parts])}")
            self.syms[axis.sym] = Index(name)
            self.statements(axis.loop.body)
            return
        size = self.constant(f"BLOCK_{axis.sym.name}", axis.block)
        if block:
            parts.append(f"({block}) * {size}" if " " in block else f"{block} * {size}")
        self.line(f"{name} = {' + '.join([*parts, self.arange(size, axis.place)])}")
        self.syms[axis.sym] = Index(name, frozenset((axis.place,)))
        self.within(axis, name, size)

    def within(self, axis: Axis, name: str, size: str) -> None:
        edge = () if axis.is_even else (self.edge(axis, name),)
        outside = self.active.get(axis.place)
        self.active[axis.place] = size
        with self.guarded(*edge):
            self.statements(axis.loop.body)
        if outside is None:
            del self.active[axis.place]

    def edge(self, axis: Axis, name: str) -> Guard:
        inside = self.new(f"{axis.sym.name}_inside")
        self.line(f"{inside} = {name} < {axis.sym.hi + 1}")
        return Guard(inside, frozenset((axis.place,)), frozenset((axis.sym,)))

    def statements(self, body: Body) -> None:
        for stmt in body:
            self.statement(stmt)

    def blocked(self, axis: Axis) -> None:
        """A loop over blocks; what is summed is summed place by place first, and folded in the end."""
        if axis.count == 1:
            self.enter(axis, "")
            return
        size = self.constant(f"BLOCK_{axis.sym.name}", axis.block)
        sums = self.sums(axis, size)
        start, name = self.new(f"{axis.sym.name}_start"), self.new(axis.sym.name)
        self.line(f"for {start} in range({axis.sym.lo}, {axis.sym.hi + 1}, {size}):")
        with self.deeper():
            self.line(f"{name} = {start} + {self.arange(size, axis.place)}")
            self.syms[axis.sym] = Index(name, frozenset((axis.place,)))
            self.hazards.enter()
            self.within(axis, name, size)
            self.hazards.leave()
        for buf, op, wide, outer in sums:
            self.locals[buf] = outer
            self.active[axis.place] = size
            self.update(Ref(buf, ()), op, Value(wide.name, buf.precision, wide.axes))
            del self.active[axis.place]

    def sums(self, axis: Axis, size: str) -> list[tuple[Buf, Op, Register, Register]]:
        """Registers that the loop only adds to get a wider one while it runs."""
        found: dict[Buf, Op] = {}
        for node in walk(axis.loop.body):
            if isinstance(node, Update) and isinstance(self.locals.get(node.ref.buf), Register):
                found.setdefault(node.ref.buf, node.op)
        made = []
        for buf, op in found.items():
            outer = self.locals[buf]
            assert isinstance(outer, Register)
            if axis.place in outer.axes:
                continue
            name = self.new(f"{buf.name}_wide")
            axes = outer.axes | {axis.place}
            self.active[axis.place] = size
            neutral = self.operations.number(op.neutral or 0, buf.precision)
            self.line(f"{name} = {self.full(neutral, axes)}")
            del self.active[axis.place]
            self.locals[buf] = wide = Register(name, axes, len(self.guards))
            made.append((buf, op, wide, outer))
        return made

    def serial(self, loop: For) -> None:
        """One iteration after the other. Where the bounds vary within a block, those that some lack are masked."""
        name = self.new(loop.sym.name)
        varying = any(self.index_axes(a) for bound in (loop.lo, loop.hi) for a, _ in bound.of)
        self.syms[loop.sym] = Index(name)
        if not varying:
            step = f", {loop.step}" if loop.step != 1 else ""
            self.line(f"for {name} in range({self.start(loop.lo)}, {self.stop(loop.hi)}{step}):")
            guards: tuple[Guard, ...] = ()
        else:
            self.line(f"for {name} in range({loop.sym.lo}, {loop.sym.hi + 1}):")
            guards = tuple(self.bounds(loop))
        with self.deeper(), self.guarded(*guards):
            self.hazards.enter()
            self.block(loop.body)
            self.hazards.leave()

    def bounds(self, loop: For) -> Iterator[Guard]:
        here = Affine.of(loop.sym)
        facts = [here * d - a for a, d in loop.lo.of] + [a - here * d for a, d in loop.hi.of]
        yield self.guard(Cond(tuple(facts)))
        if loop.step != 1:
            start = self.start(loop.lo)
            axes = NOWHERE.union(*(self.index_axes(a) for a, _ in loop.lo.of))
            text = f"(({self.syms[loop.sym].text} - {start}) % {loop.step} == 0)"
            yield Guard(text, axes, frozenset((loop.sym,)))

    def start(self, bound: Bound) -> str:
        return self.extreme("maximum", [self.quotient(a + (d - 1), d) for a, d in bound.of])

    def stop(self, bound: Bound) -> str:
        ends = [self.index(a + 1).text if d == 1 else f"{self.quotient(a, d)} + 1" for a, d in bound.of]
        return self.extreme("minimum", ends)

    def quotient(self, index: Affine, div: int) -> str:
        """Rounded down; what is divided is made positive, for which every division rounds so."""
        if div == 1:
            return self.index(index).text
        low = 0 if any(s.extent == 0 for s in index.syms) else index.range()[0]
        lift = -(-max(-low, 0) // div)
        text = f"({self.index(index + lift * div).text}) // {div}"
        return f"{text} - {lift}" if lift else text

    def extreme(self, function: str, parts: list[str]) -> str:
        text = parts[0]
        for part in parts[1:]:
            text = f"tl.{function}({text}, {part})"
        return text

    # ------------------------------------------------------------------------------------------------- conditions

    def choice(self, cond: Cond, then: Body, orelse: Body) -> None:
        if cond.is_true:
            self.statements(then)
            return
        guard = self.guard(cond)
        if guard.axes:
            name = self.new("when")
            self.line(f"{name} = {guard.text}")
            with self.guarded(replace(guard, text=name)):
                self.statements(then)
            if orelse:
                with self.guarded(replace(guard, text=f"({name} == 0)")):
                    self.statements(orelse)
            return
        self.line(f"if {guard.text}:")
        with self.deeper():
            self.block(then)
        if orelse:
            self.line("else:")
            with self.deeper():
                self.block(orelse)

    def pick(self, sym: Sym, value: Expr, inner: Body) -> None:
        made = self.value(value)
        name = self.new(sym.name)
        self.line(f"{name} = {self.operations.typed(made).text}")
        self.syms[sym] = Index(name, made.axes)
        test = f"({name} >= {sym.lo}) & ({name} <= {sym.hi})"
        if not made.axes:
            self.line(f"if {test}:")
            with self.deeper():
                self.block(inner)
            return
        inside = self.new(f"{sym.name}_inside")
        self.line(f"{inside} = {test}")
        with self.guarded(Guard(inside, made.axes, frozenset((sym,)))):
            self.statements(inner)

    def guard(self, cond: Cond) -> Guard:
        facts = [(a, ">= 0") for a in cond.ge0] + [(a, "== 0") for a in cond.eq0]
        text = " & ".join(f"({self.index(a).text} {test})" for a, test in facts)
        axes = NOWHERE.union(*(self.index_axes(a) for a, _ in facts))
        return Guard(f"({text})" if len(facts) > 1 else text, axes, frozenset(cond.syms))

    def mask(self, guards: Sequence[Guard]) -> Index | None:
        if not guards:
            return None
        texts = list(dict.fromkeys(guard.text for guard in guards))
        text = " & ".join(texts)
        return Index(f"({text})" if len(texts) > 1 else text, NOWHERE.union(*(guard.axes for guard in guards)))

    # ---------------------------------------------------------------------------------------------------- indices

    def sym(self, sym: Sym) -> Index:
        if sym.kind is SymKind.STATIC and sym not in self.statics:
            name = self.new(sym.name)
            self.statics[sym] = Index(name)
        return self.statics[sym] if sym.kind is SymKind.STATIC else self.syms[sym]

    def index_axes(self, index: Affine) -> Axes:
        return NOWHERE.union(*(self.sym(s).axes for s in index.syms))

    def index(self, index: Affine) -> Index:
        wide = all(s.extent for s in index.syms) and max(map(abs, index.range())) > MOST
        text = ""
        for coef, sym in index.terms:
            name = f"tl.cast({self.sym(sym).text}, tl.int64)" if wide else self.sym(sym).text
            sign = (" - " if coef < 0 else " + ") if text else ("-" if coef < 0 else "")
            text += sign + (name if abs(coef) == 1 else f"{abs(coef)} * {name}")
        if index.const or not text:
            text += f" {'+' if index.const > 0 else '-'} {abs(index.const)}" if text else str(index.const)
        return Index(text, self.index_axes(index))

    # ----------------------------------------------------------------------------------------------------- blocks

    def constant(self, name: str, value: int) -> str:
        text = self.new(name)
        self.constants[text] = value
        return text

    def arange(self, size: str, place: int) -> str:
        at = ", ".join(":" if n == place else "None" for n in range(self.layout.rank))
        return f"tl.arange(0, {size})" + (f"[{at}]" if self.layout.rank > 1 else "")

    def shape(self, axes: Axes) -> str:
        if not axes:
            return "()"
        return f"[{', '.join(self.active[n] if n in axes else '1' for n in range(self.layout.rank))}]"

    def full(self, value: Value, axes: Axes) -> str:
        """A constant along the axes."""
        number = value.text.removeprefix("tl.full((), ").rpartition(", ")[0] if not value.literal else value.text
        return f"tl.full({self.shape(axes)}, {number}, {held(value.precision).value})"

    def spread(self, value: Value, axes: Axes) -> Value:
        """The same along more axes."""
        if axes <= value.axes:
            return value
        axes |= value.axes
        if value.literal:
            return Value(self.full(value, axes), value.precision, axes)
        return Value(f"tl.broadcast_to({value.text}, {self.shape(axes)})", value.precision, axes)

    # ----------------------------------------------------------------------------------------------------- memory

    def pointer(self, ref: Ref, guards: Sequence[Guard]) -> tuple[str, Axes, str]:
        """The address, the axes it varies along, and `mask=...` as far as there is one."""
        place = self.index(address(ref))
        local = self.locals.get(ref.buf)
        if isinstance(local, Scratch):
            text = f"{local.base.text} + ({place.text}) * {local.stride}"
            axes = local.base.axes | place.axes
        else:
            name = self.parameters[ref.buf]
            text = name if place.text == "0" else f"{name} + {place.text}"
            axes = place.axes
        mask = self.mask(guards)
        if mask is None:
            return text, axes, ""
        if not mask.axes <= axes:
            text = f"tl.broadcast_to({text}, {self.shape(axes | mask.axes)})"
            axes |= mask.axes
        return text, axes, f", mask={mask.text}"

    def load(self, ref: Ref) -> Value:
        local = self.locals.get(ref.buf)
        if isinstance(local, Register):
            return Value(local.name, ref.buf.precision, local.axes)
        syms = {s for at in ref.at for s in at.syms}
        guards = [g for g in self.guards if not g.axes or g.syms & syms]
        text, axes, mask = self.pointer(ref, guards)
        other = f"{mask}, other=0" if mask else ""
        return Value(f"tl.load({text}{other})", ref.buf.precision, axes)

    def store(self, ref: Ref, value: Value) -> None:
        local = self.locals.get(ref.buf)
        if isinstance(local, Register):
            self.assign(local, value)
            return
        self.barrier(ref.buf)
        text, _, mask = self.pointer(ref, self.guards)
        self.line(f"tl.store({text}, {self.operations.typed(value).text}{mask})")
        self.barrier(ref.buf)

    def assign(self, register: Register, value: Value) -> None:
        mask = self.mask(self.guards[register.depth :])
        if mask is None:
            self.line(f"{register.name} = {self.spread(self.operations.typed(value), register.axes).text}")
        else:
            chosen = f"tl.where({mask.text}, {self.operations.typed(value).text}, {register.name})"
            self.line(f"{register.name} = {chosen}")

    def update(self, ref: Ref, op: Op, value: Value) -> None:
        local = self.locals.get(ref.buf)
        if isinstance(local, Register):
            guards, axes = self.guards[local.depth :], local.axes
        else:
            guards, axes = self.guards, self.pointer(ref, ())[1]
        folded = frozenset(self.active) - axes
        if folded:
            value = self.folded(op, value, guards, folded)
            guards = [g for g in guards if not g.axes & folded]
        if isinstance(local, Register):
            old = Value(local.name, ref.buf.precision, local.axes)
            new = self.operations.apply(op, (old, value))
            meant = self.mask(guards)
            text = new.text if meant is None else f"tl.where({meant.text}, {new.text}, {local.name})"
            self.line(f"{local.name} = {text}")
            return
        self.barrier(ref.buf)
        text, axes, mask = self.pointer(ref, guards)
        where = self.new("at")
        self.line(f"{where} = {text}")
        old = Value(f"tl.load({where}{mask}{', other=0' if mask else ''})", ref.buf.precision, axes)
        self.line(f"tl.store({where}, {self.operations.apply(op, (old, value)).text}{mask})")
        self.barrier(ref.buf)

    def folded(self, op: Op, value: Value, guards: Sequence[Guard], axes: Axes) -> Value:
        """What a block comes to along some axes; what is not meant counts as neutral."""
        mask = self.mask([guard for guard in guards if guard.axes & axes])
        if mask is not None:
            neutral = self.operations.typed(self.operations.number(op.neutral or 0, value.precision))
            value = self.operations.typed(value)
            text = f"tl.where({mask.text}, {value.text}, {neutral.text})"
            value = Value(text, value.precision, value.axes | mask.axes)
        value = self.spread(value, axes)
        rest = value.axes - axes
        function = self.operations.combine(op, value.precision)
        text = value.text
        if not rest:
            if self.layout.rank > 1:
                text = f"tl.reshape({text}, [{' * '.join(self.active[n] for n in sorted(axes))}])"
            return Value(f"tl.reduce({text}, 0, {function})", value.precision)
        for axis in sorted(axes):
            text = f"tl.reduce({text}, {axis}, {function}, keep_dims=True)"
        return Value(text, value.precision, rest)

    def barrier(self, buf: Buf) -> None:
        """All threads of a program see what each of them wrote; in between, each knows only its own."""
        if isinstance(self.locals.get(buf), Scratch) or self.hazards.meets(buf):
            self.line("tl.debug_barrier()")

    def local(self, buf: Buf, fill: int | float | None) -> None:
        axes = frozenset(self.active)
        name = self.new(buf.name)
        start = self.operations.number(0 if fill is None else fill, buf.precision)
        if not buf.shape:
            self.line(f"{name} = {self.full(start, axes)}")
            self.locals[buf] = Register(name, axes, len(self.guards))
            return
        width = prod(self.constants[self.active[n]] for n in axes)
        self.scratch.append((name, buf, width * self.programs))
        lane, step = "", 1
        for n in sorted(axes, reverse=True):
            part = self.arange(self.active[n], n)
            lane += f" + {part}" + (f" * {step}" if step > 1 else "")
            step *= self.constants[self.active[n]]
        base = self.new(f"{buf.name}_base")
        own = f" + tl.program_id(0) * {width * buf.size}" if self.programs > 1 else ""
        self.line(f"{base} = {name}{own}{lane}")
        self.locals[buf] = Scratch(Index(base, axes), width, len(self.guards))
        if fill is not None and buf.size:
            cell = self.new("cell")
            self.line("tl.debug_barrier()")
            self.line(f"for {cell} in range({buf.size}):")
            with self.deeper():
                self.line(f"tl.store({base} + {cell} * {width}, {self.spread(start, axes).text})")
            self.line("tl.debug_barrier()")

    # ----------------------------------------------------------------------------------------------------- values

    def value(self, expr: Expr) -> Value:
        held(expr.precision)
        match expr:
            case Num(value, precision):
                return self.operations.number(value, precision)
            case Idx(index, precision):
                place = self.index(index)
                return self.operations.whole_number(place.text, precision, place.axes)
            case Var(name, _):
                return self.lets[name]
            case Load(ref):
                return self.load(ref)
            case Cast(value, precision):
                return self.operations.cast(self.value(value), precision)
            case Apply(op, args):
                return self.operations.apply(op, [self.value(arg) for arg in args])
            case When(cond, then, orelse):
                return self.when(cond, then, orelse)

    def when(self, cond: Cond, then: Expr, orelse: Expr) -> Value:
        if cond.is_true:
            return self.value(then)
        guard = self.guard(cond)
        with self.guarded(guard):
            first = self.operations.typed(self.value(then))
        with self.guarded(replace(guard, text=f"({guard.text} == 0)")):
            second = self.operations.typed(self.value(orelse))
        text = f"tl.where({guard.text}, {first.text}, {second.text})"
        return Value(text, first.precision, guard.axes | first.axes | second.axes)
