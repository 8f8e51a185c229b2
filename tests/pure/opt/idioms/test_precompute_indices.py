"""Indices that are computed before their uses: which loops are distributed, and their values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ocannl.ir.affine import Affine, Sym, SymKind
from ocannl.ir.assign import Assign, Call, IndirectIndex, Number, Piece, Read
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import Local, Proc
from ocannl.ir.ops import ADD, BY_NAME
from ocannl.ir.precision import float32
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.verify import verify
from ocannl.ir.walk import walk
from ocannl.lower.lower import lower
from ocannl.opt.analysis.substitution import with_buffers
from ocannl.opt.idioms.precompute_indices import precompute_indices


def counts(*dims: int) -> Proc:
    """Counts of truncated numbers."""
    bins, x = (TNode(label, Role.PLACEHOLDER, lambda size=size: size, lambda: float32)
               for label, size in (("bins", (4,)), ("x", dims)))  # fmt: skip
    loops = tuple(Sym(f"i{n}", 0, size - 1) for n, size in enumerate(dims))
    cell = Read(x, tuple(map(Affine.of, loops)))
    indirect = IndirectIndex(Sym("v", 0, 3, SymKind.INDIRECT), Call(BY_NAME["trunc"], (cell,)))
    piece = Piece(loops, (Affine.of(indirect.sym),), Number(1), indirect=(indirect,))
    return lower(Assign(bins, ADD, False, (piece,)), "step")


@pytest.mark.parametrize(
    ("dims", "size"), [((5,), 5), ((3, 7), 7), ((2, 4096), 2048), ((3 * 2000,), 2000), ((2 * 2053,), None), ((1,), 1)]
)
def test_indices_of_a_block(dims: tuple[int, ...], size: int | None) -> None:
    before = counts(*dims)
    after = precompute_indices(before, 1)
    verify(after, "optimized")
    assert [node.buf.shape for node in walk(after.body) if isinstance(node, Local)] == ([(size,)] if size else [])
    numbers = np.random.default_rng(0)
    arrays = {buf.node: numbers.uniform(-1.5, 5.5, buf.shape).astype("float32") for buf in before.bufs if buf.node}
    wanted, got = interpret(before, arrays), interpret(after, arrays)
    for node in wanted:
        np.testing.assert_array_equal(got[node], wanted[node])


def test_indices_that_the_loop_changes() -> None:
    proc = counts(4)
    bins, x = proc.bufs
    recurrence = replace(proc, bufs=(bins,), body=with_buffers(proc.body, {x: bins}))
    assert precompute_indices(recurrence, 1) is recurrence


def test_cheap_indices() -> None:
    proc = counts(5)
    assert precompute_indices(proc) is proc
