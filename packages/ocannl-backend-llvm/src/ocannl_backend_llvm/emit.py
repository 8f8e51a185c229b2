"""Loop programs as LLVM text.

    define i32 @ocannl.step(ptr %addresses, ptr %syms, ptr %control)     loads addresses and symbols, calls the nests
    define i1 @ocannl.step.1(ptr noalias %x, ptr noalias %y, i64 %n, ptr %control)     a nest

Nests are functions of their own because only parameters can promise not to alias. Long programs are several modules,
which LLVM can work on side by side; functions of nests are known to all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ocannl.backend import CompileError
from ocannl.codegen import Document, Nest, brief, distinct, nests, pool_bufs, with_parts
from ocannl.ir.index import Sym
from ocannl.ir.loops import Buf, Home, Proc
from ocannl.ir.names import identifier
from ocannl.ir.text import print_proc
from ocannl_backend_llvm.build import Builder, Instructions, Module
from ocannl_backend_llvm.control import ACQUIRE, RELEASE, SHARE, SHARE_TEXT, address, element
from ocannl_backend_llvm.function import Function, comment, declare
from ocannl_backend_llvm.jit import symbol

MODULE_LINES = 2500  # after which a new module begins: long enough for what LLVM does once for each
CLAIM = ("ptr", "i64", "i64")  # types of the parameters of the function of a claim


def emit(procs: Sequence[Proc], instructions: Instructions, lines: int = MODULE_LINES) -> Iterator[str]:
    """The modules of all programs, one after the other; each ends with the function that goes beyond so many lines."""
    module = Module(instructions)
    for proc in procs:
        module.add(_heading(proc))
        parts = nests(proc)
        names: dict[Nest, str] = {}
        for number, alike in enumerate(distinct(with_parts(parts)), 1):
            if module.lines > lines:
                yield module.text()
                module = module.next()
            names |= dict.fromkeys(alike, f"{symbol(proc.name)}.{number}")
            module.add(Function(module, names, alike).emit())
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
            values[buf] = f"ptr {element(b, 'ptr', '%addresses', place, identifier(buf.name))}"
    in_arena = [buf for buf in proc.bufs if buf.home is Home.ARENA and buf in needed]
    if in_arena:
        arena = element(b, "ptr", "%addresses", len(pools), "arena")
        for buf in in_arena:
            if buf.offset is None:
                raise CompileError(f"`{proc.name}`: no memory was planned for `{buf.name}`")
            at = b.let(f"getelementptr inbounds i8, ptr {arena}, i64 {buf.offset}", identifier(buf.name))
            values[buf] = f"ptr {at}"
    for place, sym in enumerate(proc.syms):
        if any(sym in nest.syms for nest in parts):
            values[sym] = f"i64 {element(b, 'i64', '%syms', place, identifier(sym.name))}"
    unlocked = not brief(proc)
    thread = b.let(f"call ptr {element(b, 'ptr', '%control', RELEASE, 'release')}()", "thread") if unlocked else ""
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
        declare(module, names[nest], passed, nest.polls)
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


def _frame(b: Builder, values: Sequence[str]) -> str:
    """Memory that holds the values."""
    frame = b.let(f"alloca [{len(values)} x i64]", "frame")
    for place, value in enumerate(values):
        b.line(f"store {value}, ptr {address(b, 'i64', frame, place)}")
    return frame


def _return(b: Builder, thread: str, result: int) -> None:
    if thread:
        b.line(f"call void {element(b, 'ptr', '%control', ACQUIRE, 'acquire')}(ptr {thread})")
    b.line(f"ret i32 {result}")
