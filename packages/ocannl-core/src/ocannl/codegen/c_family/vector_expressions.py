"""Expressions of all iterations of a loop over lanes at once, as vectors (see `codegen.vectors`).

What is the same in every lane is computed once, as a number, and becomes a vector where it meets one. Truth values are
masks of integers of four bytes.
"""

from __future__ import annotations

from ocannl.codegen.c_family import builtins, formulas, vector_formulas, vectors
from ocannl.codegen.c_family.dialect import Function
from ocannl.codegen.c_family.expressions import Values
from ocannl.codegen.c_family.infix import Term, binary, call, unary
from ocannl.codegen.formula import Formula
from ocannl.codegen.numbers import is_narrow
from ocannl.codegen.varying import Varying
from ocannl.ir.index import Affine, Cond, Sym
from ocannl.ir.loops import Expr, Idx, Ref, When
from ocannl.ir.ops import Op
from ocannl.ir.precision import Precision, float32, int32, int64


class Lanes(Values):
    """The iterations from `sym` = `first` on, so many as `width`; `one` has what they share."""

    __slots__ = ("one", "start", "sym", "varies", "width")

    def __init__(self, one: Values, sym: Sym, first: int, width: int) -> None:
        super().__init__(one.dialect, one.library)
        self.one, self.sym, self.start, self.width = one, sym, first, width
        one.syms[sym] = first  # cells and indices are those of the first lane
        self.arrays, self.syms = one.arrays, one.syms
        self.varies = Varying(sym, self.variables)

    def computing(self, expr: Expr) -> Values:
        return self if self.varies(expr) else self.one

    # ------------------------------------------------------------------------------------------------------------ cells

    def place(self, ref: Ref) -> Term:
        """The cells of all lanes: one place in memory where they lie side by side."""
        cell, stride, precision = self.one.place(ref), ref.stride(self.sym), ref.buf.precision
        if stride == 1:
            return call(self.library.use(vectors.LANES), Term(self.type(precision)), cell)
        taken = vectors.take(self.dialect, precision, self.width)
        return self.call(taken, unary("&", cell), Term(str(stride)))

    def is_place(self, ref: Ref) -> bool:
        return ref.stride(self.sym) == 1

    def assigned(self, ref: Ref, value: Term) -> str:
        if self.is_place(ref):
            return super().assigned(ref, value)
        put, step = vectors.put(self.dialect, ref.buf.precision, self.width), Term(str(ref.stride(self.sym)))
        return f"{self.call(put, unary('&', self.one.place(ref)), step, value).text};"

    def streamed(self, ref: Ref, value: Term) -> str:
        function = vectors.stream(self.dialect, ref.buf.precision, self.width)
        if function is None:
            return self.assigned(ref, value)
        return f"{self.call(function, unary('&', self.one.place(ref)), value).text};"

    def total(self, op: Op, precision: Precision, value: Term) -> Term | None:
        """All lanes combined, where the order of that is free."""
        if op.name not in vectors.FOLDED or precision is not precision.arithmetic:
            return None
        return self.call(vectors.fold(self.dialect, op, precision, self.width), value)

    # ---------------------------------------------------------------------------------------------------------- vectors

    def type(self, precision: Precision) -> str:
        return self.library.use(vectors.vector(self.dialect, precision, self.width))

    def splat(self, number: Term, precision: Precision) -> Term:
        """A number in all lanes."""
        return self.call(vectors.splat(self.dialect, precision, self.width), number)

    def constant(self, value: int | float, precision: Precision) -> Term:
        return self.splat(super().constant(value, precision), precision)

    def on(self, function: Function, source: Precision, target: Precision, *args: Term) -> Term:
        return self.call(vectors.lanewise(self.dialect, function, len(args), source, target, self.width), *args)

    def formula(self, formula: Formula, *args: Term) -> Term:
        if formula.is_single:
            return self.call(vector_formulas.function(self.dialect, formula, self.width), *args)
        if formula.beyond:
            return self.call(vectors.seldom(self.dialect, formula, self.width), *args)
        return self.on(formulas.function(self.dialect, formula), float32, float32, *args)

    def cast(self, term: Term, precision: Precision) -> Term:
        return self._converted(term, self.type(precision))

    def _converted(self, term: Term, type_: str) -> Term:
        return Term(self.dialect.convert.format(value=term.text, type=type_))

    def select(self, test: Term, precision: Precision, then: Term, orelse: Term) -> Term:
        if precision.nbytes != int32.nbytes:
            mask = vectors.mask(self.dialect, precision.nbytes, self.width)
            test = self._converted(test, self.library.use(mask))
        return self.call(vectors.pick(self.dialect, precision, self.width), test, then, orelse)

    # ------------------------------------------------------------------------------------------------------ expressions

    def value(self, expr: Expr) -> Term:
        if not self.varies(expr):
            return self.splat(self.one.value(expr), expr.precision)
        match expr:
            case Idx(index, precision):
                held = _counter(index)
                return self.convert(self.index(index, held), held, precision)
            case When(cond, then, orelse) if self.sym in cond.syms:
                return self.select(self.each(cond), expr.precision, self.value(then), self.value(orelse))
            case _:
                return super().value(expr)

    def widened(self, expr: Expr) -> Term:
        if not self.varies(expr):
            return self.splat(self.one.widened(expr), expr.precision.arithmetic)
        return super().widened(expr)

    def compute(self, op: Op, precision: Precision, args: list[Term]) -> Term:
        choice = builtins.choice(op.name, precision)
        if choice is None:
            return super().compute(op, precision, args)
        return self.call(vectors.choosing(self.dialect, op.name, choice, precision, self.width), *args)

    def _cut(self, term: Term, precision: Precision) -> Term:
        return term  # vectors of small integers are computed with as such

    def index(self, index: Affine, held: Precision) -> Term:
        """The index of each lane, as integers of a type."""
        step, same = index.coef(self.sym), Affine.sum(((c, sym) for c, sym in index.terms if sym is not self.sym), 0)
        first = index.const + step * self.start
        steps = Term(f"({self.type(held)}){{ {', '.join(str(first + n * step) for n in range(self.width))} }}")
        return binary("+", self.splat(self.one.affine(same), held), steps) if same.terms else steps

    # ----------------------------------------------------------------------------------------------------- truth values

    def truth(self, expr: Expr) -> Term:
        if not self.varies(expr):
            return self.splat(unary("-", self.one.truth(expr)), int32)
        return super().truth(expr)

    def compare(self, name: str, precision: Precision, x: Term, y: Term) -> Term:
        test = super().compare(name, precision, x, y)
        return test if precision.nbytes == int32.nbytes else self._converted(test, self.type(int32))

    def untrue(self, truth: Term) -> Term:
        return unary("~", truth)

    def _is_true(self, term: Term, precision: Precision) -> Term:
        held = vectors.holder(precision)
        if is_narrow(precision):
            magnitude = Term(f"0x{(1 << 8 * precision.nbytes - 1) - 1:X}")
            term = binary("&", term, self.splat(magnitude, held))
        return self.compare("ne", held, term, self.constant(0, held))

    def _number(self, truth: Term, precision: Precision) -> Term:
        return self.select(truth, precision, self.constant(1, precision), self.constant(0, precision))

    def each(self, cond: Cond) -> Term:
        """Whether it holds in each lane."""
        facts = [(fact, "ge") for fact in cond.ge0] + [(fact, "eq") for fact in cond.eq0]
        tests = [self._each(name, fact, _counter(fact)) for fact, name in facts]
        test = tests[0]
        for other in tests[1:]:
            test = binary("&", test, other)
        return test

    def _each(self, name: str, fact: Affine, held: Precision) -> Term:
        return self.compare(name, held, self.index(fact, held), self.constant(0, held))


def _counter(index: Affine) -> Precision:
    """The narrowest type of whole numbers that has it: vectors of wider ones are longer than registers."""
    low, high = index.range()
    return int32 if low >= -(2**31) and high < 2**31 else int64
