"""Loop programs as LLVM text.

    define i32 @ocannl.step(ptr %addresses, ptr %syms, ptr %control)     loads addresses and symbols, calls the nests
    define i1 @ocannl.step.1(ptr noalias %x, ptr noalias %y, i64 %n, ptr %control)     a nest

A nest gives true when it was cancelled; one that has no poll gives nothing and is not given the last parameter. One
that threads share is given the iterations to do, and called by

    define i32 @ocannl.step.1.claim(ptr %frame, i64 %claim, i64 %thread)     one claim of it

Nests are functions of their own because only parameters can promise not to alias. Long programs are several modules,
which LLVM can work on side by side; functions of nests are known to all of them. Loop counters, locals and the results
of branches are allocas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ocannl.backend import CompileError
from ocannl.codegen import Claim, Document, Nest, brief, distinct, nests, pool_bufs, printable, with_parts
from ocannl.codegen.params import PATIENCE_NS
from ocannl.ir.index import Affine, Bound, Cond, Sym
from ocannl.ir.loops import (
    Body,
    Buf,
    Comment,
    Expr,
    For,
    Home,
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
    Stmt,
    Store,
    Update,
)
from ocannl.ir.names import Namer, identifier
from ocannl.ir.text import print_proc
from ocannl_backend_llvm.build import WIDE, Builder, Module
from ocannl_backend_llvm.indices import Indices
from ocannl_backend_llvm.lanes import Lanes
from ocannl_backend_llvm.plane import Plane
from ocannl_backend_llvm.straight import Straight
from ocannl_backend_llvm.types import HELD, constant

COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
LOGIC = frozenset({"and", "or", "not"})
UNROLLED_FILL = 16  # cells of a local array that are filled one by one
STACK_BYTES = 1 << 20  # for the local arrays of one nest, but for those that have places
MODULE_LINES = 2500  # after which a new module begins: long enough for what LLVM does once for each
PRODUCTS = range(5)  # constant powers that become products
CANCEL, RELEASE, ACQUIRE, ENSURE, RESTORE, SIGNALS, CLOCK, ASKED, TEAM, THREADS, DEAF = range(1, 12)
"""Fields of the control structure, in words: see `ocannl.codegen.params`."""


def _fields(**fields: int) -> str:
    """Instructions that load fields of `%control`, each under a name, and keep where it is."""
    return "".join(
        f"  %{name}.at = getelementptr inbounds ptr, ptr %control, i64 {place}\n"
        f"  %{name} = load {'i64' if place in (ASKED, THREADS) else 'ptr'}, ptr %{name}.at\n"
        for name, place in fields.items()
    )


POLL = "ocannl.poll"
POLL_TEXT = f"""\
define i1 @{POLL}(ptr %control) nounwind noinline {{
{_fields(cancel=CANCEL)}  %told = load volatile i32, ptr %cancel
  %cancelled = icmp ne i32 %told, 0
  br i1 %cancelled, label %leave, label %ask
ask:
{_fields(signals=SIGNALS)}  %deaf = icmp eq ptr %signals, null
  br i1 %deaf, label %go.on, label %look
look:
{_fields(clock=CLOCK, asked=ASKED)}  %id.at = getelementptr inbounds i32, ptr %control, i64 1
  %id = load i32, ptr %id.at
  %time = alloca [2 x i64]
  %status = call i32 %clock(i32 %id, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr inbounds i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  %since = sub i64 %now, %asked
  %long = icmp sge i64 %since, {PATIENCE_NS}
  br i1 %long, label %listen, label %go.on
listen:
{_fields(ensure=ENSURE, restore=RESTORE)}  store i64 %now, ptr %asked.at
  %state = call i32 %ensure()
  %raised = call i32 %signals()
  call void %restore(i32 %state)
  %interrupted = icmp ne i32 %raised, 0
  br i1 %interrupted, label %leave, label %go.on
leave:
  ret i1 true
go.on:
  ret i1 false
}}
"""
SHARE = "ocannl.share"
SHARE_TEXT = f"""\
define i1 @{SHARE}(ptr %control, ptr %body, ptr %frame, i64 %claims) nounwind {{
{_fields(team=TEAM, threads=THREADS)}  %none = icmp eq ptr %team, null
  br i1 %none, label %next, label %together
together:
  %share.at = getelementptr inbounds ptr, ptr %team, i64 1
  %share = load ptr, ptr %share.at
  %broken = call i32 %share(ptr %team, ptr %body, ptr %frame, i64 %claims, i64 %threads)
  %cancelled = icmp ne i32 %broken, 0
  ret i1 %cancelled
next:
  %claim = phi i64 [ 0, %0 ], [ %following, %run ]
  %more = icmp slt i64 %claim, %claims
  br i1 %more, label %run, label %done
run:
  %result = call i32 %body(ptr %frame, i64 %claim, i64 0)
  %following = add i64 %claim, 1
  %fine = icmp eq i32 %result, 0
  br i1 %fine, label %next, label %left
done:
  ret i1 false
left:
  ret i1 true
}}
"""
CLAIM = ("ptr", "i64", "i64")  # types of the parameters of the function of a claim
OLD = "old value"  # of the cell that an `Update` changes: no name that a program can hold


def symbol(name: str) -> str:
    """Of the entry of a program, in object files: a name no library has."""
    return f"ocannl.{identifier(name)}"


def emit(procs: Sequence[Proc], has_half: bool, lines: int = MODULE_LINES) -> Iterator[str]:
    """The modules of all programs, one after the other; each ends with the function that goes beyond so many lines."""
    module = Module(has_half)
    for proc in procs:
        module.add(_heading(proc))
        parts = nests(proc)
        names: dict[Nest, str] = {}
        for number, alike in enumerate(distinct(with_parts(parts)), 1):
            if module.lines > lines:
                yield module.text()
                module = module.next()
            names |= dict.fromkeys(alike, f"{symbol(proc.name)}.{number}")
            module.add(_Function(module, names, alike).emit())
        module.add(_entry(module, proc, parts, names))
    yield module.text()


def _heading(proc: Proc) -> Document:
    doc = Document()
    comment(doc, print_proc(Proc(proc.name, proc.bufs, proc.syms, (), arena=proc.arena)))
    return doc


def _entry(module: Module, proc: Proc, parts: Sequence[Nest], names: Mapping[Nest, str]) -> Document:
    """The function of a program that calls its nests."""
    doc = Document()
    doc.line()
    doc.line(f"define i32 @{symbol(proc.name)}(ptr %addresses, ptr %syms, ptr %control) nounwind {{")
    b = Builder(module, doc)
    needed = {buf for nest in parts for buf in nest.bufs}
    pools = pool_bufs(proc)
    values: dict[Buf | Sym, str] = {}
    for place, buf in enumerate(pools):
        if buf in needed:
            values[buf] = f"ptr {_element(b, 'ptr', '%addresses', place, identifier(buf.name))}"
    in_arena = [buf for buf in proc.bufs if buf.home is Home.ARENA and buf in needed]
    if in_arena:
        arena = _element(b, "ptr", "%addresses", len(pools), "arena")
        for buf in in_arena:
            if buf.offset is None:
                raise CompileError(f"`{proc.name}`: no memory was planned for `{buf.name}`")
            at = b.let(f"getelementptr inbounds i8, ptr {arena}, i64 {buf.offset}", identifier(buf.name))
            values[buf] = f"ptr {at}"
    for place, sym in enumerate(proc.syms):
        if any(sym in nest.syms for nest in parts):
            values[sym] = f"i64 {_element(b, 'i64', '%syms', place, identifier(sym.name))}"
    unlocked = not brief(proc)
    thread = b.let(f"call ptr {_element(b, 'ptr', '%control', RELEASE, 'release')}()", "thread") if unlocked else ""
    leave = b.fresh("leave")
    for nest in parts:
        given: list[Buf | Sym] = [*nest.bufs, *nest.syms]
        unknown = [x.name for x in given if x not in values]
        if unknown:
            raise CompileError(f"`{proc.name}` mentions without declaring them: {', '.join(unknown)}")
        call, passed = f"@{names[nest]}", [values[x] for x in given]
        if nest.claim is not None:
            module.define(SHARE, SHARE_TEXT)
            module.declare(f"{names[nest]}.claim", "i32", CLAIM)
            many = f"ptr {call}.claim, ptr {_frame(b, [*passed, 'ptr %control'])}, i64 {nest.claim.count}"
            after = b.fresh("after")
            b.branch(b.let(f"call i1 @{SHARE}(ptr %control, {many})", "cancelled"), leave, after)
            b.label(after)
            continue
        _declare(module, names[nest], passed, nest.polls)
        if not nest.polls:
            b.line(f"call void {call}({', '.join(passed)})")
            continue
        after = b.fresh("after")
        b.branch(b.let(f"call i1 {call}({', '.join([*passed, 'ptr %control'])})", "cancelled"), leave, after)
        b.label(after)
    _return(b, thread, 0)
    if any(nest.polls or nest.claim for nest in parts):
        b.label(leave)
        _return(b, thread, 1)
    doc.line("}")
    return doc


def _declare(module: Module, function: str, passed: Sequence[str], polls: bool) -> None:
    """The function of a nest, wherever it is."""
    types = [value.partition(" ")[0] for value in passed]
    module.declare(function, "i1" if polls else "void", (*types, "ptr") if polls else tuple(types))


def _frame(b: Builder, values: Sequence[str]) -> str:
    """Memory that holds the values."""
    frame = b.let(f"alloca [{len(values)} x i64]", "frame")
    for place, value in enumerate(values):
        b.line(f"store {value}, ptr {_at(b, 'i64', frame, place)}")
    return frame


def _return(b: Builder, thread: str, result: int) -> None:
    if thread:
        b.line(f"call void {_element(b, 'ptr', '%control', ACQUIRE, 'acquire')}(ptr {thread})")
    b.line(f"ret i32 {result}")


def _at(b: Builder, type_: str, array: str, place: int) -> str:
    return b.let(f"getelementptr inbounds {type_}, ptr {array}, i64 {place}", "at") if place else array


def _element(b: Builder, type_: str, array: str, place: int, stem: str) -> str:
    return b.let(f"load {type_}, ptr {_at(b, type_, array, place)}", stem)


def comment(doc: Document, text: str) -> None:
    for line in text.splitlines():
        doc.line(f"; {printable(line)}".rstrip())


class _Function:
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
        comment(doc, print_proc(Proc("", (), (), nest.body)).partition("\n")[2])
        self.claimed = ("", "")  # the iterations to do, where threads share the nest
        if nest.claim is not None:
            self.claimed = ("%" + names("first"), "%" + names("limit"))
            params += [f"i64 {bound}" for bound in self.claimed]
        self.result = "void"
        if nest.polls:
            self.result = "i1"
            module.define(POLL, POLL_TEXT)
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
        given = [f"{type_} {_element(b, type_, '%frame', place, 'x')}" for place, type_ in enumerate(types)]
        hearing = _element(b, "ptr", "%frame", len(types), "control")
        caller = b.let("icmp eq i64 %thread, 0", "caller")
        control = b.select(caller, "ptr", hearing, _element(b, "ptr", hearing, DEAF, "deaf"))
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
            case Poll():
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
        if self.nest.parts and any(stmt is each for each in self.nest.body):
            self.calls(stmt.body)
        else:
            self.block(stmt.body)
        self.indices.leave()
        after = b.let(f"add nsw i64 {here}, {step}", name)
        b.line(f"store i64 {after}, ptr {counter}")
        b.branch(b.let(f"icmp slt i64 {after}, {hi}", "more"), body, end)
        b.label(end)

    def calls(self, body: Body) -> None:
        """The parts of the nest, one after the other, and before them the arrays that they hand to each other."""
        for stmt in body:
            if isinstance(stmt, Local) and stmt.buf.offset is not None:
                self.local(stmt.buf, stmt.fill)
        for part in self.nest.parts:
            passed = [f"ptr {self.code.pointers[buf]}" for buf in part.bufs]
            passed += [f"i64 {self.indices.affine(Affine.of(sym))}" for sym in part.syms]
            self.call(self.functions[part], passed, part.polls)

    def call(self, function: str, passed: list[str], polls: bool) -> None:
        _declare(self.b.module, function, passed, polls)
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
            if self.stack_bytes > STACK_BYTES:
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
