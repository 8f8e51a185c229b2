"""Straight-line code: stores, updates, definitions, and the expressions in them."""

from __future__ import annotations

from ocannl.codegen import Document
from ocannl.codegen.formulas import FORMULAS
from ocannl.codegen.numbers import rounded
from ocannl.ir.index import Cond
from ocannl.ir.loops import Apply, Buf, Cast, Expr, Home, Idx, Load, Num, Ref, Store, Update, Var, When
from ocannl.ir.names import identifier
from ocannl.ir.ops import ADD, MUL, NEG, Op
from ocannl.ir.precision import Precision, float32, int64
from ocannl.ir.walk import walk
from ocannl_backend_llvm.arith import apply, compare, power
from ocannl_backend_llvm.build import Builder
from ocannl_backend_llvm.convert import convert, is_true, narrow, widen
from ocannl_backend_llvm.formulas import write
from ocannl_backend_llvm.indices import Indices
from ocannl_backend_llvm.types import HELD, constant

COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
LOGIC = frozenset({"and", "or", "not"})
PRODUCTS = range(5)  # constant powers that become products
OLD = "old value"  # of the cell that an `Update` changes: no name that a program can hold


class Straight:
    """The code of one iteration."""

    def __init__(self, b: Builder, indices: Indices, allocas: Document) -> None:
        self.b = b
        self.flow = b  # writes branches and labels
        self.indices = indices
        self.allocas = allocas
        self.pointers: dict[Buf, str] = {}
        self.cells: dict[tuple[Buf, int], str] = {}  # pointers to those of locals
        self.names: dict[str, str] = {}  # of `Let`s

    def define(self, name: str, value: Expr) -> None:
        self.names[name] = self.value(value)

    def store(self, stmt: Store) -> None:
        held = self.value(stmt.value)
        self.b.line(f"store {HELD[stmt.ref.buf.precision]} {held}, ptr {self.place(stmt.ref)}")

    def prefetch(self, ref: Ref, ahead: int) -> None:
        """For reading, and to stay in all caches."""
        b = self.b
        at = b.let(f"getelementptr {HELD[ref.buf.precision]}, ptr {self.place(ref)}, i64 {ahead}", "ahead")
        b.module.declare("llvm.prefetch.p0", "void", ("ptr", "i32", "i32", "i32"))
        b.line(f"call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 3, i32 1)")

    def update(self, stmt: Update) -> None:
        b, held, where = self.b, HELD[stmt.ref.buf.precision], self.place(stmt.ref)
        old = b.let(f"load {held}, ptr {where}", identifier(stmt.ref.buf.name))
        b.line(f"store {held} {self.updated(stmt, old)}, ptr {where}")

    def updated(self, stmt: Update, old: str) -> str:
        """The new value of a cell. A product that is added may be rounded once, together with the sum."""
        b, precision = self.b, stmt.ref.buf.precision
        work = precision.arithmetic
        self.names[OLD] = old
        negated, term = _without_sign(stmt.value)
        if stmt.op is ADD and isinstance(term, Apply) and term.op is MUL and work.is_float:
            x, y = (self.widened(factor, work) for factor in term.args)
            x = b.op("fneg", HELD[work], x) if negated else x
            fused = b.intrinsic("fmuladd", HELD[work], x, y, convert(b, old, precision, work))
            return convert(b, fused, work, precision)
        return self.value(Apply(stmt.op, (Var(OLD, precision), stmt.value)))

    def value(self, expr: Expr) -> str:
        """An operand that holds the value, in the type that holds its precision."""
        b = self.b
        match expr:
            case Load(ref):
                held = HELD[ref.buf.precision]
                return b.let(f"load {held}, ptr {self.place(ref)}", identifier(ref.buf.name))
            case Apply():
                return self.apply(expr)
            case Num(value, precision):
                return constant(value, precision)
            case Var(name, _):
                return self.names[name]
            case Idx(index, precision):
                at = self.indices.affine(index)
                return constant(at, precision) if isinstance(at, int) else convert(b, at, int64, precision)
            case Cast(value, precision):
                if _is_truth(value):
                    return self.number(self.truth(value), precision)
                return convert(b, self.value(value), value.precision, precision)
            case When(cond, then, orelse):
                return self.when(cond, then, orelse)

    def widened(self, expr: Expr, work: Precision) -> str:
        """The value in the type that arithmetic runs in."""
        value = self.value(expr)
        return value if expr.precision is work else widen(self.b, value, expr.precision)

    def number(self, truth: str, precision: Precision) -> str:
        """An i1 as 1 or 0."""
        one, zero = constant(1, precision), constant(0, precision)
        if truth in ("true", "false"):
            return one if truth == "true" else zero
        if precision.is_float:
            return self.b.select(truth, HELD[precision], one, zero)
        return self.b.cast("zext", truth, "i1", HELD[precision])

    def apply(self, expr: Apply) -> str:
        op, args, precision = expr.op, expr.args, expr.precision
        if _is_truth(expr):
            return self.number(self.truth(expr), precision)
        if op.name == "where":
            test = self.truth(args[0])
            return self.b.select(test, HELD[precision], self.value(args[1]), self.value(args[2]))
        work = precision.arithmetic
        operands = tuple(self.widened(arg, work) for arg in args)
        match expr:
            case Apply(_, (_, Num(exponent, _))) if op.name == "pow" and exponent in PRODUCTS:
                result = power(self.b, work, operands[0], int(exponent))
            case _ if op.name in FORMULAS and work is float32:
                result = self.formula(op, operands)
            case _:
                result = apply(self.b, op, work, operands)
        return result if work is precision else narrow(self.b, result, precision)

    def formula(self, op: Op, args: tuple[str, ...]) -> str:
        """The value of an operation that has a formula; the library is called only if one of the values is beyond."""
        b, flow, formula, held = self.b, self.flow, FORMULAS[op.name], HELD[float32]
        values = write(b, formula, args)
        result = values[formula.result]
        if not formula.beyond:
            return result
        slot, beyond = f"%{b.fresh(op.name)}", values[formula.beyond]
        self.allocas.line(f"  {slot} = alloca {b.type(held)}")
        far, end = b.fresh("far"), b.fresh("end")
        b.line(f"store {b.type(held)} {result}, ptr {slot}")
        flow.branch(b.any(beyond), far, end)
        flow.label(far)
        b.line(f"store {b.type(held)} {b.select(beyond, held, apply(b, op, float32, args), result)}, ptr {slot}")
        flow.jump(end)
        flow.label(end)
        return b.let(f"load {b.type(held)}, ptr {slot}", op.name)

    def truth(self, expr: Expr) -> str:
        """An i1: whether the value is not zero."""
        b = self.b
        match expr:
            case Apply(op, (x, y)) if op.name in COMPARISONS:
                work = x.precision.arithmetic
                return compare(b, op.name, work, self.widened(x, work), self.widened(y, work))
            case Apply(op, (x, y)) if op.name in LOGIC:
                return b.op(op.name, "i1", self.truth(x), self.truth(y))
            case Apply(op, (x,)) if op.name == "not":
                return b.op("xor", "i1", self.truth(x), "true")
            case Cast(value, _) if _is_truth(value):
                return self.truth(value)
            case Num(value, precision):
                return "true" if rounded(value, precision) != 0 else "false"
            case _:
                return is_true(b, self.value(expr), expr.precision)

    def when(self, cond: Cond, then: Expr, orelse: Expr) -> str:
        b, flow, test, held = self.b, self.flow, self.indices.condition(cond), HELD[then.precision]
        if test in ("true", "false"):
            return self.value(then if test == "true" else orelse)
        if is_cheap(then) and is_cheap(orelse):
            return b.either(test, held, self.value(then), self.value(orelse))
        slot = f"%{b.fresh('when')}"
        self.allocas.line(f"  {slot} = alloca {b.type(held)}")
        yes, no, end = b.fresh("then"), b.fresh("else"), b.fresh("end")
        flow.branch(test, yes, no)
        for label, side in ((yes, then), (no, orelse)):
            flow.label(label)
            flow.line(f"store {b.type(held)} {b.operand(held, self.value(side))}, ptr {slot}")
            flow.jump(end)
        flow.label(end)
        return b.let(f"load {b.type(held)}, ptr {slot}", "when")

    def cell(self, buf: Buf, offset: str | int) -> str:
        """A pointer to it."""
        if offset == 0:
            return self.pointers[buf]
        element = f"getelementptr inbounds {HELD[buf.precision]}, ptr {self.pointers[buf]}, i64 {offset}"
        if buf.home is not Home.REG or isinstance(offset, str):
            return self.b.let(element, "at")
        if (buf, offset) not in self.cells:  # a cell of a local is named once, where the local is
            self.cells[buf, offset] = self.b.at(self.allocas).let(element, identifier(buf.name))
        return self.cells[buf, offset]

    def place(self, ref: Ref) -> str:
        return self.cell(ref.buf, self.indices.offset(ref))


def _without_sign(expr: Expr) -> tuple[bool, Expr]:
    """Whether it is negated, and what is."""
    return (True, expr.args[0]) if isinstance(expr, Apply) and expr.op is NEG else (False, expr)


def _is_truth(expr: Expr) -> bool:
    return isinstance(expr, Apply) and (expr.op.name in COMPARISONS or expr.op.name in LOGIC)


def is_cheap(expr: Expr) -> bool:
    """Neither reads memory nor takes long: evaluating it in vain does no harm."""
    return not any(isinstance(node, Load | Apply | When) for node in walk(expr))
