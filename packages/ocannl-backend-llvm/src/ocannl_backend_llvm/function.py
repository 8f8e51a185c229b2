"""A nest as a function.

    define i1 @ocannl.step.1(ptr noalias %x, ptr noalias %y, i64 %n, ptr %control)

It gives true when it was cancelled; one that has no poll gives nothing and is not given the last parameter. One that
threads share is given the iterations to do, and called by

    define i32 @ocannl.step.1.claim(ptr %frame, i64 %claim, i64 %thread)     one claim of it

Loop counters, locals and the results of branches are allocas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ocannl.backend import CompileError
from ocannl.codegen import Claim, Document, Nest, printable
from ocannl.ir.index import Affine, Bound, Cond, Sym
from ocannl.ir.loops import (
    Body,
    Buf,
    Comment,
    Expr,
    For,
    If,
    Let,
    Local,
    Mode,
    Num,
    Pick,
    Poll,
    Prefetch,
    Proc,
    Ref,
    Stamp,
    Stmt,
    Store,
    Update,
)
from ocannl.ir.names import Namer, identifier
from ocannl.ir.stack import BLOCK_BYTES
from ocannl.ir.text import print_proc
from ocannl_backend_llvm.build import WIDE, Builder, Module
from ocannl_backend_llvm.control import DEAF, POLL, POLL_TEXT, STAMP, STAMP_TEXT, element
from ocannl_backend_llvm.indices import Indices
from ocannl_backend_llvm.scalar import Straight
from ocannl_backend_llvm.transpose import Plane
from ocannl_backend_llvm.types import HELD, constant
from ocannl_backend_llvm.vector import Lanes

UNROLLED_FILL = 16  # cells of a local array that are filled one by one


def declare(module: Module, function: str, passed: Sequence[str], polls: bool) -> None:
    """The function of a nest, wherever it is."""
    types = [value.partition(" ")[0] for value in passed]
    module.declare(function, "i1" if polls else "void", (*types, "ptr") if polls else tuple(types))


def comment(doc: Document, text: str) -> None:
    for line in text.splitlines():
        doc.line(f"; {printable(line)}".rstrip())


class Function:
    """One nest being written, the first of those that share its code."""

    def __init__(self, module: Module, functions: Mapping[Nest, str], alike: Sequence[Nest]) -> None:
        self.nest = nest = alike[0]
        self.functions, self.name = functions, functions[nest]
        self.doc = doc = Document()
        doc.line()
        pointers: dict[Buf, str] = {}
        self.stack_bytes = 0
        names, disjoint = Namer(), nest.disjoint
        params: list[str] = []
        for buf in nest.bufs:
            pointers[buf] = f"%{names(buf.name)}"
            params.append(f"ptr {'noalias ' if buf in disjoint else ''}{pointers[buf]}")
        for sym in nest.syms:
            params.append(f"i64 %{names(sym.name)}")
        for each in alike:
            if each.labels:
                comment(doc, "of " + ", ".join(each.labels))
        comment(doc, print_proc(Proc("", (), (), self.told())).partition("\n")[2])
        self.claimed = ("", "")  # the iterations to do, where threads share the nest
        if nest.claim is not None:
            self.claimed = ("%" + names("first"), "%" + names("limit"))
            params += [f"i64 {bound}" for bound in self.claimed]
        self.result = "void"
        if nest.polls:
            self.result = "i1"
            params.append("ptr %control")
        module.defines(self.name)
        doc.line(f"define {self.result} @{self.name}({', '.join(params)}) nounwind {WIDE} {{")
        self.allocas = doc.section()
        self.b = Builder(module, doc)
        self.stack = f"%{names('stack')}"
        if nest.stack_bytes:
            self.allocas.line(f"  {self.stack} = alloca [{nest.stack_bytes} x i8], align 64")
        self.indices = Indices(self.b, doc)
        self.code = Straight(self.b, self.indices, self.allocas)
        self.code.pointers |= pointers
        for sym, param in zip(nest.syms, params[len(nest.bufs) :], strict=False):
            self.indices.bind(sym, param.removeprefix("i64 "))

    def told(self) -> Body:
        """The statements, with the names of its parts for those that stand there."""
        if not self.nest.parts:
            return self.nest.body
        calls: Body = (*self.nest.handed, *(Comment(self.functions[part]) for part in self.nest.parts))
        return tuple([replace(s, body=calls) if isinstance(s, For) else s for s in self.nest.body])

    def emit(self) -> Document:
        self.block(self.nest.body)
        if self.nest.streams:
            self.b.line("fence seq_cst")
        self.b.line("ret void" if self.result == "void" else "ret i1 false")
        if self.result != "void":
            self.b.label("leave")
            self.b.line("ret i1 true")
        self.doc.line("}")
        if self.nest.claim is not None:
            self.doc.line()
            self.claim(self.nest.claim)
        return self.doc

    def claim(self, claim: Claim) -> None:
        """The function that does one claim."""
        b = Builder(self.b.module, self.doc)
        b.module.defines(f"{self.name}.claim")
        self.doc.line(f"define i32 @{self.name}.claim(ptr %frame, i64 %claim, i64 %thread) nounwind {{")
        types = ["ptr"] * len(self.nest.bufs) + ["i64"] * len(self.nest.syms)
        given = [f"{type_} {element(b, type_, '%frame', place, 'x')}" for place, type_ in enumerate(types)]
        hearing = element(b, "ptr", "%frame", len(types), "control")
        caller = b.let("icmp eq i64 %thread, 0", "caller")
        control = b.select(caller, "ptr", hearing, element(b, "ptr", hearing, DEAF, "deaf"))
        b.module.define(POLL, POLL_TEXT)
        look, work, leave = (b.fresh(name) for name in ("look", "work", "leave"))
        turn = b.let(f"urem i64 %claim, {claim.polled}", "turn")
        b.branch(b.let(f"icmp eq i64 {turn}, {claim.polled - 1}"), look, work)
        b.label(look)
        b.branch(b.let(f"call i1 @{POLL}(ptr {control})", "cancelled"), leave, work)
        b.label(work)
        first = b.let(f"add nsw i64 {b.let(f'mul nsw i64 %claim, {claim.size}')}, {claim.first}", "first")
        end = b.let(f"add nsw i64 {first}, {claim.size}", "end")
        limit = b.intrinsic("smin", "i64", end, str(claim.limit))
        passed = [*given, f"i64 {first}", f"i64 {limit}"]
        if self.result == "void":
            b.line(f"call void @{self.name}({', '.join(passed)})")
            b.line("ret i32 0")
        else:
            cancelled = b.let(f"call i1 @{self.name}({', '.join([*passed, f'ptr {control}'])})", "cancelled")
            b.line(f"ret i32 {b.cast('zext', cancelled, 'i1', 'i32')}")
        b.label(leave)
        b.line("ret i32 1")
        self.doc.line("}")

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
            case If(cond, then, orelse):
                self.choose(cond, then, orelse)
            case Pick(sym, value, body):
                self.pick(sym, value, body)
            case Let(name, value):
                self.code.define(name, value)
            case Local(buf, fill):
                self.local(buf, fill)
            case Comment(text):
                comment(self.doc, text)
            case Prefetch(ref, ahead):
                self.code.prefetch(ref, ahead)
            case Stamp(ref):
                self.b.module.define(STAMP, STAMP_TEXT)
                time = self.b.let(f"call i64 @{STAMP}(ptr %control)", "time")
                self.b.line(f"store i64 {time}, ptr {self.code.place(ref)}")
            case Poll():
                self.b.module.define(POLL, POLL_TEXT)
                go_on = self.b.fresh("go.on")
                self.b.branch(self.b.let(f"call i1 @{POLL}(ptr %control)", "cancelled"), "leave", go_on)
                self.b.label(go_on)

    def loop(self, stmt: For) -> None:
        b, step = self.b, stmt.step
        lo, hi = self.indices.first(stmt.lo), self.indices.limit(stmt.hi)
        if self.nest.claim is not None and self.nest.claim.loop is stmt:
            lo, hi = self.claimed
        always = isinstance(lo, int) and isinstance(hi, int)
        if isinstance(lo, int) and isinstance(hi, int):
            if lo >= hi:
                return
            if lo + step >= hi:
                self.indices.bind(stmt.sym, lo)
                self.block(stmt.body)
                return
            if stmt.row and (stmt.row.lo.constant or 0) < (stmt.row.hi.constant or 0):
                Plane(self.code, stmt, stmt.row)
                return
            if stmt.mode is Mode.LANES and not stmt.row:
                Lanes(self.code, stmt).block(stmt.body)
                return
            if stmt.mode is not Mode.SERIAL:
                for value in range(lo, hi):
                    self.indices.bind(stmt.sym, value)
                    self.block(stmt.body)
                return
        name = identifier(stmt.sym.name, "i")
        body, end, counter = b.fresh(name), b.fresh(f"{name}.end"), f"%{b.fresh(name)}"
        self.allocas.line(f"  {counter} = alloca i64")
        b.line(f"store i64 {lo}, ptr {counter}")
        if always:
            b.jump(body)
        else:
            b.branch(b.let(f"icmp slt i64 {lo}, {hi}", "any"), body, end)
        b.label(body)
        here = b.let(f"load i64, ptr {counter}", name)
        self.indices.enter(stmt.sym, here)
        if self.nest.calls_in(stmt):
            self.calls()
        else:
            self.block(stmt.body)
        self.indices.leave()
        after = b.let(f"add nsw i64 {here}, {step}", name)
        b.line(f"store i64 {after}, ptr {counter}")
        b.branch(b.let(f"icmp slt i64 {after}, {hi}", "more"), body, end)
        b.label(end)

    def calls(self) -> None:
        """The parts of the nest, one after the other, and before them the arrays that they hand to each other."""
        for each in self.nest.handed:
            self.local(each.buf, each.fill)
        for part in self.nest.parts:
            passed = [f"ptr {self.code.pointers[buf]}" for buf in part.bufs]
            passed += [f"i64 {self.indices.affine(Affine.of(sym))}" for sym in part.syms]
            self.call(self.functions[part], passed, part.polls)

    def call(self, function: str, passed: list[str], polls: bool) -> None:
        declare(self.b.module, function, passed, polls)
        if not polls:
            self.b.line(f"call void @{function}({', '.join(passed)})")
            return
        go_on = self.b.fresh("go.on")
        cancelled = self.b.let(f"call i1 @{function}({', '.join([*passed, 'ptr %control'])})", "cancelled")
        self.b.branch(cancelled, "leave", go_on)
        self.b.label(go_on)

    def pick(self, sym: Sym, value: Expr, body: Body) -> None:
        b = self.b
        picked = self.code.value(value)
        inside, end = b.fresh("picked"), b.fresh("end")
        first = b.op("sub", "i64", picked, str(sym.lo))
        b.branch(b.let(f"icmp ult i64 {first}, {sym.extent}", "in"), inside, end)
        b.label(inside)
        self.indices.enter(sym, picked)
        self.block(body)
        self.indices.leave()
        b.jump(end)
        b.label(end)

    def choose(self, cond: Cond, then: Body, orelse: Body) -> None:
        b, test = self.b, self.indices.condition(cond)
        if test in ("true", "false"):
            self.block(then if test == "true" else orelse)
            return
        yes, end = b.fresh("then"), b.fresh("end")
        no = b.fresh("else") if orelse else end
        b.branch(test, yes, no)
        b.label(yes)
        self.block(then)
        b.jump(end)
        if orelse:
            b.label(no)
            self.block(orelse)
            b.jump(end)
        b.label(end)

    def local(self, buf: Buf, fill: int | float | None) -> None:
        b, held, cells = self.b, HELD[buf.precision], buf.size
        if buf.offset is not None:
            pointer = self.code.pointers[buf] = f"%{b.fresh(identifier(buf.name))}"
            self.allocas.line(f"  {pointer} = getelementptr inbounds i8, ptr {self.stack}, i64 {buf.offset}")
        elif buf not in self.code.pointers:
            self.stack_bytes += buf.nbytes
            if self.stack_bytes > BLOCK_BYTES:
                raise CompileError(f"local arrays up to `{buf.name}` need {self.stack_bytes} bytes of stack")
            pointer = self.code.pointers[buf] = f"%{b.fresh(identifier(buf.name))}"
            self.allocas.line(f"  {pointer} = alloca {f'[{cells} x {held}]' if buf.shape else held}")
        if fill is None:
            return
        start = constant(fill, buf.precision)
        if cells <= UNROLLED_FILL:
            for cell in range(cells):
                b.line(f"store {held} {start}, ptr {self.code.cell(buf, cell)}")
        else:
            sym = Sym("fill", 0, cells - 1)
            flat = Buf(buf.name, buf.precision, (cells,), (1,), buf.home, buf.access)
            self.code.pointers[flat] = self.code.pointers[buf]
            store = Store(Ref(flat, (Affine.of(sym),)), Num(fill, buf.precision))
            self.loop(For(sym, Bound.lower(0), Bound.upper(cells), (store,)))
