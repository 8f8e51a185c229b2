"""Emits scalar straight-line code: stores, updates, definitions, and their expressions."""

from __future__ import annotations

import math

from ocannl.codegen import Document
from ocannl.codegen.formula_ir import Formula
from ocannl.codegen.formulas import formula_of
from ocannl.codegen.numbers import rounded
from ocannl.ir.affine import Cond
from ocannl.ir.loops import Apply, Buf, Cast, Const, Expr, IndexValue, Load, MemorySpace, Ref, Store, Update, Var, When
from ocannl.ir.name_mangling import identifier
from ocannl.ir.ops import ADD, MUL, NEG, Op
from ocannl.ir.pair_dots import factors_of_dot
from ocannl.ir.precision import Precision, bfloat16, int16, int64
from ocannl.ir.walk import walk
from ocannl_backend_llvm.arithmetic import apply, compare, extreme_of_numbers, power
from ocannl_backend_llvm.builder import Builder
from ocannl_backend_llvm.convert import convert, is_true, narrow, widen
from ocannl_backend_llvm.formulas import emit_formula
from ocannl_backend_llvm.indices import Indices
from ocannl_backend_llvm.pair_dots import add_dot, has_dot, pair_of
from ocannl_backend_llvm.types import LLVM_TYPES, constant

COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
LOGIC = frozenset({"and", "or", "not"})
UNROLLED_POWERS = range(5)  # constant powers expanded into multiplications
OLD_VALUE = "old value"  # variable for the cell of an `Update`; not an identifier, hence never a name of the program


