"""Prints programs as Python text that Numba compiles: a function for each loop nest, and the entry function.

    @nest
    def step_1(addresses, symbols, control, first, limit):
        x = array_at(word(addresses + 0), float32)
        y = array_at(word(addresses + 8), float32)
        for i in range(first, limit):
            y[i] = x[i] * float32(2.0)
        return 0
    step_1_chunk = chunk(step_1, 0, 512, 64, 1)

    @entry
    def ocannl_step(addresses, symbols, control):
        cancelled = parallel_for(control, step_1_chunk.address, addresses, symbols, 8)
        return cancelled
"""

from __future__ import annotations

import keyword
from collections.abc import Sequence

from ocannl.backend import Unsupported
from ocannl.codegen import Document, Nest, holds_gil, outline_nests, pool_bufs, printable, rounded
from ocannl.ir import loops as ir
from ocannl.ir.affine import Affine, Bound, Cond, Sym
from ocannl.ir.name_mangling import Namer
from ocannl.ir.precision import Family, Precision
from ocannl_backend_numba import arithmetic, memory, runtime, vectors
from ocannl_backend_numba.lanes import VectorLoops, is_unrolled, register_arrays, updated

KINDS = {"bool": "uint8", **{name: name for name in arithmetic.NUMBERS}}
"""The types of Numba that store and compute each precision."""
NAMES = {**arithmetic.NAMES, **vectors.FUNCTIONS, **runtime.NAMES, "array_at": memory.array_at}
PARAMETERS = ("addresses", "symbols", "control", "first", "limit")
RESERVED = (*keyword.kwlist, *NAMES, *PARAMETERS, "thread", "cancelled", "stack", "range", "max", "min", "abs")


def symbol(name: str) -> str:
    """The name of the entry function of a program."""
    return f"ocannl_{name}"


def emit(procs: Sequence[ir.Proc], vector_bytes: int) -> str:
    doc = Document()
    names = Namer([*RESERVED, *(symbol(proc.name) for proc in procs)])
    for proc in procs:
        entry: list[str] = []
        for nest in outline_nests(proc):
            function = names(proc.name)
            NestPrinter(proc, nest, function, vector_bytes, doc).print()
            call = f"{function}(addresses, symbols, control, 0, 0)"
            if nest.parallel_loop is not None:
                loop = nest.parallel_loop
                bounds = f"{loop.first}, {loop.limit}, {loop.chunk_size}, {loop.poll_interval}"
                chunk = names(f"{function}_chunk")
                doc.line(f"{chunk} = chunk({function}, {bounds})")
                doc.line(f"{chunk}_address = {chunk}.address")
                call = f"parallel_for(control, {chunk}_address, addresses, symbols, {loop.num_chunks})"
            entry += ["    if cancelled == 0:", f"        cancelled = {call}"]
        if not holds_gil(proc):
            entry = ["    thread = release_gil(control)", *entry, "    acquire_gil(control, thread)"]
        for line in ("@entry", f"def {symbol(proc.name)}(addresses, symbols, control):", "    cancelled = int32(0)"):
            doc.line(line)
        for line in (*entry, "    return cancelled", ""):
            doc.line(line)
    return doc.text()


def kind(precision: Precision) -> str:
    if precision.name not in KINDS:
        raise Unsupported(f"{precision} is not among the `precisions` of backend `numba`")
    return KINDS[precision.name]


