"""A nest as a function of a C-like language.

A nest with polls gives something other than 0 when it was told to leave.

    /* y */
    static void dense_1(const float *restrict x, float *restrict y, int64_t n)
    {
      for (int64_t i = 0; i < 5; i++) {
        y[i] = x[i + n] * 2.0f;
      }
    }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from ocannl.base.errors import CompileError
from ocannl.codegen.c_family import builtins, transpose, vectors
from ocannl.codegen.c_family.dialect import Dialect, Library
from ocannl.codegen.c_family.expressions import OPERATORS, SCALAR, Values, is_fused
from ocannl.codegen.c_family.infix import Term
from ocannl.codegen.c_family.transposed_expressions import Plane
from ocannl.codegen.c_family.vector_expressions import Lanes
from ocannl.codegen.c_family.vectors import parts
from ocannl.codegen.document import Document
from ocannl.codegen.nests import Claim, Nest
from ocannl.codegen.numbers import is_narrow
from ocannl.ir.loops import (
    Apply,
    Body,
    Buf,
    Comment,
    Expr,
    For,
    If,
    Let,
    Local,
    Mode,
    Pick,
    Poll,
    Prefetch,
    Stamp,
    Stmt,
    Store,
    Update,
    Var,
    When,
)
from ocannl.ir.names import Namer
from ocannl.ir.stack import BLOCK_BYTES
from ocannl.ir.walk import Node, children, walk

WIDTH = 100  # beyond which a line is broken
CHOICES = frozenset({"where", "relu_gate", "sat01_gate"})  # other operations use every operand
CONTROL, FRAME, CLAIM = "control", "frame", "claim"  # what the parameters of that kind are called
TOTAL = "total of lanes"  # no name that a program can hold


@cache
def reserved(dialect: Dialect) -> frozenset[str]:
    """Names that no array, symbol or function of a program may be given."""
    mathematical = (form.format(name) for form in dialect.math.values() for name in builtins.MATH.values())
    return (
        dialect.words
        | frozenset(builtins.names())
        | frozenset(vectors.names())
        | frozenset(transpose.names())
        | frozenset(mathematical)
        | {CONTROL, FRAME, CLAIM, dialect.poll.name, dialect.share.name, dialect.stamp.name}
    )


def print_nests(
    dialect: Dialect, library: Library, functions: Mapping[Nest, str], alike: Sequence[Nest], doc: Document
) -> None:
    """The function that nests share which are the same code (see `distinct`); `functions` has names for these and for
    all that they call."""
    _Function(dialect, library, functions, alike, doc).print()


class _Function:
    """One nest being printed, the first of those that share its code."""

    def __init__(
        self, dialect: Dialect, library: Library, functions: Mapping[Nest, str], alike: Sequence[Nest], doc: Document
    ) -> None:
        self.d = dialect
        self.nest = nest = alike[0]
        self.functions, self.name = functions, functions[nest]
        self.doc = doc
        self.depth = 1
        self.names = Namer(reserved(dialect))
        self.values = Values(dialect, library)
        self.stack_bytes = 0
        self.syms: list[str] = []
        written = {node.ref.buf for node in walk(nest.body) if isinstance(node, Store | Update | Stamp)}
        disjoint = nest.disjoint
        params: list[str] = []
        for buf in nest.bufs:
            called = self.names(buf.name)
            self.values.arrays[buf] = Term(called)
            constant = "" if buf in written else "const "
            alone = f"{dialect.restrict} " if buf in disjoint else ""
            params.append(f"{constant}{dialect.types[buf.precision]} *{alone}{called}")
        for sym in nest.syms:
            called = self.names(sym.name)
            self.syms.append(called)
            self.values.syms[sym] = Term(called)
            params.append(f"{dialect.index} {called}")
        self.fields = [*params, dialect.control]
        self.claimed = ("", "")  # the iterations to do, where threads share the nest
        if nest.claim is not None:
            self.claimed = (self.names("first"), self.names("limit"))
            params += [f"{dialect.index} {bound}" for bound in self.claimed]
        for each in alike:
            if each.labels:
                dialect.remark(doc, ", ".join(each.labels))
        if nest.claim is not None:
            library.use(dialect.poll)
        if nest.polls:
            params.append(dialect.control)
        form = f"{dialect.choosing}{dialect.nest}" if any(map(_chooses, nest.body)) else dialect.nest
        doc.line(fitted(form, "int" if nest.polls else "void", self.name, params))
        doc.line("{")
        self.stack = ""
        if nest.stack_bytes:
            self.stack = self.names("stack")
            self.line(dialect.block.format(type="char", name=self.stack, count=nest.stack_bytes))

    def print(self) -> None:
        self.block(self.nest.body)
        if self.nest.streams and self.d.fence:
            self.line(self.d.fence)
        if self.nest.polls:
            self.line("return 0;")
        self.doc.line("}")
        if self.nest.claim is not None:
            self.doc.line()
            self.claim(self.nest.claim)

    def claim(self, claim: Claim) -> None:
        """The arguments of the nest as a structure, and the function that does one claim."""
        frame, index = f"{self.name}_{FRAME}", self.d.index
        self.doc.line(f"struct {frame} {{")
        for field in self.fields:
            self.line(f"{field.replace(f'{self.d.restrict} ', '')};")
        self.doc.line("};")
        self.doc.line()
        self.doc.line(
            fitted(self.d.nest, "int", f"{self.name}_{CLAIM}", ["void *given", f"{index} {CLAIM}", f"{index} thread"])
        )
        self.doc.line("{")
        self.line(f"struct {frame} *{FRAME} = given;")
        self.line(f"{self.d.control} = thread ? {FRAME}->{CONTROL}->deaf : {FRAME}->{CONTROL};")
        turn = f"{CLAIM} % {claim.polled} == {claim.polled - 1} && " if claim.polled > 1 else ""
        self.line(f"if ({turn}{self.d.poll.name}({CONTROL})) return 1;")
        begin = CLAIM + (f" * {claim.size}" if claim.size > 1 else "") + (f" + {claim.first}" if claim.first else "")
        self.line(f"{index} first = {begin}, limit = first + {claim.size};")
        self.line(f"if (limit > {claim.limit}) limit = {claim.limit};")
        arrays = [self.values.arrays[buf].text for buf in self.nest.bufs]
        held = [f"{FRAME}->{name}" for name in (*arrays, *self.syms)]
        if self.nest.polls:
            self.line(f"return {self.name}({', '.join([*held, 'first', 'limit', CONTROL])});")
        else:
            self.line(f"{self.name}({', '.join([*held, 'first', 'limit'])});")
            self.line("return 0;")
        self.doc.line("}")

    # ------------------------------------------------------------------------------------------------------ statements

    def line(self, text: str) -> None:
        self.doc.line(f"{self.d.indent * self.depth}{text}")

    def inner(self, body: Body) -> None:
        self.depth += 1
        self.block(body)
        self.depth -= 1

    def block(self, body: Body) -> None:
        for stmt in body:
            self.statement(stmt)

    def statement(self, stmt: Stmt) -> None:
        match stmt:
            case Store(ref, value, _, streamed):
                put = self.values.streamed if streamed else self.values.assigned
                self.line(put(ref, self.values.value(value)))
            case Update():
                self.update(stmt)
            case For():
                self.loop(stmt)
            case If():
                self.choose(stmt)
            case Pick():
                self.pick(stmt)
            case Let(name, value):
                self.define(name, value)
            case Local(buf, fill):
                self.local(buf, fill)
            case Comment(text):
                self.d.remark(self.doc, text, self.d.indent * self.depth)
            case Prefetch(ref, ahead):
                if self.d.prefetch:
                    self.line(self.d.prefetch.format(cell=self.values.place(ref).text, ahead=ahead))
            case Poll():
                self.line(f"if ({self.values.library.use(self.d.poll)}({CONTROL})) return 1;")
            case Stamp(ref):
                self.line(self.values.assigned(ref, Term(f"{self.values.library.use(self.d.stamp)}({CONTROL})")))

    def loop(self, stmt: For) -> None:
        first, limit = self.values.first(stmt.lo), self.values.limit(stmt.hi)
        if self.nest.claim is not None and self.nest.claim.loop is stmt:
            first, limit = map(Term, self.claimed)
        if isinstance(first, int) and isinstance(limit, int):
            if first >= limit:
                return
            if first + stmt.step >= limit:
                self.values.syms[stmt.sym] = first
                self.block(stmt.body)
                return
            if stmt.row and self.d.vector and limit - first <= transpose.MOST:
                self.plane(stmt, stmt.row, range(first, limit))
                return
            if stmt.mode is Mode.UNROLLED or (stmt.row and self.d.vector):
                for value in range(first, limit):
                    self.values.syms[stmt.sym] = value
                    self.block(stmt.body)
                return
            if stmt.mode is Mode.LANES and self.d.vector:
                self.lanes(stmt, first, limit)
                return
        self.line(f"{self.counting(self.counter(stmt), first, limit, stmt.step)} {{")
        if self.nest.calls_in(stmt):
            self.calls()
        else:
            self.inner(stmt.body)
        self.line("}")

    def calls(self) -> None:
        """The parts of the nest, one after the other, and before them the arrays that they hand to each other."""
        self.depth += 1
        for each in self.nest.handed:
            self.local(each.buf, each.fill)
        for part in self.nest.parts:
            passed = [self.values.arrays[buf].text for buf in part.bufs]
            known = [self.values.syms[sym] for sym in part.syms]
            passed += [str(each) if isinstance(each, int) else each.text for each in known]
            if part.polls:
                self.line(f"if ({self.functions[part]}({', '.join([*passed, CONTROL])})) return 1;")
            else:
                self.line(f"{self.functions[part]}({', '.join(passed)});")
        self.depth -= 1

    def lanes(self, stmt: For, first: int, limit: int) -> None:
        """Vectors take so many iterations each; what is left over is a number."""
        one = self.values
        for width in parts(limit - first):
            if width > 1:
                self.values = Lanes(one, stmt.sym, first, width)
            else:
                one.syms[stmt.sym] = first
            self.block(stmt.body)
            self.values = one
            first += width

    def plane(self, stmt: For, row: For, rows: range) -> None:
        """Rows of lanes, each statement in all of them before the next one."""
        one = self.values
        first, limit = one.first(row.lo), one.limit(row.hi)
        assert isinstance(first, int) and isinstance(limit, int)
        for width in parts(limit - first):
            plane = Plane(one, stmt.sym, rows, row.sym, first, width)
            for each in row.body:
                self.across(plane, each)
            self.values = one
            first += width

    def across(self, plane: Plane, stmt: Stmt) -> None:
        """A statement in all rows; what lies side by side along these is turned on its way."""
        if isinstance(stmt, Let | Store | Update):
            for ref in plane.read(stmt.value):
                columns = self.names(ref.buf.name)
                self.line(f"{plane.type(ref.buf.precision)} {columns}[{len(plane.rows)}];")
                self.line(plane.taken(ref, columns))
        rows = ""
        if isinstance(stmt, Store) and plane.turns(stmt.ref):
            rows = self.names(stmt.ref.buf.name)
            self.line(f"{plane.type(stmt.ref.buf.precision)} {rows}[{len(plane.rows)}];")
        for n, self.values in enumerate(plane.rows):
            if isinstance(stmt, Store) and rows:
                self.line(f"{rows}[{n}] = {self.values.value(stmt.value).text};")
            else:
                self.statement(stmt)
        if isinstance(stmt, Store) and rows:
            self.line(plane.put(stmt.ref, rows))
        plane.forget()

    def counter(self, stmt: For) -> str:
        name = self.names(stmt.sym.name, "i")
        self.values.syms[stmt.sym] = Term(name)
        return name

    def counting(self, name: str, first: Term | int, limit: Term | int, step: int) -> str:
        start, end = (str(x) if isinstance(x, int) else x.text for x in (first, limit))
        onward = f"{name}++" if step == 1 else f"{name} += {step}"
        return f"for ({self.d.index} {name} = {start}; {name} < {end}; {onward})"

    def choose(self, stmt: If) -> None:
        test = self.values.condition(stmt.cond)
        if isinstance(test, bool):
            self.block(stmt.then if test else stmt.orelse)
            return
        self.line(f"if ({test.text}) {{")
        self.inner(stmt.then)
        if stmt.orelse:
            self.line("} else {")
            self.inner(stmt.orelse)
        self.line("}")

    def pick(self, stmt: Pick) -> None:
        name = self.names(stmt.sym.name, "at")
        self.line(f"const {self.d.index} {name} = {self.values.value(stmt.value).text};")
        self.values.syms[stmt.sym] = Term(name)
        self.line(f"if ({name} >= {stmt.sym.lo} && {name} <= {stmt.sym.hi}) {{")
        self.inner(stmt.body)
        self.line("}")

    def local(self, buf: Buf, fill: int | float | None) -> None:
        if buf.offset is not None:
            called, type_ = self.names(buf.name), self.d.types[buf.precision]
            self.values.arrays[buf] = Term(called)
            self.line(f"{type_} *{called} = ({type_} *)({self.stack} + {buf.offset});")
            return
        self.stack_bytes += 0 if buf in self.values.arrays else buf.nbytes
        if self.stack_bytes > BLOCK_BYTES:
            raise CompileError(f"local arrays up to `{buf.name}` need {self.stack_bytes} bytes of stack")
        called, type_ = self.names(buf.name), self.d.types[buf.precision]
        start = None if fill is None else self.d.literal(fill, buf.precision).text
        if not buf.shape:
            self.values.arrays[buf] = Term(called, symbol=SCALAR)
            self.line(f"{type_} {called}{'' if start is None else f' = {start}'};")
            return
        self.values.arrays[buf] = Term(called)
        self.line(f"{type_} {called}[{max(1, buf.size)}];")
        if start is not None:
            counter = self.names("cell")
            self.line(f"{self.counting(counter, 0, buf.size, 1)} {called}[{counter}] = {start};")

    def define(self, name: str, value: Expr) -> None:
        values, called = self.values.computing(value), self.names(name)
        self.line(f"const {values.type(value.precision)} {called} = {values.value(value).text};")
        values.variables[name] = Term(called)

    def update(self, stmt: Update) -> None:
        values, ref, precision = self.values, stmt.ref, stmt.ref.buf.precision
        if isinstance(values, Lanes) and not ref.stride(values.sym):
            self.fold(values, stmt)
        elif (
            stmt.op.name in OPERATORS and not is_narrow(precision) and precision.numpy.kind != "b"
            and not is_fused(stmt) and values.is_place(ref)
        ):  # fmt: skip
            self.line(f"{values.place(ref).text} {OPERATORS[stmt.op.name]}= {values.value(stmt.value).text};")
        else:
            self.line(values.assigned(ref, values.updated(stmt)))

    def fold(self, lanes: Lanes, stmt: Update) -> None:
        """All lanes update the same cell."""
        precision, value = stmt.ref.buf.precision, lanes.value(stmt.value)
        total = lanes.total(stmt.op, precision, value)
        numbers = [] if total is None else [total]
        if total is None:
            each = self.names("each")
            self.line(f"const {lanes.type(precision)} {each} = {value.text};")
            numbers = [Term(f"{each}[{lane}]") for lane in range(lanes.width)]
        self.values = lanes.one
        for number in numbers:
            self.values.variables[TOTAL] = number
            self.update(Update(stmt.ref, stmt.op, Var(TOTAL, precision)))
        self.values = lanes


def fitted(form: str, type_: str, name: str, params: list[str]) -> str:
    """The head of a function, one parameter a line where they do not fit into one."""
    head = form.format(type=type_, name=name, params=", ".join(params) or "void")
    broken = "\n    " + ",\n    ".join(params)
    return head if len(head) <= WIDTH else form.format(type=type_, name=name, params=broken)


def _chooses(node: Node) -> bool:
    """Whether what it does not choose may be left unread; lanes are read before they are chosen from."""
    match node:
        case When() | Pick():
            return True
        case Apply(op, _) if op.name in CHOICES:
            return True
        case If(cond, then, orelse) if not cond.is_true and any(map(_is_straight, then + orelse)):
            return True
        case For(mode=Mode.LANES):
            return False
        case _:
            return any(map(_chooses, children(node)))


def _is_straight(stmt: Stmt) -> bool:
    """Whether it is printed without a loop around it, and reads numbers one by one."""
    return isinstance(stmt, Store | Update | Let) or (isinstance(stmt, For) and stmt.mode is Mode.UNROLLED)
