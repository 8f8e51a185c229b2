"""Scalar expressions of loop programs in a C-like language.

Values have the type of their precision; floats narrower than float32 are stored as their bits and widened for
arithmetic. Results of integer promotion are truncated again, so that every term is a value of its type.
"""

from __future__ import annotations

from collections.abc import Iterable

from ocannl.base.errors import CompileError
from ocannl.codegen.c_family import builtins, formulas
from ocannl.codegen.c_family.dialect import Definition, Dialect, Prelude
from ocannl.codegen.c_family.infix import ExprText, binary, call, element, ternary, unary
from ocannl.codegen.formula_ir import Formula
from ocannl.codegen.formulas import formula_of
from ocannl.codegen.numbers import is_narrow, is_signed, rounded
from ocannl.ir.affine import Affine, Bound, Cond, Sym
from ocannl.ir.loops import Apply, Buf, Cast, Const, Expr, IndexValue, Load, Ref, Update, Var, When
from ocannl.ir.ops import ADD, BY_NAME, MUL, NEG, Op
from ocannl.ir.precision import Family, Precision, float16, float32, float64, int64, uint8

COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
LOGIC = {"and": "&", "or": "|"}  # of truth values, without short-circuit evaluation
OPERATORS = {"add": "+", "sub": "-", "mul": "*"}
BITWISE = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
UNROLLED_POWERS = range(5)  # constant powers expanded into multiplications
ZERO, TRUE = ExprText("0"), ExprText("1")


