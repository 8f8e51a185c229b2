"""Prints a nest as a function of a C-like language.

Cancellable nests return an int, which is nonzero after cancellation.

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
from ocannl.codegen.c_family.chunk_function import (
    CHUNK,
    CONTROL,
    FILLED,
    FRAME,
    ChunkFunction,
    frame_values,
    function_head,
)
from ocannl.codegen.c_family.dialect import Dialect, Prelude
from ocannl.codegen.c_family.expressions import OPERATORS, SCALAR_LOCAL, ScalarExpressions, is_fused
from ocannl.codegen.c_family.infix import ExprText
from ocannl.codegen.c_family.tile_expressions import RegisterTile
from ocannl.codegen.c_family.vector_expressions import VectorExpressions
from ocannl.codegen.c_family.vectors import split_width
from ocannl.codegen.numbers import is_narrow
from ocannl.codegen.outlining import Nest
from ocannl.codegen.text_sections import Document
from ocannl.ir.loops import (
    Apply,
    BindIndex,
    Body,
    Buf,
    Comment,
    Expr,
    For,
    If,
    Let,
    Local,
    Mode,
    Poll,
    Prefetch,
    ReadClock,
    Stmt,
    Store,
    Update,
    Var,
    When,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.stack_size import MAX_LOCAL_BYTES
from ocannl.ir.walk import Node, children, walk

CONDITIONAL_OPS = frozenset({"where", "relu_gate", "sat01_gate"})  # operations that do not need all operands
LANE_TOTAL = "total of lanes"  # not an identifier, hence never a name of the program


@cache
def reserved(dialect: Dialect) -> frozenset[str]:
    """Names that arrays, symbols and functions of a program must not have."""
    mathematical = (form.format(name) for form in dialect.math.values() for name in builtins.MATH.values())
    return (
        dialect.reserved_names
        | frozenset(builtins.names())
        | frozenset(vectors.names())
        | frozenset(transpose.names())
        | frozenset(mathematical)
        | {CONTROL, FRAME, CHUNK, FILLED, dialect.poll.name, dialect.parallel_for.name, dialect.read_clock.name}
    )


def print_nests(
    dialect: Dialect, prelude: Prelude, functions: Mapping[Nest, str], equivalent_nests: Sequence[Nest], doc: Document
) -> list[str]:
    """Prints the function shared by `equivalent_nests` (see `deduplicated`); `functions` names the functions of these
    nests and of their callees. Returns the lines that declare the function in other translation units."""
    printer = _FunctionPrinter(dialect, prelude, functions, equivalent_nests, doc)
    printer.print()
    return printer.declaration()


class _FunctionPrinter:
    """Prints the first of several equivalent nests."""

    def __init__(
        self,
        dialect: Dialect,
        prelude: Prelude,
        functions: Mapping[Nest, str],
        equivalent_nests: Sequence[Nest],
        doc: Document,
    ) -> None:
        self.d = dialect
        self.nest = nest = equivalent_nests[0]
        self.functions, self.name = functions, functions[nest]
        self.doc = doc
        self.depth = 1
        callees = [functions[callee] for callee in nest.callees]
        self.names = Namer(reserved(dialect).union(callees, (f"{callee}_{CHUNK}" for callee in callees)))
        self.values = ScalarExpressions(dialect, prelude)
        self.stack_bytes = 0
        self.syms: list[str] = []
        written = {node.ref.buf for node in walk(nest.body) if isinstance(node, Store | Update | ReadClock)}
        unaliased = nest.unaliased_bufs
        params: list[str] = []
        for buf in (*nest.bufs, *nest.private_bufs):
            array = self.names(buf.name)
            self.values.arrays[buf] = ExprText(array)
            constant = "" if buf in written else "const "
            restrict = f"{dialect.restrict} " if buf in unaliased else ""
            params.append(f"{constant}{dialect.types[buf.precision]} *{restrict}{array}")
        for sym in nest.syms:
            index = self.names(sym.name)
            self.syms.append(index)
            self.values.syms[sym] = ExprText(index)
            params.append(f"{dialect.index} {index}")
        self.chunk_function: ChunkFunction | None = None
        self.chunk_bounds = ("", "")  # parameters with the iterations of a chunk of the parallel loop
        if nest.parallel_loop is not None:
            names = [*(self.values.arrays[buf].text for buf in (*nest.bufs, *nest.private_bufs)), *self.syms]
            declared = dict(zip(nest.params, zip(params, names, strict=True), strict=True))
            fields = {x: declared[x] for x in nest.free_variables}
            self.chunk_function = ChunkFunction(dialect, prelude, doc, nest, functions, fields, reserved(dialect))
            self.chunk_bounds = (self.names("first"), self.names("limit"))
            params += [f"{dialect.index} {bound}" for bound in self.chunk_bounds]
        for equivalent_nest in equivalent_nests:
            if equivalent_nest.labels:
                dialect.write_comment(doc, ", ".join(equivalent_nest.labels))
        if nest.parallel_loop is not None:
            prelude.use(dialect.poll)
        if nest.is_cancellable:
            params.append(dialect.control)
        has_conditional_reads = any(map(_has_conditional_reads, nest.body))
        head = f"{dialect.conditional_loads}{dialect.nest}" if has_conditional_reads else dialect.nest
        self.head = function_head(head, "int" if nest.is_cancellable else "void", self.name, params)
        doc.line(self.head)
        doc.line("{")
        self.stack = ""
        if nest.stack_bytes:
            self.stack = self.names("stack")
            self.line(dialect.stack_block.format(type="char", name=self.stack, count=nest.stack_bytes))

    def print(self) -> None:
        self.block(self.nest.function_body)
        if self.nest.has_nontemporal_stores and self.d.fence:
            self.line(self.d.fence)
        if self.nest.is_cancellable:
            self.line("return 0;")
        self.doc.line("}")
        if self.chunk_function is not None:
            self.doc.line()
            self.chunk_function.print()

    def declaration(self) -> list[str]:
        return [f"{self.head};"] if self.chunk_function is None else self.chunk_function.declaration()

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
            case Store(ref, value, _, nontemporal):
                store_statement = (
                    self.values.nontemporal_store_statement if nontemporal else self.values.store_statement
                )
                self.line(store_statement(ref, self.values.value(value)))
            case Update():
                self.update(stmt)
            case For():
                self.loop(stmt)
            case If():
                self.branch(stmt)
            case BindIndex():
                self.indirect_index(stmt)
            case Let(name, value):
                self.define(name, value)
            case Local(buf, fill):
                self.local(buf, fill)
            case Comment(text):
                self.d.write_comment(self.doc, text, self.d.indent * self.depth)
            case Prefetch(ref, distance, level):
                if self.d.prefetch:
                    cell, locality = self.values.cell(ref).text, "" if level == 1 else f", 0, {4 - level}"
                    self.line(self.d.prefetch.format(cell=cell, distance=distance, locality=locality))
            case Poll():
                self.line(f"if ({self.values.prelude.use(self.d.poll)}({CONTROL})) return 1;")
            case ReadClock(ref):
                read_clock = self.values.prelude.use(self.d.read_clock)
                self.line(self.values.store_statement(ref, ExprText(f"{read_clock}({CONTROL})")))

    def loop(self, stmt: For) -> None:
        first, limit = self.values.first(stmt.lo), self.values.limit(stmt.hi)
        if self.nest.parallel_loop is not None and self.nest.parallel_loop.loop is stmt:
            first, limit = map(ExprText, self.chunk_bounds)
        if isinstance(first, int) and isinstance(limit, int):
            if first >= limit:
                return
            if first + stmt.step >= limit:
                self.values.syms[stmt.sym] = first
                self.body_of(stmt)
                return
            if stmt.row and self.d.vector and limit - first <= transpose.MAX_ROWS:
                self.register_tile(stmt, stmt.row, range(first, limit))
                return
            if stmt.mode is Mode.UNROLLED or (stmt.row and self.d.vector):
                for value in range(first, limit):
                    self.values.syms[stmt.sym] = value
                    self.block(stmt.body)
                return
            if stmt.mode is Mode.VECTORIZED and self.d.vector:
                self.vector_loop(stmt, first, limit)
                return
        self.line(f"{self.loop_head(self.counter(stmt), first, limit, stmt.step)} {{")
        self.depth += 1
        self.body_of(stmt)
        self.depth -= 1
        self.line("}")

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
            args = [self.values.arrays[buf].text for buf in callee.bufs]
            values = [self.values.syms[sym] for sym in callee.syms]
            args += [str(value) if isinstance(value, int) else value.text for value in values]
            function = self.functions[callee]
            if callee.parallel_loop is not None:
                parallel_for = self.values.prelude.use(self.d.parallel_for)
                frame = self.names(FRAME)
                self.line(f"struct {function}_{FRAME} {frame} = {frame_values(callee, args)};")
                call = f"{CONTROL}, {function}_{CHUNK}, &{frame}, {callee.parallel_loop.num_chunks}"
                self.line(f"if ({parallel_for}({call})) return 1;")
            elif callee.is_cancellable:
                self.line(f"if ({function}({', '.join([*args, CONTROL])})) return 1;")
            else:
                self.line(f"{function}({', '.join(args)});")

    def vector_loop(self, stmt: For, first: int, limit: int) -> None:
        """Vectorizes a loop; the remainder is split into narrower vectors and a scalar iteration."""
        scalar = self.values
        for width in split_width(limit - first):
            if width > 1:
                self.values = VectorExpressions(scalar, stmt.sym, first, width)
            else:
                scalar.syms[stmt.sym] = first
            self.block(stmt.body)
            self.values = scalar
            first += width

    def register_tile(self, stmt: For, row: For, rows: range) -> None:
        """Vectorizes the inner loop `row` and unrolls the outer one; each statement is executed for all rows."""
        scalar = self.values
        first, limit = scalar.first(row.lo), scalar.limit(row.hi)
        assert isinstance(first, int) and isinstance(limit, int)
        for width in split_width(limit - first):
            tile = RegisterTile(scalar, stmt.sym, rows, row.sym, first, width)
            for inner in row.body:
                self.tile_statement(tile, inner)
            self.values = scalar
            first += width

    def tile_statement(self, tile: RegisterTile, stmt: Stmt) -> None:
        """A statement in all rows; accesses that are contiguous across rows are transposed in registers."""
        if isinstance(stmt, Let | Store | Update):
            for ref in tile.transposed_reads(stmt.value):
                columns = self.names(ref.buf.name)
                self.line(f"{tile.type(ref.buf.precision)} {columns}[{len(tile.rows)}];")
                self.line(tile.load_statement(ref, columns))
        rows = ""
        if isinstance(stmt, Store) and tile.is_transposed(stmt.ref):
            rows = self.names(stmt.ref.buf.name)
            self.line(f"{tile.type(stmt.ref.buf.precision)} {rows}[{len(tile.rows)}];")
        for n, self.values in enumerate(tile.rows):
            if isinstance(stmt, Store) and rows:
                self.line(f"{rows}[{n}] = {self.values.value(stmt.value).text};")
            else:
                self.statement(stmt)
        if isinstance(stmt, Store) and rows:
            self.line(tile.store_statement(stmt.ref, rows))
        tile.invalidate()

    def counter(self, stmt: For) -> str:
        name = self.names(stmt.sym.name, "i")
        self.values.syms[stmt.sym] = ExprText(name)
        return name

    def loop_head(self, name: str, first: ExprText | int, limit: ExprText | int, step: int) -> str:
        start, end = (str(x) if isinstance(x, int) else x.text for x in (first, limit))
        increment = f"{name}++" if step == 1 else f"{name} += {step}"
        return f"for ({self.d.index} {name} = {start}; {name} < {end}; {increment})"

    def branch(self, stmt: If) -> None:
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

    def indirect_index(self, stmt: BindIndex) -> None:
        name = self.names(stmt.sym.name, "at")
        self.line(f"const {self.d.index} {name} = {self.values.value(stmt.value).text};")
        self.values.syms[stmt.sym] = ExprText(name)
        self.line(f"if ({name} >= {stmt.sym.lo} && {name} <= {stmt.sym.hi}) {{")
        self.depth += 1
        self.body_of(stmt)
        self.depth -= 1
        self.line("}")

    def local(self, buf: Buf, fill: int | float | None) -> None:
        if buf.offset is not None:
            name, type_ = self.names(buf.name), self.d.types[buf.precision]
            self.values.arrays[buf] = ExprText(name)
            self.line(f"{type_} *{name} = ({type_} *)({self.stack} + {buf.offset});")
            return
        self.stack_bytes += 0 if buf in self.values.arrays else buf.nbytes
        if self.stack_bytes > MAX_LOCAL_BYTES:
            raise CompileError(f"local arrays up to `{buf.name}` need {self.stack_bytes} bytes of stack")
        name, type_ = self.names(buf.name), self.d.types[buf.precision]
        initial = None if fill is None else self.d.literal(fill, buf.precision).text
        if not buf.shape:
            self.values.arrays[buf] = ExprText(name, symbol=SCALAR_LOCAL)
            self.line(f"{type_} {name}{'' if initial is None else f' = {initial}'};")
            return
        self.values.arrays[buf] = ExprText(name)
        self.line(f"{type_} {name}[{max(1, buf.size)}];")
        if initial is not None:
            counter = self.names("cell")
            self.line(f"{self.loop_head(counter, 0, buf.size, 1)} {name}[{counter}] = {initial};")

    def define(self, name: str, value: Expr) -> None:
        values, variable = self.values.evaluator(value), self.names(name)
        self.line(f"const {values.type(value.precision)} {variable} = {values.value(value).text};")
        values.variables[name] = ExprText(variable)

    def update(self, stmt: Update) -> None:
        values, ref, precision = self.values, stmt.ref, stmt.ref.buf.precision
        if isinstance(values, VectorExpressions) and not ref.stride(values.sym):
            self.reduce_lanes(values, stmt)
        elif (
            stmt.op.name in OPERATORS and not is_narrow(precision) and precision.numpy.kind != "b"
            and not is_fused(stmt) and values.is_assignable(ref)
        ):  # fmt: skip
            self.line(f"{values.cell(ref).text} {OPERATORS[stmt.op.name]}= {values.value(stmt.value).text};")
        else:
            self.line(values.store_statement(ref, values.updated_value(stmt)))

    def reduce_lanes(self, vector: VectorExpressions, stmt: Update) -> None:
        """An update of one cell by all lanes: horizontal reduction, or one update per lane."""
        precision, value = stmt.ref.buf.precision, vector.value(stmt.value)
        total = vector.horizontal_reduction(stmt.op, precision, value)
        numbers = [] if total is None else [total]
        if total is None:
            array = self.names("each")
            self.line(f"const {vector.type(precision)} {array} = {value.text};")
            numbers = [ExprText(f"{array}[{lane}]") for lane in range(vector.width)]
        self.values = vector.scalar
        for number in numbers:
            self.values.variables[LANE_TOTAL] = number
            self.update(Update(stmt.ref, stmt.op, Var(LANE_TOTAL, precision)))
        self.values = vector


def _has_conditional_reads(node: Node) -> bool:
    """Whether scalar code loads memory under a condition; vectorized code loads all lanes unconditionally."""
    match node:
        case When() | BindIndex():
            return True
        case Apply(op, _) if op.name in CONDITIONAL_OPS:
            return True
        case If(cond, true_body, false_body) if not cond.is_true and any(
            map(_is_straight_line, true_body + false_body)
        ):
            return True
        case For(mode=Mode.VECTORIZED):
            return False
        case _:
            return any(map(_has_conditional_reads, children(node)))


def _is_straight_line(stmt: Stmt) -> bool:
    """Whether the statement is printed as scalar straight-line code."""
    return isinstance(stmt, Store | Update | Let) or (isinstance(stmt, For) and stmt.mode is Mode.UNROLLED)
