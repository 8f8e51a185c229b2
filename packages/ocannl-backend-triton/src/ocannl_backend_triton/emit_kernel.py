"""Emits the statements of one kernel as Triton code.

A loop mapped to an axis runs in blocks: its symbol is a block of integers, and everything that depends on it varies
along the axis. Where iterations of a block are inactive, past the end of the loop or under a false condition, loads and
stores are masked and reductions take the neutral element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import isqrt

from ocannl.backend import Unsupported
from ocannl.codegen import printable
from ocannl.ir.affine import Affine, Cond, Sym
from ocannl.ir.loops import (
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
    Poll,
    Prefetch,
    ReadClock,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
    When,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD, Op, neutral_element
from ocannl.ir.walk import walk
from ocannl_backend_triton import dot, owner_computes_scatter
from ocannl_backend_triton.addressing import MemoryEmitter, Register
from ocannl_backend_triton.barriers import Hazards
from ocannl_backend_triton.emitter_protocol import DotOperand
from ocannl_backend_triton.loop_analysis import bound_quotients, is_uniform_in_block
from ocannl_backend_triton.loop_mapping import BlockAxis, BlockLayout
from ocannl_backend_triton.scope import Guard, IndexText, Scope
from ocannl_backend_triton.values import BlockValue, OperationPrinter

MAX_SUMMED_BLOCKS = 94  # added one after the other; rounding errors of more could exceed the bound in docs/numbers.md


class Emitter:
    """Emits one kernel; `parameters` names the pointer parameters of global arrays."""

    def __init__(
        self,
        layout: BlockLayout,
        names: Namer,
        operations: OperationPrinter,
        hazards: Hazards,
        parameters: Mapping[Buf, str],
        input_precision: str,
    ) -> None:
        self.layout, self.operations, self.input_precision = layout, operations, input_precision
        self.scope = Scope(layout.rank, names)
        self.line = self.scope.line
        self.hazards = hazards
        hazards.emit_barrier = lambda: self.line("tl.debug_barrier()")
        self.lets: dict[str, BlockValue] = {}
        self.memory = MemoryEmitter(self.scope, operations, hazards, parameters, layout)
        self.block_numbers: dict[Sym, str] = {}  # of grid axes: which block the program executes
        self.block_starts: dict[Sym, IndexText] = {}  # the first iteration of a block
        self.dot_operands: tuple[DotOperand, ...] = ()  # of the product whose reduction loop is being emitted
        self.dot_conditions: list[Cond] = []  # around its update

    def kernel(self, body: Body) -> None:
        """Emits the statements as the body of the kernel function."""
        grid, programs = self.layout.grid_axes, 1
        for axis in reversed(grid):
            pid = "tl.program_id(0)" if programs == 1 else f"tl.program_id(0) // {programs}"
            programs *= axis.num_blocks
            is_outermost = axis is grid[0] and self.layout.owned_rows is None
            number = pid if is_outermost else f"{pid} % {axis.num_blocks}"
            self.block_numbers[axis.sym] = number if axis.num_blocks > 1 else ""
        dot.group_programs(self)
        self.statements(body)

    def statements(self, body: Body) -> None:
        remaining = list(reversed(body))
        while remaining:
            stmt = remaining.pop()
            match stmt, remaining[-1:]:
                case Local(buf, None), [Store(Ref(initialized, ()), value)] if initialized is buf:
                    self.memory.declare_local(buf, self.value(value))
                    remaining.pop()
                case _:
                    self.statement(stmt)

    def statement(self, stmt: Stmt) -> None:
        self.hazards.begin_statement()
        match stmt:
            case For(): self.loop(stmt)
            case If(cond, body, else_body): self.conditional(cond, body, else_body)
            case BindIndex(sym, value, inner): self.bind_index(sym, value, inner)
            case Store(ref, value): self.memory.store(ref, self.value(value))
            case Update() if self.dot_operands: dot.emit_dot(self, stmt)
            case Update(ref, op, value): self.memory.update(ref, op, self.value(value))
            case Let(name, value):
                bound = self.operations.with_type(self.value(value))
                self.lets[name] = replace(bound, text=self.scope.let(name, bound.text), condition="", constant="")
            case Local(buf, fill):
                self.memory.declare_local(buf, self.operations.number(fill or 0, buf.precision), fill is not None)
            case Comment(text): self.line(f"# {printable(text)}")
            case Poll() | Prefetch(): pass  # cancellation is checked between launches
            case ReadClock(): raise Unsupported("backend `triton` has no `timestamps`")
            case _: raise Unsupported(f"backend `triton` does not support the statement {type(stmt).__name__}")

    # ------------------------------------------------------------------------------------------------------ loops

    def loop(self, loop: For) -> None:
        if loop.sym.extent == 0:
            return
        axis, owned_rows = self.layout.axes.get(loop.sym), self.layout.owned_rows
        if owned_rows is not None and loop is owned_rows.loop:
            owner_computes_scatter.emit_owned_iterations(self, owned_rows)
        elif axis is None:
            self.serial_loop(loop)
        elif loop.sym in self.layout.products:
            dot.emit_product(self, axis, self.layout.products[loop.sym])
        elif axis.is_grid or axis.num_blocks == 1:
            self.single_block(axis, self.block_numbers.get(axis.sym, ""))
        else:
            self.block_loop(axis)

    def single_block(self, axis: BlockAxis, block: str) -> None:
        """One block of iterations; `block` is its number, empty if there is only one."""
        scope = self.scope
        parts = [str(axis.sym.lo)] if axis.sym.lo else []
        if axis.block_size == 1:
            scope.syms[axis.sym] = IndexText(scope.let(axis.sym.name, " + ".join([block or "0", *parts])))
            self.statements(axis.loop.body)
            return
        size = scope.constant(f"BLOCK_{axis.sym.name}", axis.block_size)
        if block:
            parts.append(f"({block}) * {size}" if " " in block else f"{block} * {size}")
        self.block_starts[axis.sym] = IndexText(" + ".join(parts) or "0")
        self.block_body(axis, " + ".join([*parts, scope.arange(size, axis.position)]), size)

    def block_body(self, axis: BlockAxis, value: str, size: str) -> None:
        """The loop body, for a block of iterations."""
        self.scope.let_symbol(axis.sym, value, frozenset((axis.position,)))
        with self.scope.along_axis(axis.position, size), self.scope.guarded(*self.boundary_guards(axis)):
            self.statements(axis.loop.body)

    def boundary_guards(self, axis: BlockAxis, position: int | None = None) -> tuple[Guard, ...]:
        """The guard against iterations past the end, unless blocks divide the trip count."""
        if axis.is_even:
            return ()
        inside = self.scope.let(f"{axis.sym.name}_mask", f"{self.scope.sym(axis.sym).text} < {axis.sym.hi + 1}")
        varying = frozenset((axis.position if position is None else position,))
        return (Guard(inside, varying, frozenset((axis.sym,)), is_boundary=True),)

    def block_loop(self, axis: BlockAxis) -> None:
        """A serial loop over blocks. Reductions accumulate blocks elementwise, which are reduced after the loop."""
        scope = self.scope
        size = scope.constant(f"BLOCK_{axis.sym.name}", axis.block_size)
        with scope.along_axis(axis.position, size):
            accumulators = list(self.widen_accumulators(axis))
        sums = [(buf, wide) for buf, op, wide, _ in accumulators if op is ADD and buf.precision.is_float]
        if sums and axis.num_blocks > MAX_SUMMED_BLOCKS:
            self.nested_block_loops(axis, size, sums)
        else:
            start = self.block_loop_header(axis, size)
            with scope.indented(), self.hazards.loop(axis.loop.body):
                self.block_body(axis, f"{start} + {scope.arange(size, axis.position)}", size)
        for buf, op, wide, outer in accumulators:
            self.memory.locals[buf] = outer
            with scope.along_axis(axis.position, size):
                self.memory.update(Ref(buf, ()), op, BlockValue(wide.name, buf.precision, wide.axes))

    def nested_block_loops(self, axis: BlockAxis, size: str, sums: Sequence[tuple[Buf, Register]]) -> None:
        """Two loops over blocks. The sums of the inner one are added to those of the outer one, so that a term takes
        part in about twice the square root of the number of blocks additions."""
        scope, inner_blocks = self.scope, isqrt(axis.num_blocks - 1) + 1
        with scope.along_axis(axis.position, size):
            zeros = {
                buf: scope.broadcast(self.operations.number(0, buf.precision), wide.axes).text for buf, wide in sums
            }
        totals = {wide.name: scope.let(f"{wide.name}_total", zeros[buf]) for buf, wide in sums}
        self.hazards.before_loop(axis.loop.body)
        part, start = (scope.fresh_name(f"{axis.sym.name}_{suffix}") for suffix in ("part", "start"))
        stop = axis.sym.hi + 1
        self.line(f"for {part} in range({axis.sym.lo}, {stop}, {inner_blocks} * {size}):")
        with scope.indented():
            for buf, wide in sums:
                self.line(f"{wide.name} = {zeros[buf]}")
            self.line(f"for {start} in range({part}, tl.minimum({part} + {inner_blocks} * {size}, {stop}), {size}):")
            with scope.indented(), self.hazards.loop(axis.loop.body):
                self.block_body(axis, f"{start} + {scope.arange(size, axis.position)}", size)
            for _, wide in sums:
                self.line(f"{totals[wide.name]} += {wide.name}")
        for _, wide in sums:
            self.line(f"{wide.name} = {totals[wide.name]}")

    def block_loop_header(self, axis: BlockAxis, size: str) -> str:
        self.hazards.before_loop(axis.loop.body)
        start = self.scope.fresh_name(f"{axis.sym.name}_start")
        self.line(f"for {start} in range({axis.sym.lo}, {axis.sym.hi + 1}, {size}):")
        return start

    def widen_accumulators(self, axis: BlockAxis) -> Iterator[tuple[Buf, Op, Register, Register]]:
        """Replaces registers that the loop only updates by blocks along the axis while the loop runs."""
        updates: dict[Buf, Op] = {}
        for node in walk(axis.loop.body):
            if isinstance(node, Update) and isinstance(self.memory.locals.get(node.ref.buf), Register):
                updates.setdefault(node.ref.buf, node.op)
        for buf, op in updates.items():
            outer = self.memory.locals[buf]
            if isinstance(outer, Register) and axis.position not in outer.axes:
                identity = self.operations.number(neutral_element(op, buf.precision), buf.precision)
                start = self.scope.broadcast(identity, outer.axes | {axis.position})
                name = self.scope.let(f"{buf.name}_wide", start.text)
                self.memory.locals[buf] = wide = Register(name, start.axes, len(self.scope.guards))
                yield buf, op, wide, outer

    def serial_loop(self, loop: For) -> None:
        """A loop over single iterations. Bounds that vary within a block become masks in a loop over the full range."""
        scope = self.scope
        name = scope.fresh_name(loop.sym.name)
        scope.syms[loop.sym] = IndexText(name)
        self.hazards.before_loop(loop.body)
        guards: tuple[Guard, ...] = ()
        with self.uniform_symbols(loop):
            varies = scope.axes_of(*(index for index, _ in bound_quotients(loop)))
            if not varies:
                step = f", {loop.step}" if loop.step != 1 else ""
                self.line(f"for {name} in range({scope.start(loop.lo)}, {scope.stop(loop.hi)}{step}):")
        if varies:
            self.line(f"for {name} in range({loop.sym.lo}, {loop.sym.hi + 1}):")
            guards = tuple(self.bound_guards(loop))
        with scope.indented(), scope.guarded(*guards), self.hazards.loop(loop.body):
            self.statements(loop.body)

    @contextmanager
    def uniform_symbols(self, loop: For) -> Iterator[None]:
        """Evaluates symbols at the start of their block if the loop bounds are uniform within it."""
        syms, quotients = self.scope.syms, list(bound_quotients(loop))
        first = {
            axis.sym: self.block_starts[axis.sym]
            for axis in self.layout.grid_axes
            if axis.sym in self.block_starts
            and all(is_uniform_in_block(index, div, axis.sym, axis.block_size) for index, div in quotients)
        }
        self.scope.syms = syms | first
        yield
        self.scope.syms = syms

    def bound_guards(self, loop: For) -> Iterator[Guard]:
        iteration = Affine.of(loop.sym)
        facts = [iteration * d - a for a, d in loop.lo.quotients] + [a - iteration * d for a, d in loop.hi.quotients]
        yield self.scope.guard(Cond(tuple(facts)))
        if loop.step != 1:
            text = f"((({self.scope.syms[loop.sym].text}) - ({self.scope.start(loop.lo)})) % {loop.step} == 0)"
            yield Guard(text, self.scope.axes_of(*(a for a, _ in loop.lo.quotients)), frozenset((loop.sym,)))

    # ------------------------------------------------------------------------------------------------- conditions

    def conditional(self, cond: Cond, body: Body, else_body: Body) -> None:
        scope = self.scope
        if cond.is_true:
            self.statements(body)
            return
        if self.dot_operands:  # each operand is masked by the conditions that it depends on
            self.dot_conditions.append(cond)
            self.statements(body)
            self.dot_conditions.pop()
            return
        guard = scope.guard(cond)
        if guard.axes:
            guard = replace(guard, text=scope.let("when", guard.text))
            with scope.guarded(guard):
                self.statements(body)
            with scope.guarded(guard.negated):
                self.statements(else_body)
            return
        self.line(f"if {guard.text}:")
        with scope.indented(), self.hazards.branch():
            self.statements(body)
        if else_body:
            self.line("else:")
            with scope.indented(), self.hazards.branch():
                self.statements(else_body)

    def bind_index(self, sym: Sym, value: Expr, inner: Body) -> None:
        index = self.operations.with_type(self.value(value))
        name = self.scope.let(sym.name, index.text)
        self.scope.syms[sym] = IndexText(name, index.axes)
        test = f"({name} >= {sym.lo}) & ({name} <= {sym.hi})"
        if index.axes:
            inside = self.scope.let(f"{sym.name}_mask", test)
            with self.scope.guarded(Guard(inside, index.axes, frozenset((sym,)))):
                self.statements(inner)
            return
        self.line(f"if {test}:")
        with self.scope.indented(), self.hazards.branch():
            self.statements(inner)

    # ----------------------------------------------------------------------------------------------------- values

    def value(self, expr: Expr) -> BlockValue:
        match expr:
            case Const(value, precision):
                return self.operations.number(value, precision)
            case IndexValue(index, precision):
                formula = self.scope.index(index)
                return self.operations.index_value(formula.text, precision, formula.axes)
            case Var(name, _):
                return self.lets[name]
            case Load(ref):
                return self.memory.load(ref)
            case Cast(value, precision):
                return self.operations.cast(self.value(value), precision)
            case Apply(op, args):
                return self.operations.apply(op, [self.value(arg) for arg in args])
            case When(cond, if_true, if_false):
                return self.select(cond, if_true, if_false)

    def select(self, cond: Cond, if_true: Expr, if_false: Expr) -> BlockValue:
        if cond.is_true:
            return self.value(if_true)
        guard = self.scope.guard(cond)
        with self.scope.guarded(guard):
            first = self.operations.with_type(self.value(if_true))
        with self.scope.guarded(guard.negated):
            second = self.operations.with_type(self.value(if_false))
        text = f"tl.where({guard.text}, {first.text}, {second.text})"
        return BlockValue(text, first.precision, guard.axes | first.axes | second.axes)

