"""The two generic traversals of loop programs: `walk` visits, `rewrite` rebuilds.

Both go through statements and expressions alike. `rewrite` works from the leaves up and gives back the *same object*
wherever nothing changed, so a pass costs what it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, TypeVar

from ocannl.ir.loops import (
    Apply,
    Body,
    Cast,
    Comment,
    Expr,
    For,
    Idx,
    If,
    Let,
    Load,
    Local,
    Num,
    Pick,
    Poll,
    Prefetch,
    Stamp,
    Stmt,
    Store,
    Update,
    Var,
    When,
)

Node = Stmt | Expr
N = TypeVar("N", bound=Node)


CHILDREN: dict[type, Callable[[Any], tuple[Node, ...]]] = {
    Apply: attrgetter("args"),
    Cast: lambda node: (node.value,),
    Let: lambda node: (node.value,),
    When: lambda node: (node.then, node.orelse),
    Store: lambda node: (node.value,),
    Update: lambda node: (node.value,),
    For: attrgetter("body"),
    If: lambda node: node.then + node.orelse,
    Pick: lambda node: (node.value, *node.body),
}
"""How to get what lies below a node, by its type; a table, because nothing is asked as often."""


def children(node: Node) -> tuple[Node, ...]:
    below = CHILDREN.get(type(node))
    return () if below is None else below(node)


def walk(node: Node | Body) -> Iterator[Node]:
    """The node and everything below it, parents first, in program order."""
    stack: list[Node] = list(reversed(node)) if isinstance(node, tuple) else [node]
    while stack:
        current = stack.pop()
        yield current
        below = CHILDREN.get(type(current))
        if below is not None:
            stack.extend(below(current)[::-1])


def rewrite(node: N, rule: Callable[[Node], Node]) -> N:
    """`rule` applied to every node, children first."""
    return rule(_rebuild(node, rule))  # type: ignore[return-value]


def rewrite_body(body: Body, rule: Callable[[Node], Node]) -> Body:
    """As `rewrite`, for a sequence of statements."""
    new = tuple([rewrite(s, rule) for s in body])
    return body if all(a is b for a, b in zip(new, body, strict=True)) else new


def _rebuild(node: Node, rule: Callable[[Node], Node]) -> Node:
    if type(node) not in CHILDREN:
        return node
    match node:
        case Apply(op, args):
            new = tuple([rewrite(a, rule) for a in args])
            return node if all(a is b for a, b in zip(new, args, strict=True)) else Apply(op, new)
        case Cast(value, precision):
            inner = rewrite(value, rule)
            return node if inner is value else Cast(inner, precision)
        case When(cond, then, orelse):
            a, b = rewrite(then, rule), rewrite(orelse, rule)
            return node if a is then and b is orelse else When(cond, a, b)
        case Store(ref, value, origin, streamed):
            inner = rewrite(value, rule)
            return node if inner is value else Store(ref, inner, origin, streamed)
        case Update(ref, op, value, origin):
            inner = rewrite(value, rule)
            return node if inner is value else Update(ref, op, inner, origin)
        case Let(name, value):
            inner = rewrite(value, rule)
            return node if inner is value else Let(name, inner)
        case For(sym, lo, hi, body, step, origin, claimed, mode):
            new_body = rewrite_body(body, rule)
            return node if new_body is body else For(sym, lo, hi, new_body, step, origin, claimed, mode)
        case If(cond, then_body, else_body):
            x, y = rewrite_body(then_body, rule), rewrite_body(else_body, rule)
            return node if x is then_body and y is else_body else If(cond, x, y)
        case Pick(sym, value, body):
            inner, new_body = rewrite(value, rule), rewrite_body(body, rule)
            return node if inner is value and new_body is body else Pick(sym, inner, new_body)
        case Num() | Idx() | Var() | Load() | Local() | Comment() | Poll() | Prefetch() | Stamp():
            return node
