"""Printed expressions: they have the expected value, and no redundant parentheses except for readability."""

import ast
import operator
from random import Random

import pytest

from ocannl.codegen.c_family.infix import PARENTHESIZED, PRECEDENCE, ExprText, binary, call, element, ternary, unary

PYTHON = {"|": operator.or_, "^": operator.xor, "&": operator.and_, "<<": operator.lshift, ">>": operator.rshift,
          "+": operator.add, "-": operator.sub, "*": operator.mul}  # fmt: skip
"""Operators with the same precedence in Python and C."""


def expression(random, depth):
    """A random term and its value."""
    if depth == 0 or random.random() < 0.1:
        number = random.randrange(9)
        return ExprText(str(number)), number
    if random.random() < 0.15:
        term, value = expression(random, depth - 1)
        return unary("-", term), -value
    symbol = random.choice(list(PYTHON))
    shift = symbol in ("<<", ">>")  # shift counts are small
    (x, a), (y, b) = expression(random, depth - 1), expression(random, 0 if shift else depth - 1)
    return binary(symbol, x, y), PYTHON[symbol](a, b)


@pytest.mark.parametrize("seed", range(40))
def test_printed_expressions_have_the_expected_value(seed):
    random = Random(seed)
    for _ in range(25):
        term, value = expression(random, 4)
        assert eval(compile(ast.parse(term.text, mode="eval"), "", "eval")) == value, term.text


A, B, C = (ExprText(name) for name in "abc")


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (binary("*", binary("+", A, B), C), "(a + b) * c"),
        (binary("+", A, binary("*", B, C)), "a + b * c"),
        (binary("-", A, binary("-", B, C)), "a - (b - c)"),
        (binary("-", binary("-", A, B), C), "a - b - c"),
        (binary("||", binary("&&", A, B), C), "(a && b) || c"),
        (binary("&", binary("<", A, B), C), "(a < b) & c"),
        (binary(">>", binary("+", A, B), C), "(a + b) >> c"),
        (unary("-", unary("-", A)), "-(-a)"),
        (unary("(float)", unary("-", A)), "(float)-a"),
        (unary("(float)", binary("+", A, B)), "(float)(a + b)"),
        (unary("!", binary("<", A, B)), "!(a < b)"),
        (ternary(binary("<", A, B), A, ternary(B, C, A)), "a < b ? a : b ? c : a"),
        (binary("+", ternary(A, B, C), A), "(a ? b : c) + a"),
        (ternary(ternary(A, B, C), A, B), "(a ? b : c) ? a : b"),
        (binary("*", call("f", binary("+", A, B), C), element("x", binary("+", A, B))), "f(a + b, c) * x[a + b]"),
    ],
)
def test_parentheses(term, text):
    assert term.text == text


def test_precedence_is_that_of_c():
    order = [{"?"}, {"||"}, {"&&"}, {"|"}, {"^"}, {"&"}, {"==", "!="}, {"<", "<=", ">", ">="}, {"<<", ">>"}, {"+", "-"}]
    for weak, strong in zip(order, [*order[1:], {"*", "/", "%"}], strict=True):
        assert max(PRECEDENCE[s] for s in weak) < min(PRECEDENCE[s] for s in strong)
    pairs = [(outer, inner) for outer, operators in PARENTHESIZED.items() for inner in operators if outer != "=="]
    assert all(PRECEDENCE[inner] > PRECEDENCE[outer] or inner == outer for outer, inner in pairs)
