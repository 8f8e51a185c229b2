"""Vectorized loops as operations on vectors, and the local arrays that become vectors in registers.

    for n in 0..8: y[i + n] = x[i + n] * a     ==>     store_8(y, i, load_8(x, i) * splat_8(a))

Loops whose statements have no such form are printed as ordinary loops.
"""

from __future__ import annotations

from typing import Protocol

from ocannl.codegen import Document
from ocannl.ir import loops as ir
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD, BY_NAME, MUL
from ocannl.ir.precision import Precision, float32, float64
from ocannl.ir.walk import walk
from ocannl_backend_numba.vectors import WIDTHS

FORMS = {
    "add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "div": "({} / {})", "neg": "(-{})", "id": "{}",
    "fma": "fma({}, {}, {})", "max": "maximum({}, {})", "min": "minimum({}, {})",
}  # fmt: skip
"""The operations on vectors."""


def is_unrolled(stmt: ir.For) -> bool:
    """Whether the body is printed for each iteration. The outer loop of a register tile is unrolled too."""
    is_constant = stmt.lo.constant is not None and stmt.hi.constant is not None
    return is_constant and (stmt.mode is ir.Mode.UNROLLED or stmt.row is not None)


def vector_width(stmt: ir.For, vector_bytes: int) -> int:
    """The number of lanes of the vectors of a loop; 0 if it is printed as an ordinary loop."""
    precision = _precision(stmt)
    if stmt.mode is not ir.Mode.VECTORIZED or stmt.step != 1 or precision is None:
        return 0
    first, last = stmt.lo.constant, stmt.hi.constant
    width = vector_bytes // precision.nbytes
    if first is None or last is None or width not in WIDTHS:
        return 0
    lets: set[str] = set()
    for inner in stmt.body:
        if not _is_vectorizable(inner, stmt.sym, precision, lets):
            return 0
    trips = last + 1 - first
    return trips if trips in WIDTHS and trips <= 2 * width else width if trips >= width else 0


def _precision(stmt: ir.For) -> Precision | None:
    """The float type that all cells written by the loop have."""
    written = {inner.ref.buf.precision for inner in stmt.body if isinstance(inner, ir.Store | ir.Update)}
    return next(iter(written)) if len(written) == 1 and written <= {float32, float64} else None


def _is_vectorizable(stmt: ir.Stmt, lane: Sym, precision: Precision, lets: set[str]) -> bool:
    match stmt:
        case ir.Store(ref, value):
            return ref.stride(lane) == 1 and _has_lanes(value, lane, precision, lets)
        case ir.Update(ref, op, value):
            return ref.stride(lane) == 1 and op.name in FORMS and _has_lanes(value, lane, precision, lets)
        case ir.Let(name, value):
            lets.add(name)
            return _has_lanes(value, lane, precision, lets)
        case _:
            return isinstance(stmt, ir.Comment)


def _has_lanes(expr: ir.Expr, lane: Sym, precision: Precision, lets: set[str]) -> bool:
    """Whether an expression has the form of a vector; values that are the same in all lanes have it."""
    match expr:
        case ir.Apply(op, args) if expr.precision is precision and op.name in FORMS:
            return all(_has_lanes(arg, lane, precision, lets) for arg in args)
        case ir.Load(ref) if ref.stride(lane) == 1:
            return expr.precision is precision
        case ir.Load() | ir.Const() | ir.Var():
            return expr.precision is precision and (not isinstance(expr, ir.Load) or lane not in expr.ref.syms)
        case _:
            return False


def register_arrays(body: ir.Body, vector_bytes: int) -> set[ir.Buf]:
    """The local arrays that are only accessed by whole vectors at constant positions."""
    fits: dict[ir.Buf, bool] = {}
    _visit(body, frozenset(), None, fits, vector_bytes)
    return {buf for buf, is_fit in fits.items() if is_fit}


def _visit(
    body: ir.Body, unrolled: frozenset[Sym], lane: Sym | None, fits: dict[ir.Buf, bool], vector_bytes: int
) -> None:
    for stmt in body:
        match stmt:
            case ir.Local(buf):
                fits[buf] = bool(buf.shape) and buf.offset is None and buf.precision in (float32, float64)
            case ir.For(sym):
                inner = unrolled | {sym} if is_unrolled(stmt) else unrolled
                trips = sym.extent if ir.is_full(stmt) else 0
                is_vector = trips and vector_width(stmt, vector_bytes) == trips
                _visit(stmt.body, inner, sym if is_vector else None, fits, vector_bytes)
            case ir.If(_, on_true, on_false):
                _visit(on_true, unrolled, None, fits, vector_bytes)
                _visit(on_false, unrolled, None, fits, vector_bytes)
            case ir.BindIndex(_, value, inner_body):
                _visit((ir.Let("", value),), unrolled, None, fits, vector_bytes)
                _visit(inner_body, unrolled, None, fits, vector_bytes)
            case ir.Prefetch():
                pass
            case _:
                for node in walk((stmt,)):
                    if isinstance(node, ir.Load | ir.Store | ir.Update | ir.ReadClock) and node.ref.buf in fits:
                        fits[node.ref.buf] &= _is_register(node.ref, unrolled, lane)


