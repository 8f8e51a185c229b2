"""Loop programs as C text: the functions of all nests, and for each program one that calls its nests in order.

    int ocannl_step(void *const addresses[], const int64_t symbols[], struct control *control)

See `ocannl.codegen.abi` for what these are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ocannl.backend import CompileError
from ocannl.codegen import Document, Nest, brief, distinct, nests, pool_bufs, with_parts
from ocannl.codegen.c_family.dialect import Library
from ocannl.codegen.c_family.function import CLAIM, CONTROL, FRAME, fitted, print_nests, reserved
from ocannl.ir.index import Sym
from ocannl.ir.loops import Buf, Home, Proc
from ocannl.ir.names import Namer, identifier
from ocannl.ir.text import print_proc
from ocannl_backend_c.dialect import DIALECT, PROLOGUE

ENTRY = "{type} {name}({params})"
PARAMS = ["void *const addresses[]", "const int64_t symbols[]", DIALECT.control]
LOCALS = frozenset({"addresses", "symbols", CONTROL, "arena", "thread", "cancelled"})


def symbol(name: str) -> str:
    """Of the entry of a program, in object files: a name no library has."""
    return f"ocannl_{identifier(name)}"


def emit(procs: Sequence[Proc]) -> str:
    """The module of all programs."""
    library, doc = Library(), Document()
    taken = reserved(DIALECT) | {symbol(proc.name) for proc in procs}
    names = Namer(taken)
    for proc in procs:
        _program(library, proc, names, taken, doc)
    return "\n".join([PROLOGUE, *library.lines(), doc.text()])


def _program(library: Library, proc: Proc, names: Namer, taken: frozenset[str], doc: Document) -> None:
    DIALECT.remark(doc, print_proc(Proc(proc.name, proc.bufs, proc.syms, (), arena=proc.arena)))
    parts = nests(proc)
    functions: dict[Nest, str] = {}
    for number, alike in enumerate(distinct(with_parts(parts)), 1):
        functions |= dict.fromkeys(alike, names(f"{proc.name}_{number}"))
        doc.line()
        print_nests(DIALECT, library, functions, alike, doc)
    doc.line()
    doc.line(fitted(ENTRY, "int", symbol(proc.name), PARAMS))
    doc.line("{")
    _calls(proc, parts, functions, Namer(taken | LOCALS | set(functions.values())), library, doc)
    doc.line("}")
    doc.line()


def _calls(
    proc: Proc, parts: Sequence[Nest], functions: Mapping[Nest, str], names: Namer, library: Library, doc: Document
) -> None:
    """Addresses and symbols under their names, then the nests."""
    needed = {buf for nest in parts for buf in nest.bufs} | {sym for nest in parts for sym in nest.syms}
    values: dict[Buf | Sym, str] = {}
    pools = pool_bufs(proc)
    for place, buf in enumerate(pools):
        if buf in needed:
            values[buf] = names(buf.name)
            doc.line(f"  {DIALECT.types[buf.precision]} *{values[buf]} = addresses[{place}];")
    in_arena = [buf for buf in proc.bufs if buf.home is Home.ARENA and buf in needed]
    if in_arena:
        doc.line(f"  char *arena = addresses[{len(pools)}];")
    for buf in in_arena:
        if buf.offset is None:
            raise CompileError(f"`{proc.name}`: no memory was planned for `{buf.name}`")
        values[buf] = names(buf.name)
        type_ = DIALECT.types[buf.precision]
        doc.line(f"  {type_} *{values[buf]} = ({type_} *)(arena + {buf.offset});")
    for place, sym in enumerate(proc.syms):
        if sym in needed:
            values[sym] = names(sym.name)
            doc.line(f"  int64_t {values[sym]} = symbols[{place}];")
    polls, unlocked = any(nest.polls or nest.claim for nest in parts), not brief(proc)
    if polls:
        doc.line("  int cancelled = 0;")
    if unlocked:
        doc.line("  void *thread = control->release();")
    for nest in parts:
        function = functions[nest]
        given: list[Buf | Sym] = [*nest.bufs, *nest.syms]
        unknown = [x.name for x in given if x not in values]
        if unknown:
            raise CompileError(f"`{proc.name}` mentions without declaring them: {', '.join(unknown)}")
        passed = [values[x] for x in given]
        if nest.claim is not None:
            frame = names(f"{function}_{FRAME}")
            doc.line(f"  struct {function}_{FRAME} {frame} = {{ {', '.join([*passed, CONTROL])} }};")
            many = f"{function}_{CLAIM}, &{frame}, {nest.claim.count}"
            doc.line(f"  if ((cancelled = {library.use(DIALECT.share)}({CONTROL}, {many}))) goto leave;")
        elif nest.polls:
            doc.line(f"  if ((cancelled = {function}({', '.join([*passed, CONTROL])}))) goto leave;")
        else:
            doc.line(f"  {function}({', '.join(passed)});")
    if polls:
        doc.line("leave:")
    if unlocked:
        doc.line("  control->acquire(thread);")
    doc.line(f"  return {'cancelled' if polls else '0'};")
