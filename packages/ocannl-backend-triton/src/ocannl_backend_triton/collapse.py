"""Two loops that go through all memory as one would become one: blocks need not fit the inner one.

    for i in 0..50:                          for ij in 0..500:
      for j in 0..10:              ==>         y[ij] = x[ij] * 2
        y[i, j] = x[i, j] * 2
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from ocannl.ir.index import Affine, Sym
from ocannl.ir.loops import Body, Buf, For, Idx, If, Load, Local, Ref, Store, Update, When, loop
from ocannl.ir.walk import Node, rewrite_body, walk
from ocannl_backend_triton.nests import address, is_whole, parallel


def collapsed(body: Body) -> tuple[Body, dict[Buf, Buf]]:
    """The statements, and what the arrays in them are views of."""
    views: dict[Buf, Buf] = {}
    refused: set[Sym] = set()
    while True:
        pair = next((pair for pair in _pairs(body) if pair[0].sym not in refused and _walk_as_one(body, *pair)), None)
        if pair is None:
            return body, views
        new, made = _as_one(body, *pair)
        if _programs(new) < _programs(body):  # what is independent is harder to see in flat arrays
            refused.add(pair[0].sym)
            continue
        body, views = new, {flat: views.get(buf, buf) for flat, buf in made.items()} | _kept(views, new)


def _pairs(body: Body) -> Iterator[tuple[For, For]]:
    """Loops with another one that is all they are made of."""
    for node in walk(body):
        match node:
            case For(body=(For() as inner,)) as outer if is_whole(outer) and is_whole(inner):
                if outer.sym.lo == inner.sym.lo == 0 and min(outer.sym.extent, inner.sym.extent) > 0:
                    yield outer, inner
            case _:
                pass


def _walk_as_one(body: Body, outer: For, inner: For) -> bool:
    """Whether a step of the outer loop is as many steps of the inner one as there are, wherever they are mentioned."""
    pair = {outer.sym, inner.sym}
    local = {node.buf for node in walk(body) if isinstance(node, Local)}
    for node in walk(outer.body):
        match node:
            case Load(ref) | Store(ref) | Update(ref):
                place = address(ref)
                if place.coef(outer.sym) != place.coef(inner.sym) * inner.sym.extent:
                    return False
                if ref.buf in local and pair & set(place.syms):
                    return False
            case If(cond) | When(cond) if pair & set(cond.syms):
                return False
            case Idx(index) if pair & set(index.syms):
                return False
            case For(_, lo, hi) if pair & {*lo.syms, *hi.syms}:
                return False
            case _:
                pass
    return True


def _as_one(body: Body, outer: For, inner: For) -> tuple[Body, dict[Buf, Buf]]:
    both = Sym(f"{outer.sym.name}_{inner.sym.name}", 0, outer.sym.extent * inner.sym.extent - 1)
    values = {outer.sym: Affine(), inner.sym: Affine.of(both)}
    local = {node.buf for node in walk(body) if isinstance(node, Local)}
    flat: dict[Buf, Buf] = {}

    def cell(ref: Ref) -> Ref:
        if ref.buf in local or not ref.buf.shape:
            return ref
        if ref.buf not in flat:
            flat[ref.buf] = replace(ref.buf, shape=(ref.buf.size,), strides=(1,))
        return Ref(flat[ref.buf], (address(ref).substitute(values),))

    def rule(node: Node) -> Node:
        match node:
            case Load(ref):
                return Load(cell(ref))
            case Store(ref) | Update(ref):
                return replace(node, ref=cell(ref))
            case For(sym, body=(For(body=inside),)) if sym is outer.sym:
                return loop(both, inside, node.origin)
            case _:
                return node

    return rewrite_body(body, rule), {view: buf for buf, view in flat.items()}


def _programs(body: Body) -> int:
    """How many iterations are independent."""
    return prod(each.sym.extent for each in parallel(body)[0])


def _kept(views: dict[Buf, Buf], body: Body) -> dict[Buf, Buf]:
    """Those that are still mentioned."""
    used = {node.ref.buf for node in walk(body) if isinstance(node, Load | Store | Update)}
    return {view: buf for view, buf in views.items() if view in used}
