"""What C-like languages differ in, as data, and the functions that a module of generated code turns out to call."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from ocannl.codegen.c_family.infix import POSTFIX, UNARY, Term
from ocannl.codegen.document import Document, printable
from ocannl.codegen.numbers import is_narrow, limits, pattern, rounded
from ocannl.ir.precision import Precision, int64

EXACT = 12  # characters of a decimal that is printed in full


@dataclass(frozen=True, slots=True)
class Function:
    """One that generated code calls: its name, the text that declares or defines it, and those that its text calls."""

    name: str
    text: str
    needs: tuple[Function, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """A C-like language. A value is held in the type of its precision, narrow floats as their bits."""

    types: Mapping[Precision, str]
    suffixes: Mapping[Precision, str]  # of literals
    infinity: Mapping[Precision, str]
    nan: Mapping[Precision, str]
    math: Mapping[Precision, str]  # what a function of the mathematical library is called in a precision, as a format
    prototype: str  # what declares one: a format of `type`, `name`, `params`; nothing where the language knows them
    inline: str  # how a small function begins: a format of `type`, `name`, `params`
    nest: str  # how the function of a nest begins: a format of `type`, `name`, `params`
    choosing: str  # stands before that where the nest may read memory under a condition
    control: str  # the parameter that a nest with polls has besides
    poll: Function  # called with that parameter: not zero when the nest is to leave
    stamp: Function  # called with that parameter: the time in nanoseconds
    share: Function  # called with that parameter, a function, its frame and a number: hands out claims
    restrict: str  # what marks a pointer to memory that no other one reaches
    comment: str  # a format of the text
    ends_comment: str  # what a comment may not hold
    fast: Mapping[str, tuple[str, str]]  # functions that some targets have: on what condition, and what they do
    words: frozenset[str]  # names that mean something already
    vector: str = ""  # what declares a type of vectors: a format of `type`, `name`, `bytes`, `align`; or there are none
    convert: str = ""  # a vector with its numbers converted: a format of `value`, `type`
    inlined: str = ""  # how a function of vectors begins, as `inline`: one that is nowhere called
    streams: Mapping[int, str] = field(default_factory=dict)  # by bytes, what writes vector `x` to `y` past the caches
    fence: str = ""  # a statement after which what was written so is as anything else
    prefetch: str = ""  # a statement by which what lies `ahead` elements behind `cell` comes nearer, as a format
    rolled: str = ""  # stands before a loop over the lanes of a vector: it is not to be unrolled
    block: str = "{type} {name}[{count}];"  # what declares memory for local arrays, aligned as they are to be
    wide: int = 4  # bytes of an int: arithmetic on less gives ints, which are cut off again
    indent: str = "  "

    @property
    def index(self) -> str:
        """The type of counters and offsets."""
        return self.types[int64]

    def remark(self, doc: Document, text: str, margin: str = "") -> None:
        """A comment of as many lines as the text has."""
        for line in text.splitlines():
            safe = printable(line)
            while self.ends_comment in safe:
                safe = safe.replace(self.ends_comment, " ".join(self.ends_comment))
            doc.line(f"{margin}{self.comment.format(safe)}")

    def literal(self, value: int | float, precision: Precision) -> Term:
        """A constant of the type that holds `precision`."""
        if is_narrow(precision):
            return Term(f"0x{pattern(value, precision):0{2 * precision.nbytes}X}")
        number, suffix = rounded(value, precision), self.suffixes[precision]
        if isinstance(number, int):
            if number < 0 and number == limits(precision)[0]:  # the number without its sign would be of a wider type
                return Term(f"({number + 1}{suffix} - 1)")
            return Term(f"{number}{suffix}", UNARY if number < 0 else POSTFIX)
        if math.isnan(number):
            return Term(self.nan[precision])
        sign = math.copysign(1.0, number) < 0
        text = self.infinity[precision] if math.isinf(number) else f"{_decimal(abs(number), precision)}{suffix}"
        return Term(f"-{text}" if sign else text, UNARY if sign else POSTFIX)


def _decimal(number: float, precision: Precision) -> str:
    """The exact digits where they are few, else the fewest that read back as the same number of the type."""
    exact = repr(number)
    return exact if len(exact) <= EXACT and Fraction(exact) == Fraction(number) else str(precision.numpy.type(number))


class Library:
    """The functions that a module calls: each stands there once, after those that it calls."""

    __slots__ = ("_functions",)

    def __init__(self) -> None:
        self._functions: dict[str, Function] = {}

    def use(self, function: Function) -> str:
        """Its name."""
        if function.name not in self._functions:
            for needed in function.needs:
                self.use(needed)
            self._functions[function.name] = function
        return function.name

    def lines(self) -> list[str]:
        """Declarations, then definitions."""
        texts = [function.text for function in self._functions.values() if function.text]
        declared = [text for text in texts if "\n" not in text]
        defined = [text for text in texts if "\n" in text]
        return [*declared, *([""] if declared else []), *(f"{text}\n" for text in defined)]
