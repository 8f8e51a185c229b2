"""Loop collapsing: fuses nested loops that traverse memory like a single one, so that blocks need not fit the inner.

    for i in 0..50:                          for ij in 0..500:
      for j in 0..10:              ==>         y[ij] = x[ij] * 2
        y[i, j] = x[i, j] * 2
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.free_symbols import mentioned_symbols
from ocannl.ir.loops import Body, Buf, For, If, IndexValue, Load, Local, Ref, Store, Update, When, is_full, loop
from ocannl.ir.walk import Node, rewrite_body, walk
from ocannl_backend_triton.loop_analysis import parallel_loops


def collapse_loops(body: Body) -> tuple[Body, dict[Buf, Buf]]:
    """Collapses pairs of loops to a fixpoint; returns the statements, and the array behind each flattened view."""
    views: dict[Buf, Buf] = {}
    refused: set[Sym] = set()
    while True:
        pairs = (pair for pair in _perfectly_nested_pairs(body) if pair[0].sym not in refused)
        pair = next((pair for pair in pairs if _can_collapse(body, *pair)), None)
        if pair is None:
            return body, views
        collapsed, flattened = _collapse_pair(body, *pair)
        # the dependence test proves less about flat arrays
        if _parallel_trip_count(collapsed) < _parallel_trip_count(body):
            refused.add(pair[0].sym)
            continue
        renamed = {flat: views.get(buf, buf) for flat, buf in flattened.items()}
        body, views = collapsed, renamed | _used_views(views, collapsed)


def _perfectly_nested_pairs(body: Body) -> Iterator[tuple[For, For]]:
    """Perfectly nested pairs of loops over full, non-empty ranges from 0."""
    for node in walk(body):
        match node:
            case For(body=(For() as inner,)) as outer if is_full(outer) and is_full(inner):
                if outer.sym.lo == inner.sym.lo == 0 and min(outer.sym.extent, inner.sym.extent) > 0:
                    yield outer, inner
            case _:
                pass


def _can_collapse(body: Body, outer: For, inner: For) -> bool:
    """Whether every use of the two symbols depends on `outer * extent(inner) + inner` only."""
    pair = {outer.sym, inner.sym}
    local = {node.buf for node in walk(body) if isinstance(node, Local)}
    for node in walk(outer.body):
        match node:
            case Load(ref) | Store(ref) | Update(ref):
                offset = ref.address
                if offset.coef(outer.sym) != offset.coef(inner.sym) * inner.sym.extent:
                    return False
                if ref.buf in local and pair & set(offset.syms):
                    return False
            case If() | When() | IndexValue() | For() if pair.intersection(mentioned_symbols(node)):
                return False
            case _:
                pass
    return True


def _collapse_pair(body: Body, outer: For, inner: For) -> tuple[Body, dict[Buf, Buf]]:
    fused = Sym(f"{outer.sym.name}_{inner.sym.name}", 0, outer.sym.extent * inner.sym.extent - 1)
    values = {outer.sym: Affine(), inner.sym: Affine.of(fused)}
    local = {node.buf for node in walk(body) if isinstance(node, Local)}
    flat: dict[Buf, Buf] = {}

    def cell(ref: Ref) -> Ref:
        if ref.buf in local or not ref.buf.shape:
            return ref
        if ref.buf not in flat:
            flat[ref.buf] = replace(ref.buf, shape=(ref.buf.size,), strides=(1,))
        return Ref(flat[ref.buf], (ref.address.substitute(values),))

    def rule(node: Node) -> Node:
        match node:
            case Load(ref):
                return Load(cell(ref))
            case Store(ref) | Update(ref):
                return replace(node, ref=cell(ref))
            case For(sym, body=(For(body=inside),)) if sym is outer.sym:
                return loop(fused, inside, node.origin)
            case _:
                return node

    return rewrite_body(body, rule), {view: buf for buf, view in flat.items()}


def _parallel_trip_count(body: Body) -> int:
    """Trip count of the outermost parallel loops."""
    return prod(loop.sym.extent for loop in parallel_loops(body)[0])


def _used_views(views: dict[Buf, Buf], body: Body) -> dict[Buf, Buf]:
    """The views whose arrays the body still accesses."""
    used = {node.ref.buf for node in walk(body) if isinstance(node, Load | Store | Update)}
    return {view: buf for view, buf in views.items() if view in used}
