"""Descriptions of C-like languages, and the prelude of definitions that a module of generated code uses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from ocannl.codegen.c_family.infix import POSTFIX, UNARY, ExprText
from ocannl.codegen.numbers import is_narrow, pattern, rounded
from ocannl.codegen.text_sections import Document, printable
from ocannl.ir.precision import Precision, int64, integer_limits

MAX_EXACT_DIGITS = 12  # characters of a decimal literal that is printed exactly


@dataclass(frozen=True, slots=True)
class Definition:
    """The declaration or definition of a function, type or macro that generated code uses."""

    name: str
    text: str
    dependencies: tuple[Definition, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """A C-like language. Values have the type of their precision; narrow floats are stored as their bits.

    Templates are format strings; their fields are in parentheses.
    """

    types: Mapping[Precision, str]
    suffixes: Mapping[Precision, str]  # of literals
    infinity: Mapping[Precision, str]
    nan: Mapping[Precision, str]
    math: Mapping[Precision, str]  # template of the names of mathematical functions
    prototype: str  # declares one (`type`, `name`, `params`); empty if they are built in
    inline: str  # head of a small function (`type`, `name`, `params`)
    nest: str  # head of the function of a nest (`type`, `name`, `params`)
    conditional_loads: str  # attribute of nests that may load memory under a condition
    control: str  # the extra parameter of cancellable nests
    poll: Definition  # called with `control`: nonzero if the nest must return
    read_clock: Definition  # called with `control`: the time in nanoseconds
    parallel_for: Definition  # called with `control`, a function, its frame and the number of chunks
    restrict: str  # qualifier of pointers without aliases
    comment: str  # template of a comment
    comment_end: str  # must not occur in comments
    intrinsics: Mapping[str, tuple[tuple[str, str], ...]]  # by function: bodies, each under a preprocessor condition
    reserved_names: frozenset[str]  # keywords and names of the prologue
    vector: str = ""  # declares a vector type (`type`, `name`, `bytes`, `align`); empty without vectors
    convert: str = ""  # elementwise conversion of a vector (`value`, `type`)
    always_inline: str = ""  # head of vector functions, which must always be inlined
    nontemporal_stores: Mapping[int, str] = field(default_factory=dict)  # by bytes: body that stores vector `x` to `y`
    fence: str = ""  # statement that orders nontemporal stores before later accesses
    prefetch: str = ""  # prefetches the element `distance` elements after `cell`; `locality` begins with a comma
    lane_loop: str = ""  # pragma before loops over lanes, which become vector instructions where there are any
    stack_block: str = "{type} {name}[{count}];"  # declares the block of local arrays
    int_bytes: int = 4  # size of int, to which smaller integers are promoted
    indent: str = "  "

    @property
    def index(self) -> str:
        """The type of loop counters and offsets."""
        return self.types[int64]

    def write_comment(self, doc: Document, text: str, margin: str = "") -> None:
        """Writes a comment, one per line of the text."""
        for line in text.splitlines():
            safe = printable(line)
            while self.comment_end in safe:
                safe = safe.replace(self.comment_end, " ".join(self.comment_end))
            doc.line(f"{margin}{self.comment.format(safe)}")

    def literal(self, value: int | float, precision: Precision) -> ExprText:
        """A literal of the type in which values of `precision` are stored."""
        if is_narrow(precision):
            return ExprText(f"0x{pattern(value, precision):0{2 * precision.nbytes}X}")
        number, suffix = rounded(value, precision), self.suffixes[precision]
        if isinstance(number, int):
            if number < 0 and number == integer_limits(precision)[0]:  # the literal without sign is wider
                return ExprText(f"({number + 1}{suffix} - 1)")
            return ExprText(f"{number}{suffix}", UNARY if number < 0 else POSTFIX)
        if math.isnan(number):
            return ExprText(self.nan[precision])
        sign = math.copysign(1.0, number) < 0
        text = self.infinity[precision] if math.isinf(number) else f"{_decimal(abs(number), precision)}{suffix}"
        return ExprText(f"-{text}" if sign else text, UNARY if sign else POSTFIX)


def _decimal(number: float, precision: Precision) -> str:
    """The exact decimal if it is short, else the shortest decimal that rounds to the same value of the precision."""
    exact = repr(number)
    is_short = len(exact) <= MAX_EXACT_DIGITS and Fraction(exact) == Fraction(number)
    return exact if is_short else str(precision.numpy.type(number))


class Prelude:
    """The definitions that a module uses, without duplicates, dependencies first."""

    __slots__ = ("_definitions",)

    def __init__(self) -> None:
        self._definitions: dict[str, Definition] = {}

    def use(self, definition: Definition) -> str:
        """Adds a definition and its dependencies, and returns its name."""
        if definition.name not in self._definitions:
            for dependency in definition.dependencies:
                self.use(dependency)
            self._definitions[definition.name] = definition
        return definition.name

    def lines(self) -> list[str]:
        """The text of the prelude: one-line declarations, then definitions."""
        texts = [definition.text for definition in self._definitions.values() if definition.text]
        declared = [text for text in texts if "\n" not in text]
        defined = [text for text in texts if "\n" in text]
        return [*declared, *([""] if declared else []), *(f"{text}\n" for text in defined)]
