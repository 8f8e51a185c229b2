"""Prints loop programs as C: one function per nest, and one entry function per program that calls its nests in order.

    int ocannl_step(void *const addresses[], const int64_t symbols[], struct control *control)

See `ocannl.codegen.abi` for the arguments. The entry function of a program of many nests calls functions for its
parts. Long programs are split into several translation units, which are compiled in parallel; functions of nests are
visible in all units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from ocannl.backend import CompileError
from ocannl.codegen import Document, Nest, deduplicated, holds_gil, outline_nests, pool_bufs, with_callees
from ocannl.codegen.c_family.chunk_function import CHUNK, CONTROL, FRAME, frame_values, function_head
from ocannl.codegen.c_family.dialect import Definition, Dialect, Prelude
from ocannl.codegen.c_family.function import print_nests, reserved
from ocannl.codegen.outlining import split_into_parts
from ocannl.ir.affine import Sym
from ocannl.ir.loops import Buf, MemorySpace, Proc, Stmt
from ocannl.ir.name_mangling import Namer, identifier
from ocannl.ir.printer import print_proc
from ocannl.ir.walk import walk
from ocannl_backend_c.dialect import DIALECT, HIDDEN_NEST, PROLOGUE

ENTRY = "{type} {name}({params})"
UNIT_LINES = 1000  # per translation unit of a long program; amortizes the start of the compiler
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
PART_OF_PROGRAM = replace(LOADED_BY_PYTHON, dialect=replace(DIALECT, nest=HIDDEN_NEST))
"""The form of the translation units of a long program."""


def emit(
    procs: Sequence[Proc],
    unit: TranslationUnit = LOADED_BY_PYTHON,
    definitions: Iterable[Definition] = (),
    functions: Iterable[str] = (),
) -> str:
    """Prints all programs as one C translation unit. Text that follows may use further `definitions`, and define
    `functions`."""
    (text,) = _emit(procs, unit, definitions, functions)
    return text


def emit_units(procs: Sequence[Proc], lines: int = UNIT_LINES) -> Iterator[str]:
    """Yields the translation units of all programs. A unit ends with the function with which it exceeds `lines` lines;
    programs with fewer statements are one unit."""
    statements = (node for proc in procs for node in walk(proc.body) if isinstance(node, Stmt))
    is_long = any(islice(statements, lines, None))
    return _emit(procs, PART_OF_PROGRAM, lines=lines) if is_long else iter([emit(procs)])


def _emit(
    procs: Sequence[Proc],
    unit: TranslationUnit,
    definitions: Iterable[Definition] = (),
    functions: Iterable[str] = (),
    lines: int | None = None,
) -> Iterator[str]:
    reserved_names = reserved(unit.dialect) | {unit.symbol(proc.name) for proc in procs} | {*functions}
    names = Namer(reserved_names)
    declarations: dict[str, Sequence[str]] = {}
    file = _File(unit, definitions, declarations)
    for proc in procs:
        unit.dialect.write_comment(file.doc, print_proc(Proc(proc.name, proc.bufs, proc.syms, (), arena=proc.arena)))
        for define in _functions(proc, names, reserved_names):
            if lines is not None and file.length > lines:
                yield file.text()
                file = _File(unit, definitions, declarations)
            define(file)
        file.doc.line()
    yield file.text()


def _functions(proc: Proc, names: Namer, reserved_names: frozenset[str]) -> Iterator[Callable[[_File], None]]:
    """Yields what defines the functions of a program in a file: those of its nests, those of its parts if it consists
    of many nests, and the entry function."""
    top_level = outline_nests(proc)
    functions: dict[Nest, str] = {}
    for number, equivalent_nests in enumerate(deduplicated(with_callees(top_level)), 1):
        functions |= dict.fromkeys(equivalent_nests, names(f"{proc.name}_{number}"))
        yield partial(_File.add_nests, equivalent_nests=equivalent_nests, functions=functions)
    parts = {names(f"{identifier(proc.name)}_part"): nests for nests in split_into_parts(top_level)}
    chunk_functions = {f"{function}_{CHUNK}" for function in functions.values()}
    taken = reserved_names | LOCALS | {*functions.values(), *parts} | chunk_functions
    for name, nests in parts.items():
        yield partial(_File.add_part, name=name, calls=_NestCalls(proc, nests, functions, taken))
    yield partial(_File.add_entry, parts=tuple(parts), calls=_NestCalls(proc, top_level, functions, taken))


@dataclass(frozen=True, slots=True)
class _NestCalls:
    """The calls of nests in a function whose variables have names that are not `taken`."""

    proc: Proc
    nests: Sequence[Nest]
    functions: Mapping[Nest, str]
    taken: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Body:
    """The lines of a function; the statements of a cancellable one may go to its end."""

    declarations: Sequence[str]
    statements: Sequence[str]
    is_cancellable: bool


class _File:
    """A translation unit that is being printed; `declarations` are those of the functions of all units."""

    def __init__(
        self, unit: TranslationUnit, definitions: Iterable[Definition], declarations: dict[str, Sequence[str]]
    ) -> None:
        self.unit, self.dialect = unit, unit.dialect
        self.prelude = Prelude()
        for definition in definitions:
            self.prelude.use(definition)
        self.doc = Document()
        self.length = 0  # lines of functions
        self._head = self.doc.section()
        self._declarations = declarations
        self._visible: set[str] = set()  # functions that this unit has declared or defined

    def text(self) -> str:
        return "\n".join([self.unit.prologue, *self.prelude.lines(), self.doc.text()])

    def _declare(self, function: str) -> None:
        """Declares a function if another unit defines it."""
        if function not in self._visible:
            self._visible.add(function)
            for line in self._declarations[function]:
                self._head.line(line)

    def add_nests(self, equivalent_nests: Sequence[Nest], functions: Mapping[Nest, str]) -> None:
        """Defines the function of nests."""
        first = equivalent_nests[0]
        function = functions[first]
        for callee in (*first.callees, *first.private_copies):
            self._declare(functions[callee])
        self.doc.line()
        section = self.doc.section()
        self._declarations[function] = print_nests(self.dialect, self.prelude, functions, equivalent_nests, section)
        self._visible.add(function)
        self.length += sum(1 for _ in section.lines())

    def add_part(self, name: str, calls: _NestCalls) -> None:
        """Defines the function of a part of a program."""
        self._declarations[name] = [f"{self._define(self.dialect.nest, name, self._body(calls))};"]
        self._visible.add(name)

    def add_entry(self, parts: Sequence[str], calls: _NestCalls) -> None:
        """Defines the entry function of a program, which calls functions of parts, or its nests if there are none."""
        for part in parts:
            self._declare(part)
        body = _calls_of_parts(parts) if parts else self._body(calls)
        releases_gil = self.unit.has_python and not holds_gil(calls.proc)
        self._define(self.unit.linkage + ENTRY, self.unit.symbol(calls.proc.name), body, releases_gil)

    def _define(self, form: str, name: str, body: _Body, releases_gil: bool = False) -> str:
        """Defines a function with the parameters of an entry function; returns its head."""
        lines = [*body.declarations]
        if not self.unit.has_python:
            lines.append("(void)addresses, (void)symbols, (void)control;")
        if body.is_cancellable:
            lines.append("int cancelled = 0;")
        if releases_gil:
            lines.append("void *thread = control->release();")
        lines += body.statements
        params = ["void *const addresses[]", "const int64_t symbols[]", self.dialect.control]
        head = function_head(form, "int", name, params)
        self.doc.line()
        self.doc.line(head)
        self.doc.line("{")
        for line in lines:
            self.doc.line(f"  {line}")
        if body.is_cancellable:
            self.doc.line("leave:")
        if releases_gil:
            self.doc.line("  control->acquire(thread);")
        self.doc.line(f"  return {'cancelled' if body.is_cancellable else '0'};")
        self.doc.line("}")
        self.length += len(lines)
        return head

    def _body(self, calls: _NestCalls) -> _Body:
        """Declares the functions of nests; returns the declarations of their arrays and symbols, and their calls."""
        proc, names = calls.proc, Namer(calls.taken)
        declarations, values = _declarations(proc, calls.nests, names, self.dialect)
        statements: list[str] = []
        for nest in calls.nests:
            function = calls.functions[nest]
            self._declare(function)
            undeclared = [x.name for x in nest.free_variables if x not in values]
            if undeclared:
                raise CompileError(f"`{proc.name}` uses undeclared names: {', '.join(undeclared)}")
            args = [values[x] for x in nest.free_variables]
            if nest.parallel_loop is not None:
                frame = names(f"{function}_{FRAME}")
                statements.append(f"struct {function}_{FRAME} {frame} = {frame_values(nest, args)};")
                call = f"{function}_{CHUNK}, &{frame}, {nest.parallel_loop.num_chunks}"
                call = f"{self.prelude.use(self.dialect.parallel_for)}({CONTROL}, {call})"
                statements.append(_cancellable(call))
            elif nest.is_cancellable:
                statements.append(_cancellable(f"{function}({', '.join([*args, CONTROL])})"))
            else:
                statements.append(f"{function}({', '.join(args)});")
        return _Body(declarations, statements, any(nest.is_cancellable or nest.parallel_loop for nest in calls.nests))


def _calls_of_parts(parts: Sequence[str]) -> _Body:
    return _Body((), [_cancellable(f"{part}(addresses, symbols, {CONTROL})") for part in parts], is_cancellable=True)


def _cancellable(call: str) -> str:
    return f"if ((cancelled = {call})) goto leave;"


def _declarations(
    proc: Proc, nests: Sequence[Nest], names: Namer, dialect: Dialect
) -> tuple[list[str], dict[Buf | Sym, str]]:
    """Returns the declarations of the arrays and symbols that nests need, and their names."""
    needed = {buf for nest in nests for buf in nest.bufs} | {sym for nest in nests for sym in nest.syms}
    lines: list[str] = []
    values: dict[Buf | Sym, str] = {}
    pools = pool_bufs(proc)
    for position, buf in enumerate(pools):
        if buf in needed:
            values[buf] = names(buf.name)
            lines.append(f"{dialect.types[buf.precision]} *{values[buf]} = addresses[{position}];")
    in_arena = [buf for buf in proc.bufs if buf.space is MemorySpace.ARENA and buf in needed]
    if in_arena:
        lines.append(f"char *arena = addresses[{len(pools)}];")
    for buf in in_arena:
        if buf.offset is None:
            raise CompileError(f"`{proc.name}`: no memory was planned for `{buf.name}`")
        values[buf] = names(buf.name)
        type_ = dialect.types[buf.precision]
        lines.append(f"{type_} *{values[buf]} = ({type_} *)(arena + {buf.offset});")
    for position, sym in enumerate(proc.syms):
        if sym in needed:
            values[sym] = names(sym.name)
            lines.append(f"int64_t {values[sym]} = symbols[{position}];")
    return lines, values
