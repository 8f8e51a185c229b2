"""Emits nests as functions.

    define i1 @ocannl.step.1(ptr noalias %x, ptr noalias %y, i64 %n, ptr %control)

The result is true after cancellation. Nests that are not cancellable return void and have no `%control`. A parallel
nest takes the bounds of its iterations and is called by the function that executes one chunk:

    define i32 @ocannl.step.1.chunk(ptr %frame, i64 %chunk, i64 %thread)

Loop counters, local arrays and results of branches are allocas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ocannl.backend import CompileError
from ocannl.codegen import Document, Nest, ParallelLoop, printable
from ocannl.ir.affine import Affine, Bound, Cond, Sym
from ocannl.ir.loops import (
    BindIndex,
    Body,
    Buf,
    Comment,
    Const,
    For,
    If,
    Let,
    Local,
    Mode,
    Poll,
    Prefetch,
    Proc,
    ReadClock,
    Ref,
    Stmt,
    Store,
    Update,
)
from ocannl.ir.name_mangling import Namer, identifier
from ocannl.ir.printer import print_proc
from ocannl.ir.private_scope import THREAD_BYTES, private_offsets
from ocannl.ir.stack_size import MAX_LOCAL_BYTES
from ocannl.ir.tile_products import tile_product
from ocannl_backend_llvm.amx_tiles import emit_by_tiles
from ocannl_backend_llvm.avx512_tiles import emit_dot_products
from ocannl_backend_llvm.builder import FULL_WIDTH_VECTORS, Builder, Module
from ocannl_backend_llvm.control_block import (
    CHUNK_FUNCTION_PARAMS,
    PARALLEL_FOR,
    PARALLEL_FOR_TEXT,
    POLL,
    POLL_TEXT,
    PRIVATE_ARRAYS,
    READ_CLOCK,
    READ_CLOCK_TEXT,
    WITHOUT_SIGNALS,
    address,
    element,
    frame_values,
)
from ocannl_backend_llvm.indices import Indices
from ocannl_backend_llvm.register_tiles import TileEmitter
from ocannl_backend_llvm.scalar import ScalarCode
from ocannl_backend_llvm.types import LLVM_TYPES, constant
from ocannl_backend_llvm.vector import VectorCode

MAX_UNROLLED_FILL = 16  # cells of a local array; larger ones are filled by a loop
LINE_BYTES = 64  # arrays of at least this size are aligned to it, so that vectors do not cross lines


def declare(module: Module, function: str, args: Sequence[str], is_cancellable: bool) -> None:
    """Declares the function of a nest, unless this module defines it."""
    types = [value.partition(" ")[0] for value in args]
    module.declare(function, "i1" if is_cancellable else "void", (*types, "ptr") if is_cancellable else tuple(types))


def comment(doc: Document, text: str) -> None:
    for line in text.splitlines():
        doc.line(f"; {printable(line)}".rstrip())


class FunctionEmitter:
    """Emits the first of several equivalent nests."""

    def __init__(self, module: Module, functions: Mapping[Nest, str], equivalent_nests: Sequence[Nest]) -> None:
        self.nest = nest = equivalent_nests[0]
        self.functions, self.name = functions, functions[nest]
        self.doc = doc = Document()
        doc.line()
        pointers: dict[Buf, str] = {}
        self.stack_bytes = 0
        names, unaliased = Namer(), nest.unaliased_bufs
        params: list[str] = []
        for buf in (*nest.bufs, *nest.private_bufs):
            pointers[buf] = f"%{names(buf.name)}"
            params.append(f"ptr {'noalias ' if buf in unaliased else ''}{pointers[buf]}")
        for sym in nest.syms:
            params.append(f"i64 %{names(sym.name)}")
        for equivalent_nest in equivalent_nests:
            if equivalent_nest.labels:
                comment(doc, ", ".join(equivalent_nest.labels))
        comment(doc, print_proc(Proc("", (), (), self.body_for_comment())).partition("\n")[2])
        self.chunk_bounds = ("", "")  # parameters with the iterations of a chunk of the parallel loop
        if nest.parallel_loop is not None:
            self.chunk_bounds = ("%" + names("first"), "%" + names("limit"))
            params += [f"i64 {bound}" for bound in self.chunk_bounds]
        self.result = "void"
        if nest.is_cancellable:
            self.result = "i1"
            params.append("ptr %control")
        module.mark_defined(self.name)
        doc.line(f"define {self.result} @{self.name}({', '.join(params)}) nounwind {FULL_WIDTH_VECTORS} {{")
        self.allocas = doc.section()
        self.b = Builder(module, doc)
        self.stack = f"%{names('stack')}"
        if nest.stack_bytes:
            self.allocas.line(f"  {self.stack} = alloca [{nest.stack_bytes} x i8], align 64")
        self.indices = Indices(self.b, doc)
        self.code = ScalarCode(self.b, self.indices, self.allocas)
        self.code.pointers |= pointers
        for sym, param in zip(nest.syms, params[len(pointers) :], strict=False):
            self.indices.bind(sym, param.removeprefix("i64 "))

    def body_for_comment(self) -> Body:
        """The statements for the comment, with the names of callees in place of their bodies."""
        if not self.nest.callees:
            return self.nest.body
        calls: Body = (*self.nest.shared_locals, *(Comment(self.functions[callee]) for callee in self.nest.callees))
        return tuple([replace(s, body=calls) if isinstance(s, For | BindIndex) else s for s in self.nest.body])

    def emit(self) -> Document:
        self.block(self.nest.function_body)
        if self.nest.has_nontemporal_stores:
            self.b.line("fence seq_cst")
        self.b.line("ret void" if self.result == "void" else "ret i1 false")
        if self.result != "void":
            self.b.label("leave")
            self.b.line("ret i1 true")
        self.doc.line("}")
        if self.nest.parallel_loop is not None:
            self.doc.line()
            self.emit_chunk_function(self.nest.parallel_loop)
        return self.doc

    def emit_chunk_function(self, loop: ParallelLoop) -> None:
        """The function that executes one chunk of the parallel loop."""
        b = Builder(self.b.module, self.doc)
        b.module.mark_defined(f"{self.name}.chunk")
        self.doc.line(f"define i32 @{self.name}.chunk(ptr %frame, i64 %chunk, i64 %thread) nounwind {{")
        values: dict[Buf | Sym, str] = {}
        for position, variable in enumerate(self.nest.free_variables):
            type_ = "ptr" if isinstance(variable, Buf) else "i64"
            values[variable] = f"{type_} {element(b, type_, '%frame', position, 'x')}"
        caller_control = element(b, "ptr", "%frame", len(values), "control")
        is_caller = b.assign("icmp eq i64 %thread, 0", "caller")
        worker_control = element(b, "ptr", caller_control, WITHOUT_SIGNALS, "without.signals")
        control = b.select(is_caller, "ptr", caller_control, worker_control)
        b.module.define(POLL, POLL_TEXT)
        poll, work, leave = (b.fresh(name) for name in ("poll", "work", "leave"))
        chunk_in_interval = b.assign(f"urem i64 %chunk, {loop.poll_interval}", "phase")
        b.branch(b.assign(f"icmp eq i64 {chunk_in_interval}, {loop.poll_interval - 1}"), poll, work)
        b.label(poll)
        b.branch(b.assign(f"call i1 @{POLL}(ptr {control})", "cancelled"), leave, work)
        b.label(work)
        if self.nest.private_bufs:
            values |= self.fill_private_arrays(b, values, caller_control)
        first = b.assign(
            f"add nsw i64 {b.assign(f'mul nsw i64 %chunk, {loop.chunk_size}')}, {loop.first}", "first"
        )
        end = b.assign(f"add nsw i64 {first}, {loop.chunk_size}", "end")
        limit = b.intrinsic("smin", "i64", end, str(loop.limit))
        args = [*(values[x] for x in self.nest.params), f"i64 {first}", f"i64 {limit}"]
        if self.result == "void":
            b.line(f"call void @{self.name}({', '.join(args)})")
            b.line("ret i32 0")
        else:
            cancelled = b.assign(f"call i1 @{self.name}({', '.join([*args, f'ptr {control}'])})", "cancelled")
            b.line(f"ret i32 {b.cast('zext', cancelled, 'i1', 'i32')}")
        b.label(leave)
        b.line("ret i32 1")
        self.doc.line("}")

    def fill_private_arrays(self, b: Builder, values: Mapping[Buf | Sym, str], control: str) -> dict[Buf | Sym, str]:
        """Fills the private arrays of the thread, unless it has filled them in this loop; returns their addresses."""
        bufs, current = self.nest.private_bufs, element(b, "i64", "%frame", len(values) + 1, "filled")
        start = b.assign(f"mul nsw i64 %thread, {THREAD_BYTES}", "start")
        memory = element(b, "ptr", control, PRIVATE_ARRAYS, "private")
        memory = b.assign(f"getelementptr inbounds i8, ptr {memory}, i64 {start}", "private")
        arrays: dict[Buf | Sym, str] = {}
        for buf, offset in zip(bufs, private_offsets(bufs), strict=True):
            array = b.assign(f"getelementptr inbounds i8, ptr {memory}, i64 {offset}", identifier(buf.name))
            arrays[buf] = f"ptr {array}"
        fill, filled = b.fresh("fill"), b.fresh("filled")
        last = b.assign(f"load i64, ptr {memory}", "last")
        b.branch(b.assign(f"icmp eq i64 {last}, {current}", "is.filled"), filled, fill)
        b.label(fill)
        for copy in self.nest.private_copies:
            args = [arrays[x] if x in arrays else values[x] for x in copy.free_variables]
            declare(b.module, self.functions[copy], args, copy.is_cancellable)
            b.line(f"call void @{self.functions[copy]}({', '.join(args)})")
        b.line(f"store i64 {current}, ptr {memory}")
        b.jump(filled)
        b.label(filled)
        return arrays

    # ------------------------------------------------------------------------------------------------------ statements

    def block(self, body: Body) -> None:
        for stmt in body:
            self.statement(stmt)

    def statement(self, stmt: Stmt) -> None:
        match stmt:
            case Store():
                self.code.store(stmt)
            case Update():
                self.code.update(stmt)
            case For():
                self.loop(stmt)
            case If(cond, true_body, false_body):
                self.branch(cond, true_body, false_body)
            case BindIndex():
                self.indirect_index(stmt)
            case Let(name, value):
                self.code.define(name, value)
            case Local(buf, fill):
                self.local(buf, fill)
            case Comment(text):
                comment(self.doc, text)
            case Prefetch(ref, distance, level):
                self.code.prefetch(ref, distance, level)
            case ReadClock(ref):
                self.b.module.define(READ_CLOCK, READ_CLOCK_TEXT)
                time = self.b.assign(f"call i64 @{READ_CLOCK}(ptr %control)", "time")
                self.b.line(f"store i64 {time}, ptr {self.code.address(ref)}")
            case Poll():
                self.b.module.define(POLL, POLL_TEXT)
                next_block = self.b.fresh("go.on")
                self.b.branch(self.b.assign(f"call i1 @{POLL}(ptr %control)", "cancelled"), "leave", next_block)
                self.b.label(next_block)

    def loop(self, stmt: For) -> None:
        b, step = self.b, stmt.step
        lo, hi = self.indices.first(stmt.lo), self.indices.limit(stmt.hi)
        if self.nest.parallel_loop is not None and self.nest.parallel_loop.loop is stmt:
            lo, hi = self.chunk_bounds
        if isinstance(lo, int) and isinstance(hi, int):
            if lo >= hi:
                return
            product = tile_product(stmt) if b.module.instructions.tile_unit else None
            if product is not None:
                emit = emit_by_tiles if b.module.instructions.bfloat16_tiles else emit_dot_products
                emit(self.code, product, self.counted_loop)
                return
            if lo + step >= hi:
                self.indices.bind(stmt.sym, lo)
                self.body_of(stmt)
                return
            if stmt.row and (stmt.row.lo.constant or 0) < (stmt.row.hi.constant or 0):
                TileEmitter(self.code, stmt, stmt.row)
                return
            if stmt.mode is Mode.VECTORIZED and not stmt.row:
                VectorCode(self.code, stmt).block(stmt.body)
                return
            if stmt.mode in (Mode.UNROLLED, Mode.VECTORIZED):
                for value in range(lo, hi):
                    self.indices.bind(stmt.sym, value)
                    self.block(stmt.body)
                return
        self.counted_loop(stmt.sym, lo, hi, step, lambda: self.body_of(stmt))

    def counted_loop(self, sym: Sym, lo: str | int, hi: str | int, step: int, emit_body: Callable[[], None]) -> None:
        """A loop over a symbol; constant bounds do not enclose an empty range."""
        b, name = self.b, identifier(sym.name, "i")
        body, end, counter = b.fresh(name), b.fresh(f"{name}.end"), f"%{b.fresh(name)}"
        self.allocas.line(f"  {counter} = alloca i64")
        b.line(f"store i64 {lo}, ptr {counter}")
        if isinstance(lo, int) and isinstance(hi, int):
            b.jump(body)
        else:
            b.branch(b.assign(f"icmp slt i64 {lo}, {hi}", "any"), body, end)
        b.label(body)
        counter_value = b.assign(f"load i64, ptr {counter}", name)
        self.indices.enter(sym, counter_value)
        emit_body()
        self.indices.leave()
        next_value = b.assign(f"add nsw i64 {counter_value}, {step}", name)
        b.line(f"store i64 {next_value}, ptr {counter}")
        b.branch(b.assign(f"icmp slt i64 {next_value}, {hi}", "more"), body, end)
        b.label(end)

    def body_of(self, stmt: For | BindIndex) -> None:
        if self.nest.is_caller(stmt):
            self.calls()
        else:
            self.block(stmt.body)

    def calls(self) -> None:
        """The local arrays shared by the callees, then the calls."""
        for stmt in self.nest.shared_locals:
            self.local(stmt.buf, stmt.init)
        for callee in self.nest.callees:
            args = [f"ptr {self.code.pointers[buf]}" for buf in callee.bufs]
            args += [f"i64 {self.indices.affine(Affine.of(sym))}" for sym in callee.syms]
            if callee.parallel_loop is not None:
                self.parallel_call(callee, args, callee.parallel_loop)
            else:
                self.call(self.functions[callee], args, callee.is_cancellable)

    def parallel_call(self, callee: Nest, args: list[str], loop: ParallelLoop) -> None:
        b, function = self.b, self.functions[callee]
        b.module.define(PARALLEL_FOR, PARALLEL_FOR_TEXT)
        b.module.declare(f"{function}.chunk", "i32", CHUNK_FUNCTION_PARAMS)
        values = frame_values(b, callee, args)
        frame, next_block = f"%{b.fresh('frame')}", b.fresh("go.on")
        self.allocas.line(f"  {frame} = alloca [{len(values)} x i64]")
        for position, value in enumerate(values):
            b.line(f"store {value}, ptr {address(b, 'i64', frame, position)}")
        call = f"call i1 @{PARALLEL_FOR}(ptr %control, ptr @{function}.chunk, ptr {frame}, i64 {loop.num_chunks})"
        b.branch(b.assign(call, "cancelled"), "leave", next_block)
        b.label(next_block)

    def call(self, function: str, args: list[str], is_cancellable: bool) -> None:
        declare(self.b.module, function, args, is_cancellable)
        if not is_cancellable:
            self.b.line(f"call void @{function}({', '.join(args)})")
            return
        next_block = self.b.fresh("go.on")
        cancelled = self.b.assign(f"call i1 @{function}({', '.join([*args, 'ptr %control'])})", "cancelled")
        self.b.branch(cancelled, "leave", next_block)
        self.b.label(next_block)

    def indirect_index(self, stmt: BindIndex) -> None:
        b, sym = self.b, stmt.sym
        index = self.code.value(stmt.value)
        inside, end = b.fresh("picked"), b.fresh("end")
        first = b.op("sub", "i64", index, str(sym.lo))
        b.branch(b.assign(f"icmp ult i64 {first}, {sym.extent}", "in"), inside, end)
        b.label(inside)
        self.indices.enter(sym, index)
        self.body_of(stmt)
        self.indices.leave()
        b.jump(end)
        b.label(end)

    def branch(self, cond: Cond, true_body: Body, false_body: Body) -> None:
        b, test = self.b, self.indices.condition(cond)
        if test in ("true", "false"):
            self.block(true_body if test == "true" else false_body)
            return
        true_label, end = b.fresh("then"), b.fresh("end")
        false_label = b.fresh("else") if false_body else end
        b.branch(test, true_label, false_label)
        b.label(true_label)
        self.block(true_body)
        b.jump(end)
        if false_body:
            b.label(false_label)
            self.block(false_body)
            b.jump(end)
        b.label(end)

    def local(self, buf: Buf, fill: int | float | None) -> None:
        b, type_, cells = self.b, LLVM_TYPES[buf.precision], buf.size
        if buf.offset is not None:
            pointer = self.code.pointers[buf] = f"%{b.fresh(identifier(buf.name))}"
            self.allocas.line(f"  {pointer} = getelementptr inbounds i8, ptr {self.stack}, i64 {buf.offset}")
        elif buf not in self.code.pointers:
            self.stack_bytes += buf.nbytes
            if self.stack_bytes > MAX_LOCAL_BYTES:
                raise CompileError(f"local arrays up to `{buf.name}` need {self.stack_bytes} bytes of stack")
            pointer = self.code.pointers[buf] = f"%{b.fresh(identifier(buf.name))}"
            array = f"[{cells} x {type_}]" if buf.shape else type_
            aligned = f", align {LINE_BYTES}" if buf.nbytes >= LINE_BYTES else ""
            self.allocas.line(f"  {pointer} = alloca {array}{aligned}")
        if fill is None:
            return
        initial = constant(fill, buf.precision)
        if cells <= MAX_UNROLLED_FILL:
            for cell in range(cells):
                b.line(f"store {type_} {initial}, ptr {self.code.cell_address(buf, cell)}")
        else:
            sym = Sym("fill", 0, cells - 1)
            flattened = Buf(buf.name, buf.precision, (cells,), (1,), buf.space, buf.access)
            self.code.pointers[flattened] = self.code.pointers[buf]
            store = Store(Ref(flattened, (Affine.of(sym),)), Const(fill, buf.precision))
            self.loop(For(sym, Bound.lower(0), Bound.upper(cells), (store,)))