class ScalarCode:
    """Emits the code of one iteration."""

    def __init__(self, b: Builder, indices: Indices, allocas: Document) -> None:
        self.b = b
        self.flow = b  # emits branches and labels
        self.indices = indices
        self.allocas = allocas
        self.pointers: dict[Buf, str] = {}
        self.cells: dict[tuple[Buf, int], str] = {}  # addresses of local arrays' cells at constant offsets
        self.names: dict[str, str] = {}  # values of `Let` variables

    def define(self, name: str, value: Expr) -> None:
        self.names[name] = self.value(value)

    def store(self, stmt: Store) -> None:
        value = self.value(stmt.value)
        self.b.line(f"store {LLVM_TYPES[stmt.ref.buf.precision]} {value}, ptr {self.address(stmt.ref)}")

    def prefetch(self, ref: Ref, distance: int, level: int) -> None:
        """Prefetches for reading, into the caches from this level on."""
        b = self.b
        address = b.assign(
            f"getelementptr {LLVM_TYPES[ref.buf.precision]}, ptr {self.address(ref)}, i64 {distance}", "ahead"
        )
        b.module.declare("llvm.prefetch.p0", "void", ("ptr", "i32", "i32", "i32"))
        b.line(f"call void @llvm.prefetch.p0(ptr {address}, i32 0, i32 {4 - level}, i32 1)")

    def update(self, stmt: Update) -> None:
        b, type_, address = self.b, LLVM_TYPES[stmt.ref.buf.precision], self.address(stmt.ref)
        old = b.assign(f"load {type_}, ptr {address}", identifier(stmt.ref.buf.name))
        b.line(f"store {type_} {self.updated_value(stmt, old)}, ptr {address}")

    def updated_value(self, stmt: Update, old: str) -> str:
        """The new value of an updated cell. Products may be fused with the addition (`fmuladd`)."""
        b, precision = self.b, stmt.ref.buf.precision
        work = precision.arithmetic
        self.names[OLD_VALUE] = old
        factors = factors_of_dot(stmt.value)
        if factors is not None and stmt.op is ADD and has_dot(b, precision):
            left, right = self.pair(*factors[::2]), self.pair(*factors[1::2])
            return add_dot(b, precision, old, left, right)
        negated, term = _strip_negation(stmt.value)
        if stmt.op is ADD and isinstance(term, Apply) and term.op is MUL and work.is_float:
            x, y = (self.widened(factor, work) for factor in term.args)
            x = b.op("fneg", LLVM_TYPES[work], x) if negated else x
            fused = b.intrinsic("fmuladd", LLVM_TYPES[work], x, y, convert(b, old, precision, work))
            return convert(b, fused, work, precision)
        return self.value(Apply(stmt.op, (Var(OLD_VALUE, precision), stmt.value)))

    def value(self, expr: Expr) -> str:
        """The value of an expression, in the storage type of its precision."""
        b = self.b
        match expr:
            case Load(ref):
                type_ = LLVM_TYPES[ref.buf.precision]
                return b.assign(f"load {type_}, ptr {self.address(ref)}", identifier(ref.buf.name))
            case Apply():
                return self.apply(expr)
            case Const(value, precision):
                return constant(value, precision)
            case Var(name, _):
                return self.names[name]
            case IndexValue(index, precision):
                index_value = self.indices.affine(index)
                return (
                    constant(index_value, precision)
                    if isinstance(index_value, int)
                    else convert(b, index_value, int64, precision)
                )
            case Cast(value, precision):
                if _is_truth(value):
                    return self.truth_as_number(self.truth(value), precision)
                return convert(b, self.value(value), value.precision, precision)
            case When(cond, on_true, on_false):
                return self.when(cond, on_true, on_false)

    def widened(self, expr: Expr, work: Precision) -> str:
        """The value of an expression, in its arithmetic type."""
        value = self.value(expr)
        return value if expr.precision is work else widen(self.b, value, expr.precision)

    def pair(self, low: Expr, high: Expr) -> str:
        """The words of two values of 16 bits, or of fewer that are extended to 16."""
        return pair_of(self.b, *(convert(self.b, self.value(x), x.precision, _halfword(x)) for x in (low, high)))

    def truth_as_number(self, truth: str, precision: Precision) -> str:
        """Converts an i1 to 1 or 0 of a precision."""
        true_value, false_value = constant(1, precision), constant(0, precision)
        if truth in ("true", "false"):
            return true_value if truth == "true" else false_value
        if precision.is_float:
            return self.b.select(truth, LLVM_TYPES[precision], true_value, false_value)
        return self.b.cast("zext", truth, "i1", LLVM_TYPES[precision])

    def apply(self, expr: Apply) -> str:
        op, args, precision = expr.op, expr.args, expr.precision
        if _is_truth(expr):
            return self.truth_as_number(self.truth(expr), precision)
        if op.name == "where":
            test = self.truth(args[0])
            return self.b.select(test, LLVM_TYPES[precision], self.value(args[1]), self.value(args[2]))
        work = precision.arithmetic
        operands = tuple(self.widened(arg, work) for arg in args)
        match expr:
            case Apply(_, (_, Const(exponent, _))) if op.name == "pow" and exponent in UNROLLED_POWERS:
                result = power(self.b, work, operands[0], int(exponent))
            case Apply(_, (x, y)) if op.name in ("max", "min") and work.is_float and (is_number(x) or is_number(y)):
                result = extreme_of_numbers(self.b, op, work, *(operands if is_number(y) else operands[::-1]))
            case _ if (formula := formula_of(op.name, work)) is not None:
                result = self.formula(op, formula, operands)
            case _:
                result = apply(self.b, op, work, operands)
        return result if work is precision else narrow(self.b, result, precision)

    def formula(self, op: Op, formula: Formula, args: tuple[str, ...]) -> str:
        """Emits an operation that has a formula; branches to the library call if any lane needs the slow path."""
        b, flow, type_ = self.b, self.flow, LLVM_TYPES[formula.precision]
        values = emit_formula(b, formula, args)
        result = values[formula.result]
        if not formula.slow_path_test:
            return result
        slot, is_slow = f"%{b.fresh(op.name)}", values[formula.slow_path_test]
        self.allocas.line(f"  {slot} = alloca {b.type(type_)}")
        slow, end = b.fresh("far"), b.fresh("end")
        b.line(f"store {b.type(type_)} {result}, ptr {slot}")
        flow.branch(b.any_lane(is_slow), slow, end)
        flow.label(slow)
        far = apply(b, op, formula.precision, args)
        b.line(f"store {b.type(type_)} {b.select(is_slow, type_, far, result)}, ptr {slot}")
        flow.jump(end)
        flow.label(end)
        return b.assign(f"load {b.type(type_)}, ptr {slot}", op.name)

    def truth(self, expr: Expr) -> str:
        """An i1: whether the value is nonzero."""
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
            case Const(value, precision):
                return "true" if rounded(value, precision) != 0 else "false"
            case _:
                return is_true(b, self.value(expr), expr.precision)

    def when(self, cond: Cond, on_true: Expr, on_false: Expr) -> str:
        b, flow, test, type_ = self.b, self.flow, self.indices.condition(cond), LLVM_TYPES[on_true.precision]
        if test in ("true", "false"):
            return self.value(on_true if test == "true" else on_false)
        if is_cheap(on_true) and is_cheap(on_false):
            return b.select_uniform(test, type_, self.value(on_true), self.value(on_false))
        slot = f"%{b.fresh('when')}"
        self.allocas.line(f"  {slot} = alloca {b.type(type_)}")
        true_label, false_label, end = b.fresh("then"), b.fresh("else"), b.fresh("end")
        flow.branch(test, true_label, false_label)
        for label, side in ((true_label, on_true), (false_label, on_false)):
            flow.label(label)
            flow.line(f"store {b.type(type_)} {b.operand(type_, self.value(side))}, ptr {slot}")
            flow.jump(end)
        flow.label(end)
        return b.assign(f"load {b.type(type_)}, ptr {slot}", "when")

    def cell_address(self, buf: Buf, offset: str | int) -> str:
        """The address of the cell at an element offset."""
        if offset == 0:
            return self.pointers[buf]
        element = f"getelementptr inbounds {LLVM_TYPES[buf.precision]}, ptr {self.pointers[buf]}, i64 {offset}"
        if buf.space is not MemorySpace.LOCAL or isinstance(offset, str):
            return self.b.assign(element, "at")
        if (buf, offset) not in self.cells:  # computed once per cell of a local array, in the entry block
            self.cells[buf, offset] = self.b.at(self.allocas).assign(element, identifier(buf.name))
        return self.cells[buf, offset]

    def address(self, ref: Ref) -> str:
        return self.cell_address(ref.buf, self.indices.element_offset(ref))


def _halfword(x: Expr) -> Precision:
    return bfloat16 if x.precision is bfloat16 else int16


def _strip_negation(expr: Expr) -> tuple[bool, Expr]:
    """Whether the expression is a negation, and its operand."""
    return (True, expr.args[0]) if isinstance(expr, Apply) and expr.op is NEG else (False, expr)


def _is_truth(expr: Expr) -> bool:
    return isinstance(expr, Apply) and (expr.op.name in COMPARISONS or expr.op.name in LOGIC)


def is_number(expr: Expr) -> bool:
    """Whether the value is known not to be NaN."""
    match expr:
        case Const(value, precision):
            return not math.isnan(rounded(value, precision))
        case Apply(op, (Apply(relation, operands), x, y)) if op.name == "where":
            is_compared = relation.name in COMPARISONS and relation.name != "ne" and x in operands
            return (is_compared or is_number(x)) and is_number(y)
        case _:
            return False


def is_cheap(expr: Expr) -> bool:
    """Whether speculative evaluation is safe and cheap: no loads and no operations."""
    return not any(isinstance(node, Load | Apply | When) for node in walk(expr))
