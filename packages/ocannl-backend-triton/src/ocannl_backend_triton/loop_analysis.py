"""Analyses of loop nests: parallel loops, loops to execute in blocks, strides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd, prod

from ocannl.ir.accesses import has_no_loop_carried_dependence, memory_accesses
from ocannl.ir.affine import Affine, Sym, SymKind
from ocannl.ir.loops import BindIndex, Body, Buf, Comment, For, If, Load, Local, Poll, Ref, Store, Update, is_full
from ocannl.ir.precision import bool_
from ocannl.ir.walk import walk


def is_uniform_in_block(index: Affine, div: int, sym: Sym, block: int) -> bool:
    """Whether `index // div` has one value for all iterations over `sym` in any block of `block` iterations."""
    coef = index.coef(sym)
    remainder = index + Affine(((-coef, sym),), coef * sym.lo)
    step = gcd(div, coef * block, remainder.const, *(c for c, _ in remainder.terms))
    return coef == 0 or 0 < coef * (block - 1) < step


def bound_quotients(loop: For) -> Iterator[tuple[Affine, int]]:
    """The bounds of a loop as pairs of a dividend and a divisor, rounded down."""
    yield from ((index + (div - 1), div) for index, div in loop.lo.quotients)
    yield from loop.hi.quotients


def parallel_loops(body: Body) -> tuple[list[For], Body]:
    """The outermost perfectly nested loops that carry no dependence, and the body of the innermost one."""
    chain: list[For] = []
    while True:
        match [stmt for stmt in body if not isinstance(stmt, Comment | Poll)]:
            case [For() as loop] if is_full(loop):
                outer = [enclosing.sym for enclosing in chain]
                if not has_no_loop_carried_dependence(memory_accesses(loop.body), loop.sym, outer, sums=False):
                    return chain, body
                chain.append(loop)
                body = loop.body
            case [If(_, inner, ())]:
                body = inner
            case _:
                return chain, body


def hoist_parallel_loops(body: Body) -> Body:
    """Interchanges the loops of a perfect nest so that the parallel ones are outermost, for example the columns of a
    table to which rows are added in order."""
    path: list[For | If | BindIndex] = []
    inner = body
    while True:
        match [stmt for stmt in inner if not isinstance(stmt, Comment | Poll)]:
            case [For() | If(_, _, ()) | BindIndex() as stmt]:
                path.append(stmt)
                inner = stmt.then if isinstance(stmt, If) else stmt.body
            case _:
                break
    body_accesses = memory_accesses(body)
    parallel = [
        loop
        for loop in path
        if isinstance(loop, For)
        and is_full(loop)
        and has_no_loop_carried_dependence(body_accesses, loop.sym, (), sums=False)
    ]
    reordered = [*parallel, *(stmt for stmt in path if all(stmt is not loop for loop in parallel))]
    if all(a is b for a, b in zip(reordered, path, strict=True)):
        return body
    for stmt in reversed(reordered):
        inner = (replace(stmt, then=inner) if isinstance(stmt, If) else replace(stmt, body=inner),)
    return inner


def blockable_loops(body: Body, outer: tuple[Sym, ...]) -> Iterator[For]:
    """Innermost loops that can be executed in blocks, statement by statement: they carry no dependence except through
    reductions."""
    for stmt in body:
        match stmt:
            case For(sym, _, _, inner):
                nested = list(blockable_loops(inner, (*outer, sym)))
                if nested or any(isinstance(node, For | Local) for node in walk(inner)):
                    yield from nested
                elif not is_full(stmt) or _is_sensitive_to_trip_count(inner):
                    continue
                elif has_no_loop_carried_dependence(memory_accesses(inner), sym, outer, sums=True):
                    yield stmt
            case If(_, true_body, false_body):
                yield from blockable_loops(true_body, outer)
                yield from blockable_loops(false_body, outer)
            case BindIndex(sym, _, inner):
                yield from blockable_loops(inner, (*outer, sym))


def has_scatter(body: Body) -> bool:
    """Whether stores have data-dependent indices, so that iterations may write to one cell."""
    stores = (node for node in walk(body) if isinstance(node, Store | Update))
    return any(sym.kind is SymKind.INDIRECT for store in stores for sym in store.ref.syms)


def _is_sensitive_to_trip_count(body: Body) -> bool:
    """Whether extra, masked iterations could change the result."""
    return has_scatter(body) or _converts_to_bool(body)


def _converts_to_bool(body: Body) -> bool:
    """Whether the first term of a logical reduction turns a number into 0 or 1, so that an empty reduction differs."""
    return any(
        isinstance(node, Update) and node.op.name in ("and", "or") and node.ref.buf.precision is not bool_
        for node in walk(body)
    )


def written_bufs(body: Body) -> dict[Buf, None]:
    return {node.ref.buf: None for node in walk(body) if isinstance(node, Store | Update)}


class UnitStrideWeights:
    """Weights by which loops are chosen for contiguous access: the elements accessed with unit stride in a symbol,
    writes counting twice."""

    def __init__(self, body: Body) -> None:
        self.weights: dict[Sym, int] = {}
        for node in walk(body):
            match node:
                case Load(ref): factor = 1
                case Store(ref) | Update(ref): factor = 2
                case _: continue
            elements = prod(sym.extent for sym in ref.syms)
            for sym in _unit_stride_symbols(ref):
                self.weights[sym] = self.weights.get(sym, 0) + factor * elements

    def weight(self, sym: Sym) -> int:
        return self.weights.get(sym, 0)


def _unit_stride_symbols(ref: Ref) -> list[Sym]:
    return [sym for coef, sym in ref.address.terms if abs(coef) == 1 and sym.kind is SymKind.LOOP]
