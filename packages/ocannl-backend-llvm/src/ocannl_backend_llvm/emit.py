"""Emits loop programs as LLVM IR.

    define i32 @ocannl.step(ptr %addresses, ptr %syms, ptr %control)     loads addresses and symbols, calls the nests
    define i1 @ocannl.step.1(ptr noalias %x, ptr noalias %y, i64 %n, ptr %control)     a nest

Nests are separate functions because only parameters can be `noalias`. The entry function of a program of many nests
calls functions for its parts. Long programs are split into several modules, which are compiled in parallel; functions
of nests and parts are visible in all modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from ocannl.backend import CompileError
from ocannl.codegen import Document, Nest, deduplicated, holds_gil, outline_nests, pool_bufs, with_callees
from ocannl.codegen.outlining import split_into_parts
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
    frame_values,
)
from ocannl_backend_llvm.function import FunctionEmitter, comment, declare
from ocannl_backend_llvm.jit import symbol

MODULE_LINES = 2500  # per module; amortizes LLVM's overhead per module
ENTRY_PARAMS = "ptr %addresses, ptr %syms, ptr %control"  # also of functions of parts


def emit(procs: Sequence[Proc], instructions: Instructions, lines: int = MODULE_LINES) -> Iterator[str]:
    """Yields the modules of all programs. A module ends with the function with which it exceeds `lines` lines."""
    module = Module(instructions)
    for proc in procs:
        module.add(_heading(proc))
        for emit_function in _functions(proc):
            if module.lines > lines:
                yield module.text()
                module = module.successor()
            module.add(emit_function(module))
    yield module.text()


def _functions(proc: Proc) -> Iterator[Callable[[Module], Document]]:
    """Yields what emits the functions of a program in a module: those of its nests, those of its parts if it consists
    of many nests, and the entry function."""
    name, top_level = symbol(proc.name), outline_nests(proc)
    functions: dict[Nest, str] = {}
    for number, equivalent_nests in enumerate(deduplicated(with_callees(top_level)), 1):
        functions |= dict.fromkeys(equivalent_nests, f"{name}.{number}")
        yield partial(_nest_function, equivalent_nests=equivalent_nests, functions=functions)
    parts = {f"{name}.part.{number}": nests for number, nests in enumerate(split_into_parts(top_level), 1)}
    for part, nests in parts.items():
        yield partial(_part_function, proc=proc, name=part, nests=nests, functions=functions)
    yield partial(_entry_function, proc=proc, parts=tuple(parts), nests=top_level, functions=functions)


def _heading(proc: Proc) -> Document:
    doc = Document()
    comment(doc, print_proc(Proc(proc.name, proc.bufs, proc.syms, (), arena=proc.arena)))
    return doc


def _nest_function(module: Module, equivalent_nests: Sequence[Nest], functions: Mapping[Nest, str]) -> Document:
    return FunctionEmitter(module, functions, equivalent_nests).emit()


def _part_function(
    module: Module, proc: Proc, name: str, nests: Sequence[Nest], functions: Mapping[Nest, str]
) -> Document:
    """The function of a part of a program; its result is true after cancellation."""
    module.mark_defined(name)
    b = _begin(module, f"i1 @{name}")
    values = _load_arguments(b, proc, nests)
    leave = b.fresh("leave")
    _call_nests(b, nests, functions, values, leave)
    b.line("ret i1 false")
    if _is_cancellable(nests):
        b.label(leave)
        b.line("ret i1 true")
    b.doc.line("}")
    return b.doc


def _entry_function(
    module: Module, proc: Proc, parts: Sequence[str], nests: Sequence[Nest], functions: Mapping[Nest, str]
) -> Document:
    """The entry function of a program, which calls functions of parts, or its nests if there are none."""
    b = _begin(module, f"i32 @{symbol(proc.name)}")
    values = {} if parts else _load_arguments(b, proc, nests)
    releases_gil = not holds_gil(proc)
    thread = (
        b.assign(f"call ptr {element(b, 'ptr', '%control', RELEASE, 'release')}()", "thread") if releases_gil else ""
    )
    leave = b.fresh("leave")
    for part in parts:
        module.declare(part, "i1", ("ptr", "ptr", "ptr"))
        _call_cancellable(b, f"@{part}({ENTRY_PARAMS})", leave)
    if not parts:
        _call_nests(b, nests, functions, values, leave)
    _return(b, thread, 0)
    if parts or _is_cancellable(nests):
        b.label(leave)
        _return(b, thread, 1)
    b.doc.line("}")
    return b.doc


def _begin(module: Module, head: str) -> Builder:
    """Begins a function with the parameters of an entry function."""
    doc = Document()
    doc.line()
    doc.line(f"define {head}({ENTRY_PARAMS}) nounwind {{")
    return Builder(module, doc)


def _load_arguments(b: Builder, proc: Proc, nests: Sequence[Nest]) -> dict[Buf | Sym, str]:
    """Loads the addresses and symbols that nests need."""
    needed = {buf for nest in nests for buf in nest.bufs} | {sym for nest in nests for sym in nest.syms}
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
        if sym in needed:
            values[sym] = f"i64 {element(b, 'i64', '%syms', position, identifier(sym.name))}"
    for nest in nests:
        undeclared = [x.name for x in nest.free_variables if x not in values]
        if undeclared:
            raise CompileError(f"`{proc.name}` uses undeclared names: {', '.join(undeclared)}")
    return values


def _call_nests(
    b: Builder, nests: Sequence[Nest], functions: Mapping[Nest, str], values: Mapping[Buf | Sym, str], leave: str
) -> None:
    """Calls the functions of nests; jumps to `leave` after cancellation."""
    for nest in nests:
        name, args = functions[nest], [values[x] for x in nest.free_variables]
        if nest.parallel_loop is not None:
            b.module.define(PARALLEL_FOR, PARALLEL_FOR_TEXT)
            b.module.declare(f"{name}.chunk", "i32", CHUNK_FUNCTION_PARAMS)
            frame = _frame(b, frame_values(b, nest, args))
            chunk_args = f"ptr @{name}.chunk, ptr {frame}, i64 {nest.parallel_loop.num_chunks}"
            _call_cancellable(b, f"@{PARALLEL_FOR}(ptr %control, {chunk_args})", leave)
            continue
        declare(b.module, name, args, nest.is_cancellable)
        if nest.is_cancellable:
            _call_cancellable(b, f"@{name}({', '.join([*args, 'ptr %control'])})", leave)
        else:
            b.line(f"call void @{name}({', '.join(args)})")


def _call_cancellable(b: Builder, call: str, leave: str) -> None:
    next_block = b.fresh("after")
    b.branch(b.assign(f"call i1 {call}", "cancelled"), leave, next_block)
    b.label(next_block)


def _is_cancellable(nests: Sequence[Nest]) -> bool:
    return any(nest.is_cancellable or nest.parallel_loop for nest in nests)


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
