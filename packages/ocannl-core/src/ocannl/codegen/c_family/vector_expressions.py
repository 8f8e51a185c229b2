"""Vector expressions: all iterations of a vectorized loop at once (see `vectors`).

Uniform subexpressions are computed as scalars and broadcast where they are combined with vectors. Truth values are
masks of 4-byte integers.
"""

from __future__ import annotations

from ocannl.codegen.c_family import builtins, formulas, vector_formulas, vectors
from ocannl.codegen.c_family.dialect import Definition
from ocannl.codegen.c_family.expressions import COMPARISONS, ScalarExpressions
from ocannl.codegen.c_family.infix import ExprText, binary, call, unary
from ocannl.codegen.formula_ir import Formula
from ocannl.codegen.numbers import is_narrow
from ocannl.codegen.uniformity import Varying
from ocannl.ir.affine import Affine, Cond, Sym
from ocannl.ir.loops import Apply, Expr, IndexValue, Ref, When
from ocannl.ir.ops import Op
from ocannl.ir.precision import Precision, int32, int64


class VectorExpressions(ScalarExpressions):
    """The expressions of iterations [`first`, `first + width`) of the loop over `sym`; `scalar` prints uniform
    subexpressions."""

    __slots__ = ("first_lane", "scalar", "sym", "varies", "width")

    def __init__(self, scalar: ScalarExpressions, sym: Sym, first: int, width: int) -> None:
        super().__init__(scalar.dialect, scalar.prelude)
        self.scalar, self.sym, self.first_lane, self.width = scalar, sym, first, width
        scalar.syms[sym] = first  # scalar cells and indices refer to the first lane
        self.arrays, self.syms = scalar.arrays, scalar.syms
        self.varies = Varying(sym, self.variables)

    def evaluator(self, expr: Expr) -> ScalarExpressions:
        return self if self.varies(expr) else self.scalar

    # ------------------------------------------------------------------------------------------------------------ cells

    def cell(self, ref: Ref) -> ExprText:
        """The cells of all lanes: an lvalue if they are contiguous, otherwise a strided load."""
        first_cell, stride, precision = self.scalar.cell(ref), ref.stride(self.sym), ref.buf.precision
        if stride == 1:
            return call(self.prelude.use(vectors.LANES), ExprText(self.type(precision)), first_cell)
        function = vectors.strided_load(self.dialect, precision, self.width)
        return self.call(function, unary("&", first_cell), ExprText(str(stride)))

    def is_assignable(self, ref: Ref) -> bool:
        return ref.stride(self.sym) == 1

    def store_statement(self, ref: Ref, value: ExprText) -> str:
        if self.is_assignable(ref):
            return super().store_statement(ref, value)
        function, step = (
            vectors.strided_store(self.dialect, ref.buf.precision, self.width),
            ExprText(str(ref.stride(self.sym))),
        )
        return f"{self.call(function, unary('&', self.scalar.cell(ref)), step, value).text};"

    def nontemporal_store_statement(self, ref: Ref, value: ExprText) -> str:
        function = vectors.nontemporal_store(self.dialect, ref.buf.precision, self.width)
        if function is None:
            return self.store_statement(ref, value)
        return f"{self.call(function, unary('&', self.scalar.cell(ref)), value).text};"

    def horizontal_reduction(self, op: Op, precision: Precision, value: ExprText) -> ExprText | None:
        """All lanes combined, or None if the operation is not associative and commutative."""
        if op.name not in vectors.REDUCIBLE or precision is not precision.arithmetic:
            return None
        return self.call(vectors.horizontal_reduction(self.dialect, op, precision, self.width), value)

    # ---------------------------------------------------------------------------------------------------------- vectors

    def type(self, precision: Precision) -> str:
        return self.prelude.use(vectors.vector(self.dialect, precision, self.width))

    def splat(self, number: ExprText, precision: Precision) -> ExprText:
        """Broadcasts a scalar to all lanes."""
        return self.call(vectors.splat(self.dialect, precision, self.width), number)

    def constant(self, value: int | float, precision: Precision) -> ExprText:
        return self.splat(super().constant(value, precision), precision)

    def call_elementwise(self, function: Definition, source: Precision, target: Precision, *args: ExprText) -> ExprText:
        return self.call(vectors.lanewise(self.dialect, function, len(args), source, target, self.width), *args)

    def formula(self, formula: Formula, *args: ExprText) -> ExprText:
        if formula.is_single:
            return self.call(vector_formulas.function(self.dialect, formula, self.width), *args)
        if formula.slow_path_test:
            return self.call(vectors.with_slow_lanes(self.dialect, formula, self.width), *args)
        precision = formula.precision
        return self.call_elementwise(formulas.function(self.dialect, formula), precision, precision, *args)

    def cast(self, term: ExprText, precision: Precision) -> ExprText:
        return self._convert_vector(term, self.type(precision))

    def _convert_vector(self, term: ExprText, type_: str) -> ExprText:
        return ExprText(self.dialect.convert.format(value=term.text, type=type_))

    def select(self, test: ExprText, precision: Precision, on_true: ExprText, on_false: ExprText) -> ExprText:
        if precision.nbytes != int32.nbytes:
            mask = vectors.mask(self.dialect, precision.nbytes, self.width)
            test = self._convert_vector(test, self.prelude.use(mask))
        return self.call(vectors.blend(self.dialect, precision, self.width), test, on_true, on_false)

    def where(self, test: Expr, precision: Precision, on_true: ExprText, on_false: ExprText) -> ExprText:
        """A selection; the mask of a comparison of values of the same size is not converted."""
        match test:
            case Apply(op, (x, y)) if op.name in COMPARISONS and x.precision.arithmetic.nbytes == precision.nbytes:
                mask = super().compare(op.name, x.precision.arithmetic, self.widened(x), self.widened(y))
                return self.call(vectors.blend(self.dialect, precision, self.width), mask, on_true, on_false)
            case _:
                return super().where(test, precision, on_true, on_false)

    # ------------------------------------------------------------------------------------------------------ expressions

    def value(self, expr: Expr) -> ExprText:
        if not self.varies(expr):
            return self.splat(self.scalar.value(expr), expr.precision)
        match expr:
            case IndexValue(index, precision):
                source = _index_precision(index)
                return self.convert(self.index(index, source), source, precision)
            case When(cond, on_true, on_false) if self.sym in cond.syms:
                return self.select(self.lane_mask(cond), expr.precision, self.value(on_true), self.value(on_false))
            case _:
                return super().value(expr)

    def widened(self, expr: Expr) -> ExprText:
        if not self.varies(expr):
            return self.splat(self.scalar.widened(expr), expr.precision.arithmetic)
        return super().widened(expr)

    def compute(self, op: Op, precision: Precision, args: list[ExprText]) -> ExprText:
        chain = builtins.select_chain_of(op.name, precision)
        if chain is None:
            return super().compute(op, precision, args)
        return self.call(vectors.select_chain(self.dialect, op.name, chain, precision, self.width), *args)

    def _truncate(self, term: ExprText, precision: Precision) -> ExprText:
        return term  # vector arithmetic does not promote small integers

    def index(self, index: Affine, precision: Precision) -> ExprText:
        """The indices of all lanes, as a vector of integers."""
        step, uniform = index.coef(self.sym), Affine.sum(((c, sym) for c, sym in index.terms if sym is not self.sym), 0)
        first = index.const + step * self.first_lane
        steps = ExprText(f"({self.type(precision)}){{ {', '.join(str(first + n * step) for n in range(self.width))} }}")
        return binary("+", self.splat(self.scalar.affine(uniform), precision), steps) if uniform.terms else steps

    # ----------------------------------------------------------------------------------------------------- truth values

    def truth(self, expr: Expr) -> ExprText:
        if not self.varies(expr):
            return self.splat(unary("-", self.scalar.truth(expr)), int32)
        return super().truth(expr)

    def compare(self, name: str, precision: Precision, x: ExprText, y: ExprText) -> ExprText:
        test = super().compare(name, precision, x, y)
        return test if precision.nbytes == int32.nbytes else self._convert_vector(test, self.type(int32))

    def negate(self, truth: ExprText) -> ExprText:
        return unary("~", truth)

    def _is_true(self, term: ExprText, precision: Precision) -> ExprText:
        storage = vectors.storage_precision(precision)
        if is_narrow(precision):
            magnitude = ExprText(f"0x{(1 << 8 * precision.nbytes - 1) - 1:X}")
            term = binary("&", term, self.splat(magnitude, storage))
        return self.compare("ne", storage, term, self.constant(0, storage))

    def _truth_as_number(self, truth: ExprText, precision: Precision) -> ExprText:
        return self.select(truth, precision, self.constant(1, precision), self.constant(0, precision))

    def lane_mask(self, cond: Cond) -> ExprText:
        """The mask of the lanes in which the condition holds."""
        conditions = [(index, "ge") for index in cond.ge0] + [(index, "eq") for index in cond.eq0]
        tests = [self._lane_test(name, index, _index_precision(index)) for index, name in conditions]
        test = tests[0]
        for operand in tests[1:]:
            test = binary("&", test, operand)
        return test

    def _lane_test(self, name: str, index: Affine, precision: Precision) -> ExprText:
        return self.compare(name, precision, self.index(index, precision), self.constant(0, precision))


def _index_precision(index: Affine) -> Precision:
    """int32 if the index fits, else int64, whose vectors may need several registers."""
    low, high = index.range()
    return int32 if low >= -(2**31) and high < 2**31 else int64