class ScalarExpressions:
    """Prints the expressions of one function, given the names of its arrays, symbols and variables."""

    __slots__ = ("arrays", "dialect", "prelude", "syms", "variables")

    def __init__(self, dialect: Dialect, prelude: Prelude) -> None:
        self.dialect = dialect
        self.prelude = prelude
        self.arrays: dict[Buf, ExprText] = {}  # a pointer, or a local array or scalar
        self.syms: dict[Sym, ExprText | int] = {}  # an int if the symbol is constant
        self.variables: dict[str, ExprText] = {}

    # --------------------------------------------------------------------------------------------------------- indices

    def affine(self, index: Affine) -> ExprText:
        const, terms = self._constant_and_terms(index)
        return _sum(const, terms)

    def _constant_and_terms(self, index: Affine) -> tuple[int, list[tuple[int, ExprText]]]:
        """The constant, and the coefficients and names of the other terms in order of decreasing magnitude."""
        const, terms = index.const, []
        for coef, sym in index.terms:
            value = self.syms[sym]
            if isinstance(value, int):
                const += coef * value
            else:
                terms.append((coef, value))
        return const, sorted(terms, key=lambda term: -abs(term[0]))

    def cell(self, ref: Ref) -> ExprText:
        """The cell of an array, as an lvalue."""
        array = self.arrays[ref.buf]
        if array.symbol == SCALAR_LOCAL:
            return ExprText(array.text)
        return element(array.text, self.affine(ref.address))

    def condition(self, cond: Cond) -> ExprText | bool:
        """The test of a condition, or its value if it is constant."""
        tests: list[ExprText] = []
        for indices, relation in ((cond.ge0, ">="), (cond.eq0, "==")):
            for index in indices:
                const, terms = self._constant_and_terms(index)
                if terms:
                    # negative terms move to the other side of the relation
                    left = _sum(max(const, 0), [(c, t) for c, t in terms if c > 0])
                    right = _sum(max(-const, 0), [(-c, t) for c, t in terms if c < 0])
                    flipped = not left.text.strip("0123456789")  # constants are more readable on the right
                    tests.append(binary("<=" if relation == ">=" else relation, right, left) if flipped
                                 else binary(relation, left, right))
                elif const < 0 or (relation == "==" and const):
                    return False
        if not tests:
            return True
        test = tests[0]
        for operand in tests[1:]:
            test = binary("&&", test, operand)
        return test

    def first(self, bound: Bound) -> ExprText | int:
        """The initial value of a loop counter."""
        return self._extreme(bound, lower=True)

    def limit(self, bound: Bound) -> ExprText | int:
        """The exclusive upper bound of a loop counter."""
        return self._extreme(bound, lower=False)

    def _extreme(self, bound: Bound, lower: bool) -> ExprText | int:
        numbers: list[int] = []
        operands: list[ExprText] = []
        for index, div in bound.quotients:
            # ceil(i / d) is floor((i + d - 1) / d), and floor(i / d) + 1 is floor((i + d) / d)
            const, terms = self._constant_and_terms(index + (div - 1 if lower else div))
            if terms:
                operands.append(self._floor(_sum(const, terms), div))
            else:
                numbers.append(const // div)
        if numbers:
            number = max(numbers) if lower else min(numbers)
            if not operands:
                return number
            operands.append(ExprText(str(number)) if number >= 0 else unary("-", ExprText(str(-number))))
        result = operands[0]
        for operand in operands[1:]:
            result = self.call_index_function("most" if lower else "least", result, operand)
        return result

    def _floor(self, term: ExprText, div: int) -> ExprText:
        """Floor division by a positive constant; strength-reduced to a shift for powers of two."""
        if div & (div - 1) == 0:
            return binary(">>", term, ExprText(str(div.bit_length() - 1))) if div > 1 else term
        return self.call_index_function("floor_div", term, ExprText(str(div)))

    def call_index_function(self, name: str, *args: ExprText) -> ExprText:
        return self.call(builtins.index_function(self.dialect, name), *args)

    # ---------------------------------------------------------------------------------------------------------- values

    def call(self, function: Definition, *args: ExprText) -> ExprText:
        return call(self.prelude.use(function), *args)

    def type(self, precision: Precision) -> str:
        return self.dialect.types[precision]

    def call_elementwise(self, function: Definition, source: Precision, target: Precision, *args: ExprText) -> ExprText:
        """Applies a scalar function with operands of type `source` and a result of type `target`."""
        return self.call(function, *args)

    def formula(self, formula: Formula, *args: ExprText) -> ExprText:
        return self.call(formulas.function(self.dialect, formula), *args)

    def constant(self, value: int | float, precision: Precision) -> ExprText:
        return self.dialect.literal(value, precision)

    def evaluator(self, expr: Expr) -> ScalarExpressions:
        """The printer that evaluates the expression: scalar if it is uniform."""
        return self

    def is_assignable(self, ref: Ref) -> bool:
        """Whether `cell` returns an lvalue."""
        return True

    def cast(self, term: ExprText, precision: Precision) -> ExprText:
        return unary(f"({self.dialect.types[precision]})", term)

    def select(self, test: ExprText, precision: Precision, on_true: ExprText, on_false: ExprText) -> ExprText:
        return ternary(test, on_true, on_false)

    def value(self, expr: Expr) -> ExprText:
        """The value of an expression, in the storage type of its precision."""
        match expr:
            case Load(ref):
                return self.cell(ref)
            case Apply():
                return self._apply(expr)
            case Const(value, precision):
                return self.dialect.literal(value, precision)
            case Var(name, _):
                return self.variables[name]
            case IndexValue(index, precision):
                const, terms = self._constant_and_terms(index)
                if not terms:
                    return self.dialect.literal(const, precision)
                return self.convert(_sum(const, terms), int64, precision)
            case Cast(value, precision):
                if _is_truth(value):
                    return self._truth_as_number(self.truth(value), precision)
                return self.convert(self.value(value), value.precision, precision)
            case When(cond, on_true, on_false):
                test = self.condition(cond)
                if isinstance(test, bool):
                    return self.value(on_true if test else on_false)
                return ternary(test, self.value(on_true), self.value(on_false))

    def updated_value(self, stmt: Update) -> ExprText:
        """The new value of an updated cell. Products are fused with the addition into an `fma`."""
        precision = stmt.ref.buf.precision
        self.variables[OLD_VALUE] = self.cell(stmt.ref)
        if is_fused(stmt):
            negated, term = _strip_negation(stmt.value)
            assert isinstance(term, Apply)
            work = precision.arithmetic
            x, y = (self.widened(factor) for factor in term.args)
            total = self.compute(
                FMA, work, [unary("-", x) if negated else x, y, self.widened(Var(OLD_VALUE, precision))]
            )
            return self.convert(total, work, precision)
        return self.value(Apply(stmt.op, (Var(OLD_VALUE, precision), stmt.value)))

    def store_statement(self, ref: Ref, value: ExprText) -> str:
        """The statement that stores a value."""
        return f"{self.cell(ref).text} = {value.text};"

    def nontemporal_store_statement(self, ref: Ref, value: ExprText) -> str:
        """The statement that stores a value with a nontemporal hint, if the target supports it."""
        return self.store_statement(ref, value)

    def widened(self, expr: Expr) -> ExprText:
        """The value of an expression, in its arithmetic type."""
        precision = expr.precision
        if not is_narrow(precision):
            return self.value(expr)
        if isinstance(expr, Const):
            return self.dialect.literal(rounded(expr.value, precision), float32)
        return self.convert(self.value(expr), precision, float32)

    def truth(self, expr: Expr) -> ExprText:
        """An int, 1 or 0: whether the value is nonzero."""
        match expr:
            case Apply(op, (x, y)) if op.name in COMPARISONS:
                return self.compare(op.name, x.precision.arithmetic, self.widened(x), self.widened(y))
            case Apply(op, (x, y)) if op.name in LOGIC:
                return binary(LOGIC[op.name], self.truth(x), self.truth(y))
            case Apply(op, (x,)) if op.name == "not":
                return self.negate(self.truth(x))
            case Cast(value, _) if _is_truth(value):
                return self.truth(value)
            case Const(value, precision):
                return TRUE if rounded(value, precision) != 0 else ZERO
            case _:
                return self._is_true(self.value(expr), expr.precision)

    def compare(self, name: str, precision: Precision, x: ExprText, y: ExprText) -> ExprText:
        return binary(COMPARISONS[name], x, y)

    def negate(self, truth: ExprText) -> ExprText:
        return unary("!", truth)

    def _is_true(self, term: ExprText, precision: Precision) -> ExprText:
        if is_narrow(precision):
            magnitude = ExprText(f"0x{(1 << 8 * precision.nbytes - 1) - 1:X}")
            return binary("!=", binary("&", term, magnitude), ZERO)
        return binary("!=", term, ZERO)

    def _truth_as_number(self, truth: ExprText, precision: Precision) -> ExprText:
        if is_narrow(precision):
            return ternary(truth, self.dialect.literal(1, precision), self.dialect.literal(0, precision))
        exact = not precision.is_float and (precision.nbytes < self.dialect.int_bytes or is_signed(precision))
        return truth if exact and precision.nbytes <= self.dialect.int_bytes else self.cast(truth, precision)

    def where(self, test: Expr, precision: Precision, on_true: ExprText, on_false: ExprText) -> ExprText:
        return self.select(self.truth(test), precision, on_true, on_false)

    def _apply(self, expr: Apply) -> ExprText:
        op, args, precision = expr.op, expr.args, expr.precision
        if _is_truth(expr):
            return self._truth_as_number(self.truth(expr), precision)
        if op.name == "where":
            return self.where(args[0], precision, self.value(args[1]), self.value(args[2]))
        if op.name in ("id", "fst", "snd"):
            return self.value(args[-1 if op.name == "snd" else 0])
        work = precision.arithmetic
        if precision.family is Family.BOOL:
            number = self.compute(op, uint8, [self.value(arg) for arg in args])
            return self.convert(number, uint8, precision)
        match expr:
            case Apply(_, (x, Const(exponent, _))) if op.name == "pow" and exponent in UNROLLED_POWERS:
                result = self._power(x, int(exponent), work)
            case _:
                result = self.compute(op, work, [self.widened(arg) for arg in args])
        return self.convert(result, work, precision)

    def compute(self, op: Op, precision: Precision, args: list[ExprText]) -> ExprText:
        """Applies an operation to operands of an arithmetic type."""
        match op.name, args:
            case name, [x, y] if name in OPERATORS:
                return self._truncate(binary(OPERATORS[name], x, y), precision)
            case name, [x, y] if name in BITWISE and not precision.is_float:
                return self._truncate(binary(BITWISE[name], x, y), precision)
            case "neg", [x]:
                return self._truncate(unary("-", x), precision)
            case "div", [x, y] if precision.is_float:
                return binary("/", x, y)
            case "recip", [x] if precision.is_float:
                return binary("/", self.constant(1, precision), x)
            case "recip_sqrt", [x] if precision.is_float:
                return binary("/", self.constant(1, precision), self.compute(SQRT, precision, [x]))
            case name, _ if (formula := formula_of(name, precision)) is not None:
                return self.formula(formula, *args)
            case _:
                function = builtins.operation(self.dialect, op.name, precision)
                if function is None:
                    raise CompileError(
                        f"`{op.name}` has no meaning in {precision.name}: convert its operands to a float type"
                    )
                return self.call_elementwise(function, precision, precision, *args)

    def _truncate(self, term: ExprText, precision: Precision) -> ExprText:
        """Truncates a promoted int to the narrower type of its precision."""
        narrow = not precision.is_float and precision.nbytes < self.dialect.int_bytes
        return self.cast(term, precision) if narrow else term

    def _power(self, x: Expr, exponent: int, work: Precision) -> ExprText:
        """Raises `x` to a small constant power."""
        base = self.widened(x)
        match exponent:
            case 0:
                return self.constant(1, work)
            case 1:
                return base
            case _:
                return self.call_elementwise(builtins.power(self.dialect, exponent, work), work, work, base)

    def convert(self, term: ExprText, source: Precision, target: Precision) -> ExprText:
        """Converts a value from one precision to another.

        Floats are truncated towards zero to integers and saturate, integers wrap, and nonzero values are true. Narrow
        floats convert via float32: float64 is rounded twice on the way to bfloat16 and the float8 types, as in
        ml_dtypes, but once on the way to float16, as in NumPy.
        """
        d = self.dialect
        if source is target:
            return term
        if target.family is Family.BOOL:
            return self._truth_as_number(self._is_true(term, source), target)
        if is_narrow(source):
            return self.convert(
                self.call_elementwise(builtins.widening(d, source), source, float32, term), float32, target
            )
        if is_narrow(target):
            if source is float64 and target is float16:
                single = self.call_elementwise(builtins.round_to_odd(d), float64, float32, term)
            else:
                single = self.convert(term, source, float32)
            return self.call_elementwise(builtins.narrowing(d, target), float32, target, single)
        if source.is_float and not target.is_float:
            return self.call_elementwise(builtins.to_integer(d, source, target), source, target, term)
        return self.cast(term, target)


SCALAR_LOCAL = "scalar"  # `Term.symbol` of a local scalar
SQRT, FMA = BY_NAME["sqrt"], BY_NAME["fma"]
OLD_VALUE = "old value"  # variable for the cell of an `Update`; not an identifier, hence never a name of the program


def _sum(const: int, terms: Iterable[tuple[int, ExprText]]) -> ExprText:
    """A linear combination; positive terms come first."""
    ordered = sorted(terms, key=lambda term: term[0] < 0)
    total: ExprText | None = None
    for coef, name in ordered:
        product = name if abs(coef) == 1 else binary("*", ExprText(str(abs(coef))), name)
        if total is None:
            total = unary("-", product) if coef < 0 else product
        else:
            total = binary("-" if coef < 0 else "+", total, product)
    if total is None:
        return ExprText(str(const)) if const >= 0 else unary("-", ExprText(str(-const)))
    return binary("-" if const < 0 else "+", total, ExprText(str(abs(const)))) if const else total


def _is_truth(expr: Expr) -> bool:
    return isinstance(expr, Apply) and (expr.op.name in COMPARISONS or expr.op.name in LOGIC or expr.op.name == "not")


def _strip_negation(expr: Expr) -> tuple[bool, Expr]:
    """Whether the expression is a negation, and its operand."""
    return (True, expr.args[0]) if isinstance(expr, Apply) and expr.op is NEG else (False, expr)


def is_fused(stmt: Update) -> bool:
    """Whether the update adds a product of floats, and is printed as an `fma`."""
    term = _strip_negation(stmt.value)[1]
    return stmt.op is ADD and stmt.ref.buf.precision.is_float and isinstance(term, Apply) and term.op is MUL
