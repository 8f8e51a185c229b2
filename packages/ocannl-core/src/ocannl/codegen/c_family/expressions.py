"""Expressions of loop programs in a C-like language.

A value is held in the type of its precision; floats narrower than float32 are held as their bits and widened for
arithmetic. What C would compute in ints is cut off again, so that every term is a value of its type.
"""

from __future__ import annotations

from collections.abc import Iterable

from ocannl.base.errors import CompileError
from ocannl.codegen.c_family import builtins, formulas
from ocannl.codegen.c_family.dialect import Dialect, Function, Library
from ocannl.codegen.c_family.infix import Term, binary, call, element, ternary, unary
from ocannl.codegen.formula import Formula
from ocannl.codegen.formulas import FORMULAS
from ocannl.codegen.numbers import is_narrow, is_signed, rounded
from ocannl.ir.index import Affine, Bound, Cond, Sym
from ocannl.ir.loops import Apply, Buf, Cast, Expr, Idx, Load, Num, Ref, Update, Var, When
from ocannl.ir.ops import ADD, BY_NAME, MUL, NEG, Op
from ocannl.ir.precision import Family, Precision, float16, float32, float64, int64, uint8

COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
LOGIC = {"and": "&", "or": "|"}  # of truth values; both sides are evaluated
OPERATORS = {"add": "+", "sub": "-", "mul": "*"}
BITWISE = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
PRODUCTS = range(5)  # constant powers that become products
ZERO, ONE = Term("0"), Term("1")