def _is_register(ref: ir.Ref, unrolled: frozenset[Sym], lane: Sym | None) -> bool:
    *outer, last = ref.indices or (Affine(),)
    if lane is None or last != Affine.of(lane) or lane.lo != 0 or ref.buf.shape[-1] != lane.extent:
        return False
    return ref.buf.strides[-1] == 1 and all(sym in unrolled for index in outer for sym in index.syms)


class ScalarPrinter(Protocol):
    """The printer of scalar code, which owns the names."""

    doc: Document
    namer: Namer
    constants: dict[Sym, Affine]
    in_registers: set[ir.Buf]

    def name(self, entity: ir.Buf | Sym | str) -> str: ...
    def rename(self, entity: ir.Buf | Sym | str) -> str: ...
    def index(self, index: Affine) -> str: ...
    def constant(self, value: int | float, precision: Precision) -> str: ...
    def value(self, expr: ir.Expr) -> str: ...
    def serial_loop(self, stmt: ir.For, start: str, stop: str, indent: str) -> None: ...


class VectorLoops:
    """Prints the vectorized loops of a nest."""

    def __init__(self, printer: ScalarPrinter, vector_bytes: int) -> None:
        self.printer, self.vector_bytes = printer, vector_bytes
        self.width = 0
        self.lane: Sym | None = None
        self.lets: set[str] = set()  # variables that are vectors
        self.registers: dict[tuple[ir.Buf, int], str] = {}  # by array and first cell

    def local(self, buf: ir.Buf, fill: int | float | None, indent: str) -> None:
        """Names a variable for each row of an array in registers."""
        width = buf.shape[-1]
        for start in range(0, buf.size, width):
            self.registers[buf, start] = self.printer.namer(f"{buf.name}_{start}")
            if fill is not None:
                value = self.printer.constant(fill, buf.precision)
                self.printer.doc.line(f"{indent}{self.registers[buf, start]} = splat_{width}({value})")

    def print(self, stmt: ir.For, indent: str) -> bool:
        """Prints the loop if it can be expressed by operations on vectors, and returns whether it did."""
        printer, width = self.printer, vector_width(stmt, self.vector_bytes)
        first, last = stmt.lo.constant, stmt.hi.constant
        if not width or first is None or last is None:
            return False
        trips = max(0, last + 1 - first)
        if trips == width:
            printer.constants[stmt.sym] = Affine.of(first)
            self.body(stmt, width, indent)
            del printer.constants[stmt.sym]
            return True
        limit = first + trips // width * width
        printer.doc.line(f"{indent}for {printer.rename(stmt.sym)} in range({first}, {limit}, {width}):")
        self.body(stmt, width, f"{indent}    ")
        if limit <= last:
            printer.serial_loop(stmt, str(limit), str(last + 1), indent)
        return True

    def body(self, stmt: ir.For, width: int, indent: str) -> None:
        self.width, self.lane, self.lets = width, stmt.sym, set()
        for inner in stmt.body:
            self.statement(inner, indent)
        self.lane = None

    def statement(self, stmt: ir.Stmt, indent: str) -> None:
        printer = self.printer
        match stmt:
            case ir.Let(name, value):
                text = self.value(value)
                self.lets.add(name)
                printer.doc.line(f"{indent}{printer.rename(name)} = {text}")
            case ir.Store(ref, value):
                printer.doc.line(f"{indent}{self.assignment(ref, self.value(value))}")
            case ir.Update(ref):
                printer.doc.line(f"{indent}{self.assignment(ref, self.value(updated(stmt)))}")

    def assignment(self, ref: ir.Ref, value: str) -> str:
        if ref.buf in self.printer.in_registers:
            return f"{self.register(ref)} = {value}"
        return f"store_{self.width}({self.printer.name(ref.buf)}, {self.printer.index(ref.address)}, {value})"

    def register(self, ref: ir.Ref) -> str:
        return self.registers[ref.buf, ref.address.substitute(self.printer.constants).const]

    def value(self, expr: ir.Expr) -> str:
        match expr:
            case ir.Apply(op, args):
                return FORMS[op.name].format(*map(self.value, args))
            case ir.Load(ref) if self.lane is not None and ref.stride(self.lane) == 1:
                if ref.buf in self.printer.in_registers:
                    return self.register(ref)
                return f"load_{self.width}({self.printer.name(ref.buf)}, {self.printer.index(ref.address)})"
            case ir.Var(name) if name in self.lets:
                return self.printer.name(name)
            case _:
                return f"splat_{self.width}({self.printer.value(expr)})"


def updated(stmt: ir.Update) -> ir.Expr:
    """The new value of an updated cell; a product is added without rounding it first."""
    old = ir.Load(stmt.ref)
    if stmt.op is ADD and isinstance(stmt.value, ir.Apply) and stmt.value.op is MUL and old.precision.is_float:
        return ir.Apply(BY_NAME["fma"], (*stmt.value.args, old))
    return ir.Apply(stmt.op, (old, stmt.value))
