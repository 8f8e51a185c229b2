"""What is fetched ahead is named by loops that are there."""

from __future__ import annotations

from itertools import permutations

import pytest

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.index import Affine, Sym
from ocannl.ir.loops import Access, Body, Buf, Home, Load, Prefetch, Proc, Ref, Store, loop, row_major
from ocannl.ir.precision import float32
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.verify import verify
from ocannl.ir.walk import walk
from ocannl.opt.prefetch import prefetch
from ocannl.opt.schedule import schedule

TARGET = Capabilities(vector_bytes=64, vector_registers=32)
SHAPE = (31, 40, 7)


def buffer(name: str, shape: tuple[int, ...], access: Access) -> Buf:
    node = TNode(name, Role.PLACEHOLDER, lambda: shape, lambda: float32)
    return Buf(name, float32, shape, row_major(shape), Home.POOL, access, node)


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_any_transposition(order: tuple[int, ...]) -> None:
    syms = [Sym(name, 0, extent - 1) for name, extent in zip("bac", SHAPE, strict=True)]
    x = buffer("x", SHAPE, Access.IN)
    y = buffer("y", tuple([SHAPE[n] for n in order]), Access.OUT)
    copy = Store(Ref(y, tuple([Affine.of(syms[n]) for n in order])), Load(Ref(x, tuple(map(Affine.of, syms)))))
    body: Body = (copy,)
    for n in reversed(order):
        body = (loop(syms[n], body),)
    proc = prefetch(schedule(Proc("copy", (x, y), (), body), TARGET), 0, 0)
    verify(proc, "optimized")
    assert all(node.ref.buf is x for node in walk(proc.body) if isinstance(node, Prefetch))
