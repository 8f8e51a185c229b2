"""Emits loop programs as LLVM IR.

    define i32 @ocannl.step(ptr %addresses, ptr %syms, ptr %control)     loads addresses and symbols, calls the nests
    define i1 @ocannl.step.1(ptr noalias %x, ptr noalias %y, i64 %n, ptr %control)     a nest

Nests are separate functions because only parameters can be `noalias`. Long programs are split into several modules,
which are compiled in parallel; functions of nests are visible in all modules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ocannl.backend import CompileError
from ocannl.codegen import Document, Nest, deduplicated, holds_gil, outline_nests, pool_bufs, with_callees
from ocannl.ir.affine import Sym
from ocannl.ir.loops import Buf, MemorySpace, Proc
from ocannl.ir.name_mangling import identifier
from ocannl.ir.printer import print_proc
from ocannl_backend_llvm.builder import Builder, Instructions, Module
from ocannl_backend_llvm.control_block import (
    ACQUIRE,
    CHUNK_FUNCTION_PARAMS,
    PARALLEL_FOR,
    PARALLEL_FOR_TEXT,
    RELEASE,
    address,
    element,
)
from ocannl_backend_llvm.function import FunctionEmitter, comment, declare
from ocannl_backend_llvm.jit import symbol

MODULE_LINES = 2500  # per module; amortizes LLVM's overhead per module


def emit(procs: Sequence[Proc], instructions: Instructions, lines: int = MODULE_LINES) -> Iterator[str]:
    """Yields the modules of all programs. A module ends with the function with which it exceeds `lines` lines."""
    module = Module(instructions)
    for proc in procs:
        module.add(_heading(proc))
        top_level = outline_nests(proc)
        names: dict[Nest, str] = {}
        for number, equivalent_nests in enumerate(deduplicated(with_callees(top_level)), 1):
            if module.lines > lines:
                yield module.text()
                module = module.successor()
            names |= dict.fromkeys(equivalent_nests, f"{symbol(proc.name)}.{number}")
            module.add(FunctionEmitter(module, names, equivalent_nests).emit())
        module.add(_entry_function(module, proc, top_level, names))
    yield module.text()


def _heading(proc: Proc) -> Document:
    doc = Document()
    comment(doc, print_proc(Proc(proc.name, proc.bufs, proc.syms, (), arena=proc.arena)))
    return doc


def _entry_function(module: Module, proc: Proc, top_level: Sequence[Nest], names: Mapping[Nest, str]) -> Document:
    """The entry function of a program, which calls its nests."""
    doc = Document()
    doc.line()
    doc.line(f"define i32 @{symbol(proc.name)}(ptr %addresses, ptr %syms, ptr %control) nounwind {{")
    b = Builder(module, doc)
    needed = {buf for nest in top_level for buf in nest.bufs}
    pools = pool_bufs(proc)
    values: dict[Buf | Sym, str] = {}
    for position, buf in enumerate(pools):
        if buf in needed:
            values[buf] = f"ptr {element(b, 'ptr', '%addresses', position, identifier(buf.name))}"
    in_arena = [buf for buf in proc.bufs if buf.space is MemorySpace.ARENA and buf in needed]
    if in_arena:
        arena = element(b, "ptr", "%addresses", len(pools), "arena")
        for buf in in_arena:
            if buf.offset is None:
                raise CompileError(f"`{proc.name}`: no memory was planned for `{buf.name}`")
            address = b.assign(f"getelementptr inbounds i8, ptr {arena}, i64 {buf.offset}", identifier(buf.name))
            values[buf] = f"ptr {address}"
    for position, sym in enumerate(proc.syms):
        if any(sym in nest.syms for nest in top_level):
            values[sym] = f"i64 {element(b, 'i64', '%syms', position, identifier(sym.name))}"
    releases_gil = not holds_gil(proc)
    thread = (
        b.assign(f"call ptr {element(b, 'ptr', '%control', RELEASE, 'release')}()", "thread") if releases_gil else ""
    )
    leave = b.fresh("leave")
    for nest in top_level:
        free_variables: list[Buf | Sym] = [*nest.bufs, *nest.syms]
        undeclared = [x.name for x in free_variables if x not in values]
        if undeclared:
            raise CompileError(f"`{proc.name}` uses undeclared names: {', '.join(undeclared)}")
        call, args = f"@{names[nest]}", [values[x] for x in free_variables]
        if nest.parallel_loop is not None:
            module.define(PARALLEL_FOR, PARALLEL_FOR_TEXT)
            module.declare(f"{names[nest]}.chunk", "i32", CHUNK_FUNCTION_PARAMS)
            chunk_args = (
                f"ptr {call}.chunk, ptr {_frame(b, [*args, 'ptr %control'])}, i64 {nest.parallel_loop.num_chunks}"
            )
            next_block = b.fresh("after")
            b.branch(b.assign(f"call i1 @{PARALLEL_FOR}(ptr %control, {chunk_args})", "cancelled"), leave, next_block)
            b.label(next_block)
            continue
        declare(module, names[nest], args, nest.is_cancellable)
        if not nest.is_cancellable:
            b.line(f"call void {call}({', '.join(args)})")
            continue
        next_block = b.fresh("after")
        b.branch(b.assign(f"call i1 {call}({', '.join([*args, 'ptr %control'])})", "cancelled"), leave, next_block)
        b.label(next_block)
    _return(b, thread, 0)
    if any(nest.is_cancellable or nest.parallel_loop for nest in top_level):
        b.label(leave)
        _return(b, thread, 1)
    doc.line("}")
    return doc


def _frame(b: Builder, values: Sequence[str]) -> str:
    """Allocates a structure of the values on the stack and returns its address."""
    frame = b.assign(f"alloca [{len(values)} x i64]", "frame")
    for position, value in enumerate(values):
        b.line(f"store {value}, ptr {address(b, 'i64', frame, position)}")
    return frame


def _return(b: Builder, thread: str, result: int) -> None:
    if thread:
        b.line(f"call void {element(b, 'ptr', '%control', ACQUIRE, 'acquire')}(ptr {thread})")
    b.line(f"ret i32 {result}")
