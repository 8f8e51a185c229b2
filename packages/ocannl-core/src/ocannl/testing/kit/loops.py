"""Loops, conditions, named values, local arrays, static symbols."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ocannl.ir.affine import TRUE, Bound, Sym, SymKind
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    BindIndex,
    Const,
    For,
    If,
    IndexValue,
    Load,
    Local,
    MemorySpace,
    Mode,
    Poll,
    Store,
    Update,
    loop,
)
from ocannl.ir.ops import ADD, NEG, SUB
from ocannl.testing.kit.backend_tests import Area
from ocannl.testing.kit.cases import A, case, cell, load, local, pool, sym
from ocannl.testing.kit.harness import Bench, call
from ocannl.testing.kit.numbers import agree
from ocannl.testing.kit.statements import BOUNDS, PROGRAMS, cases, numbers


class Loops(Area):
    """Statements have the semantics defined in `ocannl.ir.loops`."""

    @pytest.mark.parametrize("name", [*BOUNDS, *PROGRAMS])
    def test_a_program(self, bench: Bench, name: str) -> None:
        programs = cases(bench.number)
        bench.check(programs[name], programs.values())

    @pytest.mark.parametrize("value", [0, 1, 5, 20, 63])
    def test_bounds_in_a_static_symbol(self, bench: Bench, value: int) -> None:
        p, n, i = bench.number, Sym("n", 0, 63, SymKind.STATIC), sym("i", 63)
        y = pool("y", np.zeros(63, p.numpy))
        nest = For(i, Bound(((A(n) - 3, 1), (A(0), 1))), Bound.upper(A(n)), (Update(cell(y, i), ADD, Const(1, p)),))
        example = case("bounds", [(y, np.zeros(63, p.numpy))], (nest,), syms=(n,), values=(value,))
        bench.check(example)

    @pytest.mark.parametrize("fill", [None, 0, 3, float("-inf")])
    @pytest.mark.parametrize("cells", [1, 3, 17, 300])
    def test_what_a_local_array_starts_as(self, bench: Bench, cells: int, fill: float | None) -> None:
        p = bench.number
        if fill is not None and not p.is_float and np.isinf(fill):
            return
        y, i, j = pool("y", numbers(p, cells), AccessMode.OUT), sym("i", cells), sym("j", cells)
        tile = local("tile", p, cells)
        write = () if fill is not None else (loop(i, (Store(cell(tile, i), IndexValue(A(i), p)),)),)
        body = (Local(tile, fill), *write, loop(j, (Store(cell(y, j), Load(cell(tile, j))),)))
        want = np.arange(cells) if fill is None else np.full(cells, fill)
        got = bench.run(case("start", [(y, numbers(p, cells))], body))
        agree("what a local array starts as", got[0], want.astype(p.numpy))

    def test_a_call_leaves_nothing_for_the_next(self, bench: Bench) -> None:
        """Local arrays and named values do not persist between calls; global arrays do."""
        p = bench.number
        example = cases(p)["locals_begin_anew"]
        code = bench.code(example.proc)
        with bench.placed(example.proc, example.inputs) as placed:
            entry = bench.link(code, example.proc, placed)
            for _ in range(3):
                call(bench.queue, entry)
            for got, want in zip(placed.read(), example.expected(), strict=True):
                agree("the third call", got, want)

    @pytest.mark.parametrize("length", [1000, 100_000])
    def test_a_long_sum(self, bench: Bench, length: int) -> None:
        p = bench.number
        y, k = pool("y", np.zeros(1, p.numpy)), sym("k", length)
        body = (loop(k, (Update(cell(y, 0), ADD, Const(1, p)),)),)
        bench.check(case("long", [(y, np.zeros(1, p.numpy))], body, want=(np.array([length], p.numpy),)))

    @pytest.mark.parametrize("steps", [0, 1, 6])
    @pytest.mark.parametrize("flag", [0, 1])
    def test_nests_in_regions(self, bench: Bench, steps: int, flag: int) -> None:
        """A sequential loop executes its nests in order, of which some are parallel; conditional code is executed if
        the value of its symbol is in range."""
        p = bench.number
        x, y, z = numbers(p, 40), np.zeros(40, p.numpy), np.zeros((6, 40), p.numpy)
        flags = np.array([flag], "int64")
        bx, by, bz, bf = pool("x", x), pool("y", y), pool("z", z), pool("flag", flags, AccessMode.IN)
        t, taken = Sym("t", 0, steps - 1, SymKind.ITERATION), Sym("taken", 1, 1, SymKind.CONDITION)
        i, j, k = sym("i", 40), sym("j", 40), sym("k", 40)
        first = replace(loop(i, (Store(cell(by, i), load(bx, A(39) - i)),)), parallel_chunk=8)
        second = loop(j, (Update(cell(bx, j), ADD, load(by, j)),))
        saved = loop(k, (Store(cell(bz, t, k), load(bx, k)),))
        conditional = BindIndex(taken, Load(cell(bf, 0)), (saved,))
        body = (loop(t, (first, second, conditional), mode=Mode.SEQUENTIAL),)
        bench.check(case("regions", [(bx, x), (by, y), (bz, z), (bf, flags)], body))

    @pytest.mark.parametrize("threads", [1, 2, 5])
    @pytest.mark.parametrize("claimed", [1, 3, 7, 64, 1000])
    def test_iterations_that_threads_claim(self, bench: Bench, threads: int, claimed: int) -> None:
        """Each iteration is executed once, by any thread, and completes before the statement after the loop."""
        p = bench.number
        x, y, total = numbers(p, 64, 5), numbers(p, 64), np.zeros(1, p.numpy)
        bx, by, bt = pool("x", x, AccessMode.IN), pool("y", y), pool("total", total)
        i, j, k, m, t = sym("i", 64), sym("j", 5), sym("k", 64), sym("m", 64), local("t", p)
        row = (
            Local(t, 0),
            loop(j, (Update(cell(t), ADD, load(bx, i, j)),)),
            Update(cell(by, i), ADD, Load(cell(t))),
            Poll(),
        )
        body = (
            replace(loop(i, row), parallel_chunk=claimed),
            loop(k, (Update(cell(bt, 0), ADD, load(by, k)),)),
            replace(loop(m, (Update(cell(by, m), ADD, Const(1, p)),)), parallel_chunk=claimed),
        )
        want_y = (y + x.sum(1)).astype(p.numpy)
        want = (x, want_y + 1, want_y.sum(keepdims=True))
        example = case("claimed", [(bx, x), (by, y), (bt, total)], body, want=want)
        for threaded in (False, True):
            queue = bench.device.queue(threaded, threads)
            for _ in range(3):
                bench.check(example, queue=queue)

    @pytest.mark.parametrize("threads", [1, 2, 5])
    @pytest.mark.parametrize("claimed", [1, 7, 64])
    def test_private_arrays(self, bench: Bench, threads: int, claimed: int) -> None:
        """Each thread fills its private arrays before its first iteration."""
        if not bench.backend.capabilities.private_arrays:
            pytest.skip("the backend has no private arrays")
        p = bench.number
        x, w, y = numbers(p, 64, 5), numbers(p, 5, 7), np.zeros((64, 7), p.numpy)
        bx, bw, by = pool("x", x, AccessMode.IN), pool("w", w, AccessMode.IN), pool("y", y, AccessMode.OUT)
        first, second = (replace(local(name, p, 5), space=MemorySpace.PRIVATE) for name in ("first", "second"))
        i, j, o, k, n, c = sym("i", 64), sym("j", 5), sym("o", 7), sym("k", 5), sym("n", 5), sym("c", 5)
        t = local("t", p)
        row = (
            loop(o, (
                Local(t, 0),
                loop(k, (Update(cell(t), ADD, load(first, k)), Update(cell(t), ADD, load(second, A(4) - k)))),
                Store(cell(by, i, o), Load(cell(t))),
            )),
            loop(j, (Update(cell(by, i, 0), ADD, load(bx, i, j)),)),
        )  # fmt: skip
        scope = If(TRUE, (
            Local(first),
            Local(second),
            loop(c, (Store(cell(first, c), load(bw, c, 0)),)),
            loop(n, (Store(cell(second, n), load(bw, n, 1)),)),
            replace(loop(i, row), parallel_chunk=claimed),
        ))  # fmt: skip
        want_y = np.zeros_like(y) + (w[:, 0] + w[:, 1]).sum()
        want_y[:, 0] += x.sum(1)
        example = case("private", [(bx, x), (bw, w), (by, y)], (scope,), want=(x, w, want_y.astype(p.numpy)))
        for threaded in (False, True):
            queue = bench.device.queue(threaded, threads)
            for _ in range(3):
                bench.check(example, queue=queue)

    def test_subtraction_by_updates_of_negated_values(self, bench: Bench) -> None:
        p = bench.number
        if not p.is_float:
            pytest.skip("the backend computes with no signed numbers")
        a = numbers(p, 6)
        x, y, i = pool("x", a, AccessMode.IN), pool("y", a[:1]), sym("i", 6)
        body = (loop(i, (Update(cell(y, 0), ADD, Apply(NEG, (load(x, i),))),)),)
        want = (a[:1] - a.sum()).astype(p.numpy)
        bench.check(case("negated", [(x, a), (y, a[:1])], body, want=(a, want)))
        body = (loop(i, (Store(cell(y, 0), Apply(SUB, (load(y, 0), load(x, i)))),)),)
        bench.check(case("subtracted", [(x, a), (y, a[:1])], body, want=(a, want)))
