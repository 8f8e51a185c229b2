"""What is fetched ahead is named by loops that are there."""

from __future__ import annotations

from itertools import permutations

import pytest

from ocannl.ir.affine import Affine, Cond, Sym
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    Body,
    Buf,
    Const,
    Load,
    Local,
    MemorySpace,
    Mode,
    Prefetch,
    Proc,
    Ref,
    Store,
    Update,
    When,
    loop,
    row_major,
)
from ocannl.ir.ops import ADD, MUL
from ocannl.ir.precision import float32
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.verify import verify
from ocannl.ir.walk import walk
from ocannl.opt.memory.prefetch import prefetch
from ocannl.opt.schedule.schedule import schedule

TARGET = Capabilities(vector_bytes=64, vector_registers=32)
SHAPE = (31, 40, 7)


def buffer(name: str, shape: tuple[int, ...], access: AccessMode) -> Buf:
    node = TNode(name, Role.PLACEHOLDER, lambda: shape, lambda: float32)
    return Buf(name, float32, shape, row_major(shape), MemorySpace.GLOBAL, access, node)


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_any_transposition(order: tuple[int, ...]) -> None:
    syms = [Sym(name, 0, extent - 1) for name, extent in zip("bac", SHAPE, strict=True)]
    x = buffer("x", SHAPE, AccessMode.IN)
    y = buffer("y", tuple([SHAPE[n] for n in order]), AccessMode.OUT)
    copy = Store(Ref(y, tuple([Affine.of(syms[n]) for n in order])), Load(Ref(x, tuple(map(Affine.of, syms)))))
    body: Body = (copy,)
    for n in reversed(order):
        body = (loop(syms[n], body),)
    proc = prefetch(schedule(Proc("copy", (x, y), (), body), TARGET), 0, 0)
    verify(proc, "optimized")
    assert all(node.ref.buf is x for node in walk(proc.body) if isinstance(node, Prefetch))


def product(m: int, n: int, k: int) -> Proc:
    """w[i, j] += 2 * the sum over l of x[l, i] * y[l, j]."""
    i, j, l = (Sym(name, 0, extent - 1) for name, extent in zip("ijl", (m, n, k), strict=True))
    x, y = buffer("x", (k, m), AccessMode.IN), buffer("y", (k, n), AccessMode.IN)
    w = buffer("w", (m, n), AccessMode.INOUT)

    def read(buf: Buf, *syms: Sym) -> Load:
        return Load(Ref(buf, tuple(map(Affine.of, syms))))

    acc = Buf("acc", float32, (), (), MemorySpace.LOCAL, AccessMode.TEMP)
    term = Apply(MUL, (read(x, l, i), read(y, l, j)))
    total = Apply(MUL, (Load(Ref(acc, ())), Const(2, float32)))
    inner = (
        Local(acc), Store(Ref(acc, ()), Const(0, float32)), loop(l, (Update(Ref(acc, ()), ADD, term),)),
        Update(Ref(w, (Affine.of(i), Affine.of(j))), ADD, total),
    )  # fmt: skip
    return Proc("step", (x, y, w), (), (loop(i, (loop(j, inner),)),))


def test_tiles_fetch_what_they_add_to_before_they_sum() -> None:
    planned = schedule(product(20, 40, 9), TARGET)
    assert prefetch(planned, 1 << 40, min_array_bytes=20 * 40 * 4 + 1) is planned
    proc = prefetch(planned, 1 << 40, min_array_bytes=20 * 40 * 4)
    verify(proc, "optimized")
    order = [node for node in walk(proc.body) if isinstance(node, Prefetch | Update)]
    fetched = [node.ref.buf.name for node in order if isinstance(node, Prefetch)]
    assert fetched and set(fetched) == {"w"}
    last = None
    for node in order:  # of each tile first what is fetched, then sums, then what they are added to
        if isinstance(node, Prefetch):
            assert last in (None, "w", "fetched")
            last = "fetched"
        else:
            assert (node.ref.buf.name == "w") <= (last in ("sum", "w"))
            last = "w" if node.ref.buf.name == "w" else "sum"


@pytest.mark.parametrize(("rows", "fetched"), [(8, 0), (9, 1)])
def test_cells_that_only_a_guard_lets_exist_are_not_fetched(rows: int, fetched: int) -> None:
    x = buffer("x", (rows, 16), AccessMode.IN)
    y, z = buffer("y", (9, 16), AccessMode.OUT), buffer("z", (9, 16), AccessMode.OUT)
    i, j, k = Sym("i", 0, 8), Sym("j", 0, 15), Sym("k", 0, 15)

    def copy(to: Buf, lane: Sym) -> Body:
        at = Affine.of(i), Affine.of(lane)
        value = When(Cond((Affine.of(7) - i,)), Load(Ref(x, at)), Const(0, float32))
        return (loop(lane, (Store(Ref(to, at), value),), mode=Mode.VECTORIZED),)

    proc = prefetch(Proc("copies", (x, y, z), (), (loop(i, (*copy(y, j), *copy(z, k))),)), 0, 0)
    verify(proc, "optimized")
    assert sum(isinstance(node, Prefetch) for node in walk(proc.body)) == fetched
