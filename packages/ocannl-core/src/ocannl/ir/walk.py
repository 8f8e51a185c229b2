"""The two generic traversals of loop programs: `walk` visits, `rewrite` rebuilds.

Both visit statements and expressions. `rewrite` works bottom-up and returns the *same object* wherever nothing changed,
so that passes allocate only what they change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, TypeVar

from ocannl.ir.loops import (
    Apply,
    BindIndex,
    Body,
    Cast,
    Comment,
    Const,
    Expr,
    For,
    If,
    IndexValue,
    Let,
    Load,
    Local,
    Poll,
    Prefetch,
    ReadClock,
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
    When: lambda node: (node.on_true, node.on_false),
    Store: lambda node: (node.value,),
    Update: lambda node: (node.value,),
    For: attrgetter("body"),
    If: lambda node: node.then + node.orelse,
    BindIndex: lambda node: (node.value, *node.body),
}
"""Children of a node, by its type. A table, since lookups are frequent."""


def children(node: Node) -> tuple[Node, ...]:
    below = CHILDREN.get(type(node))
    return () if below is None else below(node)


def walk(node: Node | Body) -> Iterator[Node]:
    """Yields the node and all its descendants, in preorder and program order."""
    stack: list[Node] = list(reversed(node)) if isinstance(node, tuple) else [node]
    while stack:
        current = stack.pop()
        yield current
        below = CHILDREN.get(type(current))
        if below is not None:
            stack.extend(below(current)[::-1])


def rewrite(node: N, rule: Callable[[Node], Node]) -> N:
    """Applies `rule` to every node, children first."""
    return rule(_rebuild(node, rule))  # type: ignore[return-value]


def rewrite_body(body: Body, rule: Callable[[Node], Node]) -> Body:
    """Like `rewrite`, for a sequence of statements."""
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
        case When(cond, if_true, if_false):
            a, b = rewrite(if_true, rule), rewrite(if_false, rule)
            return node if a is if_true and b is if_false else When(cond, a, b)
        case Store(ref, value, origin, nontemporal):
            inner = rewrite(value, rule)
            return node if inner is value else Store(ref, inner, origin, nontemporal)
        case Update(ref, op, value, origin):
            inner = rewrite(value, rule)
            return node if inner is value else Update(ref, op, inner, origin)
        case Let(name, value):
            inner = rewrite(value, rule)
            return node if inner is value else Let(name, inner)
        case For(sym, lo, hi, body, step, origin, parallel_chunk, mode):
            new_body = rewrite_body(body, rule)
            return node if new_body is body else For(sym, lo, hi, new_body, step, origin, parallel_chunk, mode)
        case If(cond, true_body, false_body):
            x, y = rewrite_body(true_body, rule), rewrite_body(false_body, rule)
            return node if x is true_body and y is false_body else If(cond, x, y)
        case BindIndex(sym, value, body):
            inner, new_body = rewrite(value, rule), rewrite_body(body, rule)
            return node if inner is value and new_body is body else BindIndex(sym, inner, new_body)
        case Const() | IndexValue() | Var() | Load() | Local() | Comment() | Poll() | Prefetch() | ReadClock():
            return node