class NestPrinter:
    """Prints the function of one nest. Symbols of unrolled loops have constant values in `constants`."""

    def __init__(self, proc: ir.Proc, nest: Nest, function: str, vector_bytes: int, doc: Document) -> None:
        self.proc, self.nest, self.function, self.doc = proc, nest, function, doc
        self.namer = Namer(RESERVED)
        self.names: dict[ir.Buf | Sym | str, str] = {}
        self.constants: dict[Sym, Affine] = {}
        self.in_registers = register_arrays(nest.body, vector_bytes)
        self.lanes = VectorLoops(self, vector_bytes)

    def name(self, entity: ir.Buf | Sym | str) -> str:
        if entity not in self.names:
            self.rename(entity)
        return self.names[entity]

    def rename(self, entity: ir.Buf | Sym | str) -> str:
        """Another name, for the copy of a definition in an unrolled loop."""
        self.names[entity] = self.namer(entity if isinstance(entity, str) else entity.name)
        return self.names[entity]

    def print(self) -> None:
        line, pools = self.doc.line, pool_bufs(self.proc)
        line("@nest")
        line(f"def {self.function}({', '.join(PARAMETERS)}):")
        for buf in self.nest.bufs:
            in_arena = buf.space is ir.MemorySpace.ARENA
            region = len(pools) if in_arena else pools.index(buf)
            start = f" + {buf.offset}" if in_arena else ""
            line(f"    {self.name(buf)} = array_at(word(addresses + {8 * region}){start}, {kind(buf.precision)})")
        for sym in self.nest.syms:
            line(f"    {self.name(sym)} = word(symbols + {8 * self.proc.syms.index(sym)})")
        if self.nest.stack_bytes:
            line(f"    stack = on_stack({self.nest.stack_bytes})")
        self.block(self.nest.body, "    ")
        line("    return int32(0)")
        line("")

    # ---------------------------------------------------------------------------------------------------- statements

    def block(self, body: ir.Body, indent: str) -> None:
        for stmt in body:
            self.statement(stmt, indent)
        if indent != "    ":
            self.doc.line(f"{indent}pass")

    def statement(self, stmt: ir.Stmt, indent: str) -> None:
        line = self.doc.line
        match stmt:
            case ir.Store(ref, value):
                line(f"{indent}{self.cell(ref)} = {self.value(value)}")
            case ir.Update(ref):
                line(f"{indent}{self.cell(ref)} = {self.value(updated(stmt))}")
            case ir.For():
                self.loop(stmt, indent)
            case ir.If(cond, on_true, on_false):
                line(f"{indent}if {self.cond(cond)}:")
                self.block(on_true, f"{indent}    ")
                if on_false:
                    line(f"{indent}else:")
                    self.block(on_false, f"{indent}    ")
            case ir.BindIndex(sym, value, body):
                text = self.value(value)
                line(f"{indent}{self.rename(sym)} = {text}")
                line(f"{indent}if {sym.lo} <= {self.name(sym)} <= {sym.hi}:")
                self.block(body, f"{indent}    ")
            case ir.Let(name, value):
                text = self.value(value)
                line(f"{indent}{self.rename(name)} = {text}")
            case ir.Local(buf, fill):
                self.local(buf, fill, indent)
            case ir.Comment(text):
                line(f"{indent}# {printable(text)}")
            case ir.Poll():
                line(f"{indent}if poll(control) != 0:")
                line(f"{indent}    return int32(1)")
            case ir.Prefetch():
                pass
            case ir.ReadClock(ref):
                line(f"{indent}{self.cell(ref)} = read_clock(control)")

    def loop(self, stmt: ir.For, indent: str) -> None:
        first, last = stmt.lo.constant, stmt.hi.constant
        if is_unrolled(stmt) and first is not None and last is not None:
            for value in range(first, last + 1, stmt.step):
                self.constants[stmt.sym] = Affine.of(value)
                for inner in stmt.body:
                    self.statement(inner, indent)
            self.constants.pop(stmt.sym, None)  # an empty loop has set none
        elif not self.lanes.print(stmt, indent):
            self.serial_loop(stmt, self.start(stmt.lo), self.stop(stmt.hi), indent)

    def serial_loop(self, stmt: ir.For, start: str, stop: str, indent: str) -> None:
        if self.nest.parallel_loop is not None and self.nest.parallel_loop.loop is stmt:
            start, stop = "first", "limit"
        steps = f", {stmt.step}" if stmt.step != 1 else ""
        self.doc.line(f"{indent}for {self.rename(stmt.sym)} in range({start}, {stop}{steps}):")
        self.block(stmt.body, f"{indent}    ")

    def local(self, buf: ir.Buf, fill: int | float | None, indent: str) -> None:
        number = kind(buf.precision)
        if buf in self.in_registers:
            self.lanes.local(buf, fill, indent)
            return
        if is_variable(buf):
            name = self.rename(buf)
            if fill is not None:
                self.doc.line(f"{indent}{name} = {self.constant(fill, buf.precision)}")
            return
        start = f"on_stack({max(1, buf.nbytes)})" if buf.offset is None else f"stack + {buf.offset}"
        self.doc.line(f"{indent}{self.rename(buf)} = array_at({start}, {number})")
        if fill is not None:
            cell = self.namer("cell")
            self.doc.line(f"{indent}for {cell} in range({buf.size}):")
            self.doc.line(f"{indent}    {self.name(buf)}[{cell}] = {self.constant(fill, buf.precision)}")

    # -------------------------------------------------------------------------------------------------------- indices

    def index(self, index: Affine) -> str:
        return index.substitute(self.constants).format(self.name)

    def start(self, bound: Bound) -> str:
        quotients = [self.index(a) if d == 1 else f"-(-({self.index(a)}) // {d})" for a, d in bound.quotients]
        return extreme("max", quotients)

    def stop(self, bound: Bound) -> str:
        ends = [self.index(a + 1) if d == 1 else f"({self.index(a)}) // {d} + 1" for a, d in bound.quotients]
        return extreme("min", ends)

    def cond(self, cond: Cond) -> str:
        tests = [f"{self.index(a)} >= 0" for a in cond.ge0] + [f"{self.index(a)} == 0" for a in cond.eq0]
        return " and ".join(tests) or "True"

    def cell(self, ref: ir.Ref) -> str:
        if is_variable(ref.buf):
            return self.name(ref.buf)
        return f"{self.name(ref.buf)}[{self.index(ref.address)}]"

    # --------------------------------------------------------------------------------------------------------- values

    def constant(self, value: int | float, precision: Precision) -> str:
        return f"{kind(precision)}({rounded(value, precision)!r})"

    def value(self, expr: ir.Expr) -> str:
        """An expression without need for parentheses, of the type of its precision."""
        number = kind(expr.precision)
        match expr:
            case ir.Load(ref):
                return self.cell(ref)
            case ir.Const(value, precision):
                return self.constant(value, precision)
            case ir.Var(name, _):
                return self.name(name)
            case ir.IndexValue(index, precision):
                nonzero = " != 0" if precision.family is Family.BOOL else ""
                return f"{number}({self.index(index)}{nonzero})"
            case ir.Cast(value, precision):
                if precision.family is Family.BOOL:
                    return f"{number}({self.value(value)} != 0)"
                if value.precision.is_float and not precision.is_float:
                    return f"saturate({self.value(value)}, {number})"
                return f"{number}({self.value(value)})"
            case ir.When(cond, on_true, on_false):
                return f"({self.value(on_true)} if {self.cond(cond)} else {self.value(on_false)})"
            case ir.Apply(op, args):
                operands = [self.value(arg) for arg in args]
                form = arithmetic.template(op.name, expr.precision.is_float)
                text = form.format(*operands, kind=number, bits=8 * expr.precision.nbytes)
                nonzero = f"({text}) != 0" if expr.precision.family is Family.BOOL else text
                return f"{number}({nonzero})"


def is_variable(buf: ir.Buf) -> bool:
    """Whether a local array of one cell is printed as a variable."""
    return buf.space is ir.MemorySpace.LOCAL and not buf.shape and buf.offset is None


def extreme(function: str, operands: list[str]) -> str:
    return operands[0] if len(operands) == 1 else f"{function}({', '.join(operands)})"
