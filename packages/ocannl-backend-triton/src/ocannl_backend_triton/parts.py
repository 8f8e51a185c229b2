"""A sum over very much that few programs would take: many programs take parts of it, then one the sum of these.

    local acc = 0                              for p in 0..256:
    for k in 0..1000000:                         local part = 0
      acc += x[k]                    ==>         for k in 0..3907:
    y = acc / 1000000                              if 3907*p + k < 1000000:
                                                     part += x[3907*p + k]
                                                 parts[p] = part
                                               and, in a kernel of its own:
                                               local acc = 0
                                               for p in 0..256:
                                                 acc += parts[p]
                                               y = acc / 1000000
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ocannl.ir.index import Affine, Cond, Sym
from ocannl.ir.loops import (
    Access,
    Body,
    Buf,
    For,
    Home,
    Idx,
    If,
    Let,
    Load,
    Local,
    Num,
    Ref,
    Store,
    Update,
    When,
    loop,
)
from ocannl.ir.walk import Node, rewrite_body, walk
from ocannl_backend_triton.nests import is_whole
from ocannl_backend_triton.values import neutral

MANY = 1 << 16  # terms
PARTS = 256


def in_parts(body: Body) -> tuple[Body, ...]:
    """The statements, one kernel after the other."""
    match body:
        case (If(cond, inner, ()),) if cond.is_true:
            return tuple((If(cond, each),) for each in in_parts(inner))
    loops = [n for n, stmt in enumerate(body) if isinstance(stmt, For)]
    if len(loops) != 1 or loops[0] < 2:
        return (body,)
    place = loops[0]
    summed = body[place]
    match body[place - 2 : place], summed:
        case (Local(acc, None), Store(Ref(begun, ()), _)), For() if begun is acc and is_whole(summed):
            update = _only_update(summed, acc)
            if update is None or _terms(summed) < MANY or summed.sym.extent < 2:
                return (body,)
        case _:
            return (body,)
    count = min(summed.sym.extent, PARTS)
    parts = Buf(f"{acc.name}_parts", acc.precision, (count,), (1,), Home.ARENA, Access.TEMP)
    first, last = Sym("part", 0, count - 1), Sym("part", 0, count - 1)
    then = loop(last, (Update(Ref(acc, ()), update.op, Load(Ref(parts, (Affine.of(last),)))),))
    made = _part(summed, update, parts, first)
    return (made,), (*body[:place], then, *body[place + 1 :])


def _only_update(summed: For, acc: Buf) -> Update | None:
    """What is done in the loop, if it is but to add to the accumulator."""
    found: Update | None = None
    for node in walk(summed.body):
        match node:
            case Update(ref) if ref.buf is acc and found is None:
                found = node
            case Store() | Update() | Local() | Let():
                return None
            case Load(ref) if ref.buf.home is Home.REG:
                return None
            case For() if not is_whole(node):
                return None
            case _:
                pass
    return found


def _terms(summed: For) -> int:
    count = summed.sym.extent
    for node in walk(summed.body):
        if isinstance(node, For):
            count *= node.sym.extent
    return count


def _part(summed: For, update: Update, parts: Buf, part: Sym) -> For:
    size = -(-summed.sym.extent // parts.shape[0])
    turn = Sym(summed.sym.name, 0, size - 1)
    here = Affine.of(part) * size + turn
    own = replace(update.ref.buf, name="part_sum")
    inner = _substituted(summed.body, {summed.sym: here + summed.sym.lo}, update.ref.buf, own)
    if summed.sym.extent % size:
        inner = (If(Cond((Affine.of(summed.sym.extent - 1) - here,)), inner),)
    start = Num(neutral(update.op, own.precision), own.precision)
    cell = Ref(own, ())
    return loop(part, (
        Local(own), Store(cell, start), loop(turn, inner), Store(Ref(parts, (Affine.of(part),)), Load(cell)),
    ), summed.origin)  # fmt: skip


def _substituted(body: Body, values: Mapping[Sym, Affine], old: Buf, new: Buf) -> Body:
    """With other values for symbols, and another accumulator."""

    def cell(ref: Ref) -> Ref:
        return Ref(new if ref.buf is old else ref.buf, tuple([at.substitute(values) for at in ref.at]))

    def rule(node: Node) -> Node:
        match node:
            case Load(ref):
                return Load(cell(ref))
            case Store(ref) | Update(ref):
                return replace(node, ref=cell(ref))
            case Idx(index, precision):
                return Idx(index.substitute(values), precision)
            case If(cond) | When(cond):
                return replace(node, cond=cond.substitute(values))
            case _:
                return node

    return rewrite_body(body, rule)
