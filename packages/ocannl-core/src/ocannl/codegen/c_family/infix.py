"""Expressions of C-like languages as text, with the parentheses they need and no others.

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
CLEARER = {"||": ("&&",), "<<": ("+", "-"), ">>": ("+", "-"), "&": RELATIONS, "|": ("&", *RELATIONS), "==": RELATIONS}
"""Inner operators of which nobody should have to know that they bind more tightly than the outer one."""


@dataclass(frozen=True, slots=True)
class Term:
    """The text of an expression, how tightly it holds together, and its outermost operator."""

    text: str
    level: int = POSTFIX
    symbol: str = ""

    def within(self, level: int) -> str:
        """The text, as an operand of what binds as tightly as `level`."""
        return f"({self.text})" if self.level < level else self.text


def unary(symbol: str, x: Term) -> Term:
    """An operator in front, or a cast."""
    return Term(f"{symbol}{x.within(UNARY if symbol.endswith(')') else POSTFIX)}", UNARY)


def binary(symbol: str, x: Term, y: Term) -> Term:
    level = PRECEDENCE[symbol]
    left, right = (
        f"({operand.text})" if operand.symbol in CLEARER.get(symbol, ()) else operand.within(least)
        for operand, least in ((x, level), (y, level + 1))
    )
    return Term(f"{left} {symbol} {right}", level, symbol)


def ternary(test: Term, then: Term, orelse: Term) -> Term:
    level = PRECEDENCE["?"]
    return Term(f"{test.within(level + 1)} ? {then.within(level + 1)} : {orelse.within(level)}", level, "?")


def call(function: str, *args: Term) -> Term:
    return Term(f"{function}({', '.join(arg.text for arg in args)})")


def element(array: str, at: Term) -> Term:
    return Term(f"{array}[{at.text}]")