class Values:
    """Expressions inside one function: what its arrays, symbols and names are called."""

    __slots__ = ("arrays", "dialect", "library", "syms", "variables")

    def __init__(self, dialect: Dialect, library: Library) -> None:
        self.dialect = dialect
        self.library = library
        self.arrays: dict[Buf, Term] = {}  # a pointer, or a local: of no axes, itself
        self.syms: dict[Sym, Term | int] = {}  # a number where it is always that one
        self.variables: dict[str, Term] = {}

    # --------------------------------------------------------------------------------------------------------- indices

    def affine(self, index: Affine) -> Term:
        const, terms = self._parts(index)
        return _sum(const, terms)

    def _parts(self, index: Affine) -> tuple[int, list[tuple[int, Term]]]:
        """The constant, and the factors and names of the rest, the largest first."""
        const, terms = index.const, []
        for coef, sym in index.terms:
            value = self.syms[sym]
            if isinstance(value, int):
                const += coef * value
            else:
                terms.append((coef, value))
        return const, sorted(terms, key=lambda term: -abs(term[0]))

    def place(self, ref: Ref) -> Term:
        """A cell."""
        array = self.arrays[ref.buf]
        if array.symbol == SCALAR:
            return Term(array.text)
        axes = tuple(zip(ref.at, ref.buf.strides, strict=True))
        terms = ((coef * stride, sym) for at, stride in axes for coef, sym in at.terms)
        return element(array.text, self.affine(Affine.sum(terms, sum(at.const * stride for at, stride in axes))))

    def condition(self, cond: Cond) -> Term | bool:
        """Known, or a test."""
        tests: list[Term] = []
        for facts, relation in ((cond.ge0, ">="), (cond.eq0, "==")):
            for fact in facts:
                const, terms = self._parts(fact)
                if terms:
                    # what is subtracted stands on the other side
                    left = _sum(max(const, 0), [(c, t) for c, t in terms if c > 0])
                    right = _sum(max(-const, 0), [(-c, t) for c, t in terms if c < 0])
                    flipped = not left.text.strip("0123456789")  # a number: it reads better on the right
                    tests.append(binary("<=" if relation == ">=" else relation, right, left) if flipped
                                 else binary(relation, left, right))
                elif const < 0 or (relation == "==" and const):
                    return False
        if not tests:
            return True
        test = tests[0]
        for other in tests[1:]:
            test = binary("&&", test, other)
        return test

    def first(self, bound: Bound) -> Term | int:
        """Where a counter starts."""
        return self._extreme(bound, lower=True)

    def limit(self, bound: Bound) -> Term | int:
        """The first value that is too large for it."""
        return self._extreme(bound, lower=False)

    def _extreme(self, bound: Bound, lower: bool) -> Term | int:
        numbers: list[int] = []
        operands: list[Term] = []
        for index, div in bound.of:
            # ceil(i / d) is floor((i + d - 1) / d), and floor(i / d) + 1 is floor((i + d) / d)
            const, terms = self._parts(index + (div - 1 if lower else div))
            if terms:
                operands.append(self._floor(_sum(const, terms), div))
            else:
                numbers.append(const // div)
        if numbers:
            number = max(numbers) if lower else min(numbers)
            if not operands:
                return number
            operands.append(Term(str(number)) if number >= 0 else unary("-", Term(str(-number))))
        result = operands[0]
        for operand in operands[1:]:
            result = self.on_index("most" if lower else "least", result, operand)
        return result

    def _floor(self, term: Term, div: int) -> Term:
        """A quotient rounded down."""
        if div & (div - 1) == 0:
            return binary(">>", term, Term(str(div.bit_length() - 1))) if div > 1 else term
        return self.on_index("floor_div", term, Term(str(div)))

    def on_index(self, name: str, *args: Term) -> Term:
        return self.call(builtins.on_index(self.dialect, name), *args)

    # ---------------------------------------------------------------------------------------------------------- values

    def call(self, function: Function, *args: Term) -> Term:
        return call(self.library.use(function), *args)

    def type(self, precision: Precision) -> str:
        return self.dialect.types[precision]

    def on(self, function: Function, source: Precision, target: Precision, *args: Term) -> Term:
        """A function of values of one type that gives one of another."""
        return self.call(function, *args)

    def formula(self, formula: Formula, *args: Term) -> Term:
        return self.call(formulas.function(self.dialect, formula), *args)

    def constant(self, value: int | float, precision: Precision) -> Term:
        return self.dialect.literal(value, precision)

    def computing(self, expr: Expr) -> Values:
        """Who computes the expression."""
        return self

    def is_place(self, ref: Ref) -> bool:
        """Whether `place` can be assigned to."""
        return True

    def cast(self, term: Term, precision: Precision) -> Term:
        return unary(f"({self.dialect.types[precision]})", term)

    def select(self, test: Term, precision: Precision, then: Term, orelse: Term) -> Term:
        return ternary(test, then, orelse)

    def value(self, expr: Expr) -> Term:
        """The value, in the type that holds its precision."""
        match expr:
            case Load(ref):
                return self.place(ref)
            case Apply():
                return self._apply(expr)
            case Num(value, precision):
                return self.dialect.literal(value, precision)
            case Var(name, _):
                return self.variables[name]
            case Idx(index, precision):
                const, terms = self._parts(index)
                if not terms:
                    return self.dialect.literal(const, precision)
                return self.convert(_sum(const, terms), int64, precision)
            case Cast(value, precision):
                if _is_truth(value):
                    return self._number(self.truth(value), precision)
                return self.convert(self.value(value), value.precision, precision)
            case When(cond, then, orelse):
                test = self.condition(cond)
                if isinstance(test, bool):
                    return self.value(then if test else orelse)
                return ternary(test, self.value(then), self.value(orelse))

    def updated(self, stmt: Update) -> Term:
        """The new value of a cell. A product that is added may be rounded once, together with the sum."""
        precision = stmt.ref.buf.precision
        self.variables[OLD] = self.place(stmt.ref)
        if is_fused(stmt):
            negated, term = _without_sign(stmt.value)
            assert isinstance(term, Apply)
            work = precision.arithmetic
            x, y = (self.widened(factor) for factor in term.args)
            total = self.compute(FMA, work, [unary("-", x) if negated else x, y, self.widened(Var(OLD, precision))])
            return self.convert(total, work, precision)
        return self.value(Apply(stmt.op, (Var(OLD, precision), stmt.value)))

    def assigned(self, ref: Ref, value: Term) -> str:
        """The statement that stores it."""
        return f"{self.place(ref).text} = {value.text};"

    def streamed(self, ref: Ref, value: Term) -> str:
        """The statement that stores it past the caches."""
        return self.assigned(ref, value)

    def widened(self, expr: Expr) -> Term:
        """The value, in the type that arithmetic runs in."""
        precision = expr.precision
        if not is_narrow(precision):
            return self.value(expr)
        if isinstance(expr, Num):
            return self.dialect.literal(rounded(expr.value, precision), float32)
        return self.convert(self.value(expr), precision, float32)

    def truth(self, expr: Expr) -> Term:
        """1 or 0, an int: whether the value is not zero."""
        match expr:
            case Apply(op, (x, y)) if op.name in COMPARISONS:
                return self.compare(op.name, x.precision.arithmetic, self.widened(x), self.widened(y))
            case Apply(op, (x, y)) if op.name in LOGIC:
                return binary(LOGIC[op.name], self.truth(x), self.truth(y))
            case Apply(op, (x,)) if op.name == "not":
                return self.untrue(self.truth(x))
            case Cast(value, _) if _is_truth(value):
                return self.truth(value)
            case Num(value, precision):
                return ONE if rounded(value, precision) != 0 else ZERO
            case _:
                return self._is_true(self.value(expr), expr.precision)

    def compare(self, name: str, precision: Precision, x: Term, y: Term) -> Term:
        return binary(COMPARISONS[name], x, y)

    def untrue(self, truth: Term) -> Term:
        return unary("!", truth)

    def _is_true(self, term: Term, precision: Precision) -> Term:
        if is_narrow(precision):
            magnitude = Term(f"0x{(1 << 8 * precision.nbytes - 1) - 1:X}")
            return binary("!=", binary("&", term, magnitude), ZERO)
        return binary("!=", term, ZERO)

    def _number(self, truth: Term, precision: Precision) -> Term:
        if is_narrow(precision):
            return ternary(truth, self.dialect.literal(1, precision), self.dialect.literal(0, precision))
        exact = not precision.is_float and (precision.nbytes < self.dialect.wide or is_signed(precision))
        return truth if exact and precision.nbytes <= self.dialect.wide else self.cast(truth, precision)

    def _apply(self, expr: Apply) -> Term:
        op, args, precision = expr.op, expr.args, expr.precision
        if _is_truth(expr):
            return self._number(self.truth(expr), precision)
        if op.name == "where":
            return self.select(self.truth(args[0]), precision, self.value(args[1]), self.value(args[2]))
        if op.name in ("id", "fst", "snd"):
            return self.value(args[-1 if op.name == "snd" else 0])
        work = precision.arithmetic
        if precision.family is Family.BOOL:
            number = self.compute(op, uint8, [self.value(arg) for arg in args])
            return self.convert(number, uint8, precision)
        match expr:
            case Apply(_, (x, Num(exponent, _))) if op.name == "pow" and exponent in PRODUCTS:
                result = self._power(x, int(exponent), work)
            case _:
                result = self.compute(op, work, [self.widened(arg) for arg in args])
        return self.convert(result, work, precision)

    def compute(self, op: Op, precision: Precision, args: list[Term]) -> Term:
        """An operation on operands of a type that arithmetic runs in."""
        match op.name, args:
            case name, [x, y] if name in OPERATORS:
                return self._cut(binary(OPERATORS[name], x, y), precision)
            case name, [x, y] if name in BITWISE and not precision.is_float:
                return self._cut(binary(BITWISE[name], x, y), precision)
            case "neg", [x]:
                return self._cut(unary("-", x), precision)
            case "div", [x, y] if precision.is_float:
                return binary("/", x, y)
            case "recip", [x] if precision.is_float:
                return binary("/", self.constant(1, precision), x)
            case "recip_sqrt", [x] if precision.is_float:
                return binary("/", self.constant(1, precision), self.compute(SQRT, precision, [x]))
            case name, _ if name in FORMULAS and precision is float32:
                return self.formula(FORMULAS[name], *args)
            case _:
                function = builtins.operation(self.dialect, op.name, precision)
                if function is None:
                    raise CompileError(
                        f"`{op.name}` has no meaning in {precision.name}: convert its operands to a float type"
                    )
                return self.on(function, precision, precision, *args)

    def _cut(self, term: Term, precision: Precision) -> Term:
        """What was computed in ints, as a value of a narrower type."""
        narrow = not precision.is_float and precision.nbytes < self.dialect.wide
        return self.cast(term, precision) if narrow else term

    def _power(self, x: Expr, exponent: int, work: Precision) -> Term:
        """`x` to a small constant power."""
        base = self.widened(x)
        match exponent:
            case 0:
                return self.constant(1, work)
            case 1:
                return base
            case _:
                return self.on(builtins.power(self.dialect, exponent, work), work, work, base)

    def convert(self, term: Term, source: Precision, target: Precision) -> Term:
        """A value of one precision as another.

        Floats are cut off towards zero to integers and saturate, integers wrap, and what is not zero is true. float32
        is the hub: float64 narrows to bfloat16 and the float8 types by way of float32, as ml_dtypes does; to float16 in
        one rounding, as NumPy does.
        """
        d = self.dialect
        if source is target:
            return term
        if target.family is Family.BOOL:
            return self._number(self._is_true(term, source), target)
        if is_narrow(source):
            return self.convert(self.on(builtins.widening(d, source), source, float32, term), float32, target)
        if is_narrow(target):
            if source is float64 and target is float16:
                single = self.on(builtins.to_odd(d), float64, float32, term)
            else:
                single = self.convert(term, source, float32)
            return self.on(builtins.narrowing(d, target), float32, target, single)
        if source.is_float and not target.is_float:
            return self.on(builtins.to_integer(d, source, target), source, target, term)
        return self.cast(term, target)


SCALAR = "scalar"  # the symbol of the term of a local without axes
SQRT, FMA = BY_NAME["sqrt"], BY_NAME["fma"]
OLD = "old value"  # of the cell that an `Update` changes: no name that a program can hold


def _sum(const: int, terms: Iterable[tuple[int, Term]]) -> Term:
    """In decimal; a term that is subtracted never comes first, unless all are."""
    parts = sorted(terms, key=lambda term: term[0] < 0)
    total: Term | None = None
    for coef, name in parts:
        product = name if abs(coef) == 1 else binary("*", Term(str(abs(coef))), name)
        if total is None:
            total = unary("-", product) if coef < 0 else product
        else:
            total = binary("-" if coef < 0 else "+", total, product)
    if total is None:
        return Term(str(const)) if const >= 0 else unary("-", Term(str(-const)))
    return binary("-" if const < 0 else "+", total, Term(str(abs(const)))) if const else total


def _is_truth(expr: Expr) -> bool:
    return isinstance(expr, Apply) and (expr.op.name in COMPARISONS or expr.op.name in LOGIC or expr.op.name == "not")


def _without_sign(expr: Expr) -> tuple[bool, Expr]:
    """Whether it is negated, and what is."""
    return (True, expr.args[0]) if isinstance(expr, Apply) and expr.op is NEG else (False, expr)


def is_fused(stmt: Update) -> bool:
    """Whether it adds a product of floats."""
    term = _without_sign(stmt.value)[1]
    return stmt.op is ADD and stmt.ref.buf.precision.is_float and isinstance(term, Apply) and term.op is MUL
