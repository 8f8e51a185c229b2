"""Prints loop programs as C: one function per nest, and one entry function per program that calls its nests in order.

    int ocannl_step(void *const addresses[], const int64_t symbols[], struct control *control)

See `ocannl.codegen.abi` for the arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ocannl.backend import CompileError
from ocannl.codegen import Document, Nest, deduplicated, holds_gil, outline_nests, pool_bufs, with_callees
from ocannl.codegen.c_family.dialect import Definition, Dialect, Prelude
from ocannl.codegen.c_family.function import CHUNK, CONTROL, FRAME, function_head, print_nests, reserved
from ocannl.ir.affine import Sym
from ocannl.ir.loops import Buf, MemorySpace, Proc
from ocannl.ir.name_mangling import Namer, identifier
from ocannl.ir.printer import print_proc
from ocannl_backend_c.dialect import DIALECT, PROLOGUE

ENTRY = "{type} {name}({params})"
LOCALS = frozenset({"addresses", "symbols", CONTROL, "arena", "thread", "cancelled"})


@dataclass(frozen=True, slots=True)
class TranslationUnit:
    """How programs are printed: in which dialect, after which prologue, and with which linkage and names of entry
    functions. A program of a process without Python never releases the GIL."""

    dialect: Dialect = DIALECT
    prologue: str = PROLOGUE
    linkage: str = ""
    names: str = "ocannl_{}"
    has_python: bool = True

    def symbol(self, name: str) -> str:
        """The symbol of a program's entry function."""
        return self.names.format(identifier(name))


LOADED_BY_PYTHON = TranslationUnit()
"""The form of programs of the backend; the prefix avoids clashes with libraries."""


def emit(
    procs: Sequence[Proc],
    unit: TranslationUnit = LOADED_BY_PYTHON,
    definitions: Iterable[Definition] = (),
    functions: Iterable[str] = (),
) -> str:
    """Prints all programs as one C translation unit. Text that follows may use further `definitions`, and define
    `functions`."""
    prelude, doc = Prelude(), Document()
    for definition in definitions:
        prelude.use(definition)
    reserved_names = reserved(unit.dialect) | {unit.symbol(proc.name) for proc in procs} | {*functions}
    names = Namer(reserved_names)
    for proc in procs:
        _program(unit, prelude, proc, names, reserved_names, doc)
    return "\n".join([unit.prologue, *prelude.lines(), doc.text()])


def _program(
    unit: TranslationUnit, prelude: Prelude, proc: Proc, names: Namer, reserved_names: frozenset[str], doc: Document
) -> None:
    dialect = unit.dialect
    dialect.write_comment(doc, print_proc(Proc(proc.name, proc.bufs, proc.syms, (), arena=proc.arena)))
    top_level = outline_nests(proc)
    functions: dict[Nest, str] = {}
    for number, equivalent_nests in enumerate(deduplicated(with_callees(top_level)), 1):
        functions |= dict.fromkeys(equivalent_nests, names(f"{proc.name}_{number}"))
        doc.line()
        print_nests(dialect, prelude, functions, equivalent_nests, doc)
    doc.line()
    params = ["void *const addresses[]", "const int64_t symbols[]", dialect.control]
    doc.line(function_head(f"{unit.linkage}{ENTRY}", "int", unit.symbol(proc.name), params))
    doc.line("{")
    _calls(unit, proc, top_level, functions, Namer(reserved_names | LOCALS | set(functions.values())), prelude, doc)
    doc.line("}")
    doc.line()


def _calls(
    unit: TranslationUnit,
    proc: Proc,
    top_level: Sequence[Nest],
    functions: Mapping[Nest, str],
    names: Namer,
    prelude: Prelude,
    doc: Document,
) -> None:
    """The body of the entry function: loads addresses and symbols, then calls the nests."""
    dialect = unit.dialect
    needed = {buf for nest in top_level for buf in nest.bufs} | {sym for nest in top_level for sym in nest.syms}
    values: dict[Buf | Sym, str] = {}
    pools = pool_bufs(proc)
    for position, buf in enumerate(pools):
        if buf in needed:
            values[buf] = names(buf.name)
            doc.line(f"  {dialect.types[buf.precision]} *{values[buf]} = addresses[{position}];")
    in_arena = [buf for buf in proc.bufs if buf.space is MemorySpace.ARENA and buf in needed]
    if in_arena:
        doc.line(f"  char *arena = addresses[{len(pools)}];")
    for buf in in_arena:
        if buf.offset is None:
            raise CompileError(f"`{proc.name}`: no memory was planned for `{buf.name}`")
        values[buf] = names(buf.name)
        type_ = dialect.types[buf.precision]
        doc.line(f"  {type_} *{values[buf]} = ({type_} *)(arena + {buf.offset});")
    for position, sym in enumerate(proc.syms):
        if sym in needed:
            values[sym] = names(sym.name)
            doc.line(f"  int64_t {values[sym]} = symbols[{position}];")
    if not unit.has_python:
        doc.line("  (void)addresses, (void)symbols, (void)control;")
    is_cancellable = any(nest.is_cancellable or nest.parallel_loop for nest in top_level)
    releases_gil = unit.has_python and not holds_gil(proc)
    if is_cancellable:
        doc.line("  int cancelled = 0;")
    if releases_gil:
        doc.line("  void *thread = control->release();")
    for nest in top_level:
        function = functions[nest]
        free_variables: list[Buf | Sym] = [*nest.bufs, *nest.syms]
        undeclared = [x.name for x in free_variables if x not in values]
        if undeclared:
            raise CompileError(f"`{proc.name}` uses undeclared names: {', '.join(undeclared)}")
        args = [values[x] for x in free_variables]
        if nest.parallel_loop is not None:
            frame = names(f"{function}_{FRAME}")
            doc.line(f"  struct {function}_{FRAME} {frame} = {{ {', '.join([*args, CONTROL])} }};")
            call = f"{function}_{CHUNK}, &{frame}, {nest.parallel_loop.num_chunks}"
            doc.line(f"  if ((cancelled = {prelude.use(dialect.parallel_for)}({CONTROL}, {call}))) goto leave;")
        elif nest.is_cancellable:
            doc.line(f"  if ((cancelled = {function}({', '.join([*args, CONTROL])}))) goto leave;")
        else:
            doc.line(f"  {function}({', '.join(args)});")
    if is_cancellable:
        doc.line("leave:")
    if releases_gil:
        doc.line("  control->acquire(thread);")
    doc.line(f"  return {'cancelled' if is_cancellable else '0'};")
