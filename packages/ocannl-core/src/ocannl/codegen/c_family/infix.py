"""Prints expressions of C-like languages with minimal parentheses.

binary("*", binary("+", a, b), c).text     (a + b) * c
"""

from __future__ import annotations

from dataclasses import dataclass

PRECEDENCE = {
    "?": 1, "||": 2, "&&": 3, "|": 4, "^": 5, "&": 6, "==": 7, "!=": 7, "<": 8, "<=": 8, ">": 8, ">=": 8,
    "<<": 9, ">>": 9, "+": 10, "-": 10, "*": 11, "/": 11, "%": 11,
}  # fmt: skip
UNARY, POSTFIX = 12, 13
RELATIONS = ("==", "!=", "<", "<=", ">", ">=")
SUMS = ("+", "-")
PARENTHESIZED = {
    "||": ("&&",), "<<": SUMS, ">>": SUMS, "&": (*SUMS, *RELATIONS), "^": ("&", *SUMS, *RELATIONS),
    "|": ("&", "^", *SUMS, *RELATIONS), "==": RELATIONS, "?": ("&", "^", "|"),
}  # fmt: skip
"""Inner operators that are parenthesized for readability although they bind more tightly than the outer operator, as
compilers suggest (`-Wparentheses`); for `?`, in its condition."""


@dataclass(frozen=True, slots=True)
class ExprText:
    """The text of an expression, its precedence level and its outermost operator."""

    text: str
    level: int = POSTFIX
    symbol: str = ""

    def within(self, level: int) -> str:
        """The text, parenthesized if its precedence is lower than `level`."""
        return f"({self.text})" if self.level < level else self.text


def unary(symbol: str, x: ExprText) -> ExprText:
    """A prefix operator or a cast."""
    return ExprText(f"{symbol}{x.within(UNARY if symbol.endswith(')') else POSTFIX)}", UNARY)


def binary(symbol: str, x: ExprText, y: ExprText) -> ExprText:
    level = PRECEDENCE[symbol]
    left, right = _operand(x, symbol, level), _operand(y, symbol, level + 1)
    return ExprText(f"{left} {symbol} {right}", level, symbol)


def ternary(test: ExprText, on_true: ExprText, on_false: ExprText) -> ExprText:
    level = PRECEDENCE["?"]
    condition, value = _operand(test, "?", level + 1), on_true.within(level + 1)
    return ExprText(f"{condition} ? {value} : {on_false.within(level)}", level, "?")


def _operand(x: ExprText, symbol: str, min_level: int) -> str:
    return f"({x.text})" if x.symbol in PARENTHESIZED.get(symbol, ()) else x.within(min_level)


def call(function: str, *args: ExprText) -> ExprText:
    return ExprText(f"{function}({', '.join(arg.text for arg in args)})")


def element(array: str, index: ExprText) -> ExprText:
    return ExprText(f"{array}[{index.text}]")
