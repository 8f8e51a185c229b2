"""Copies that all iterations of a parallel loop read become private to its threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ocannl.base.errors import VerifyError
from ocannl.ir.affine import TRUE, Affine, Bound, Sym, SymKind
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    BindIndex,
    Body,
    Buf,
    Cast,
    For,
    If,
    Load,
    Local,
    MemorySpace,
    Mode,
    Poll,
    Proc,
    Ref,
    Stmt,
    Store,
    Update,
    loop,
    row_major,
)
from ocannl.ir.ops import ADD, BY_NAME, MUL
from ocannl.ir.precision import float32, int64
from ocannl.ir.printer import print_proc
from ocannl.ir.private_scope import MAX_PRIVATE_BYTES, private_scope
from ocannl.ir.stack_size import stack_bytes
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.verify import verify
from ocannl.opt.memory.allocate_memory import allocate_memory
from ocannl.opt.parallel.insert_polls import insert_polls
from ocannl.opt.parallel.privatize_copies import privatize_copies

A = Affine.of


def array(name: str, *shape: int, access: AccessMode = AccessMode.INOUT) -> Buf:
    node = TNode(name, Role.PLACEHOLDER, lambda: shape, lambda: float32)
    return Buf(name, float32, shape, row_major(shape), MemorySpace.GLOBAL, access, node)


def temporary(name: str, *shape: int, space: MemorySpace = MemorySpace.ARENA) -> Buf:
    return Buf(name, float32, shape, row_major(shape), space, AccessMode.TEMP)


W, X = (array(name, *shape, access=AccessMode.IN) for name, shape in (("w", (3, 2)), ("x", (8, 3))))
V, Y = array("v", 3, 2), array("y", 8, 2)
T = temporary("t", 2, 3)
I, J, B, O, K = (Sym(name, 0, size - 1) for name, size in zip("ijbok", (2, 3, 8, 2, 3), strict=True))


def cell(buf: Buf, *syms: Sym) -> Ref:
    return Ref(buf, tuple(map(A, syms)))


def copy(target: Buf = T, source: Buf = W) -> For:
    return loop(I, (loop(J, (Store(cell(target, I, J), Load(cell(source, J, I))),)),))


def product(*, chunk: int = 1, reads: Buf = T) -> For:
    term = Apply(MUL, (Load(cell(X, B, K)), Load(cell(reads, O, K))))
    return replace(loop(B, (loop(O, (loop(K, (Update(cell(Y, B, O), ADD, term),)),)),)), parallel_chunk=chunk)


def program(*body: Stmt, bufs: tuple[Buf, ...] = (T,)) -> Proc:
    return Proc("step", (W, X, Y, *bufs), (), body)


def test_the_copy_moves_into_the_scope() -> None:
    z = array("z", 2)
    between = loop(Sym("n", 0, 1), ())
    between = replace(between, body=(Update(cell(z, between.sym), ADD, Load(cell(z, between.sym))),))
    proc = privatize_copies(program(copy(), between, product(), bufs=(T, z)), 64)
    first, second = proc.body
    scope = private_scope(second)
    assert first is between and scope is not None
    assert [buf.name for buf in scope.bufs] == ["t"] and T not in proc.bufs
    verify(proc, "optimized")


def the_loop_writes_the_source() -> Body:
    return copy(source=Y), product()


def an_iteration_reads_a_part() -> Body:
    t, i, j = temporary("t8", 8, 3), Sym("i8", 0, 7), Sym("j8", 0, 2)
    filled = loop(i, (loop(j, (Store(cell(t, i, j), Load(cell(X, i, j))),)),))
    total = Update(Ref(Y, (A(B), A(0))), ADD, Load(cell(t, B, K)))
    return filled, replace(loop(B, (loop(K, (total,)),)), parallel_chunk=1)


def an_iteration_reads_a_part_in_an_inner_loop() -> Body:
    t, i, j = temporary("t8", 8, 3), Sym("i8", 0, 7), Sym("j8", 0, 2)
    filled = loop(i, (loop(j, (Store(cell(t, i, j), Load(cell(X, i, j))),)),))
    tile, row = Sym("tile", 0, 3), Sym("row", 0, 7)
    rows = loop(row, (Update(Ref(Y, (A(row), A(0))), ADD, Load(cell(t, row, K))),))
    rows = replace(rows, lo=Bound.lower(A(tile) * 2), hi=Bound.upper(A(tile) * 2 + 2))
    return filled, replace(loop(tile, (loop(K, (rows,)),)), parallel_chunk=1)


def two_loops_read_the_copy() -> Body:
    b, o, k = (Sym(f"{sym.name}2", sym.lo, sym.hi) for sym in (B, O, K))
    term = Apply(MUL, (Load(cell(X, b, k)), Load(cell(T, o, k))))
    again = replace(loop(b, (loop(o, (loop(k, (Update(cell(Y, b, o), ADD, term),)),)),)), parallel_chunk=1)
    return copy(), product(), again


def the_loop_is_serial() -> Body:
    return copy(), product(chunk=0)


def values_are_computed() -> Body:
    value = Apply(BY_NAME["exp"], (Load(cell(W, J, I)),))
    return loop(I, (loop(J, (Store(cell(T, I, J), value),)),)), product()


def the_copy_is_updated() -> Body:
    m, n = Sym("m", 0, 1), Sym("n", 0, 2)
    return copy(), loop(m, (loop(n, (Update(cell(T, m, n), ADD, Load(cell(W, n, m))),)),)), product()


def the_copy_is_in_another_region() -> Body:
    s = Sym("s", 0, 3, SymKind.ITERATION)
    return copy(), loop(s, (product(),), mode=Mode.SEQUENTIAL)


def a_region_fills_rows_in_turn() -> Body:
    s = Sym("s", 0, 1, SymKind.ITERATION)
    row = loop(J, (Store(cell(T, s, J), Load(Ref(W, (A(J), A(0))))),))
    return (loop(s, (row, product()), mode=Mode.SEQUENTIAL),)


def a_condition_reads_the_copy() -> Body:
    taken = Sym("taken", 1, 1, SymKind.CONDITION)
    update = loop(Sym("n", 0, 1), (Update(Ref(Y, (A(0), A(0))), ADD, Load(Ref(X, (A(0), A(0))))),))
    return copy(), product(), BindIndex(taken, Cast(Load(Ref(T, (A(0), A(0)))), int64), (update,))


@pytest.mark.parametrize("body", [
    a_region_fills_rows_in_turn, a_condition_reads_the_copy, the_loop_writes_the_source, an_iteration_reads_a_part,
    an_iteration_reads_a_part_in_an_inner_loop, two_loops_read_the_copy, the_loop_is_serial, values_are_computed,
    the_copy_is_updated, the_copy_is_in_another_region,
], ids=lambda body: body.__name__)  # fmt: skip
def test_these_copies_remain_shared(body: Callable[[], Body]) -> None:
    proc = Proc("step", (W, X, Y, T), (), body())
    assert privatize_copies(proc, 1 << 10) is proc


def test_a_source_that_changes_before_the_loop_is_copied_before() -> None:
    n = Sym("n", 0, 2)
    change = loop(n, (Update(Ref(V, (A(n), A(0))), ADD, Load(Ref(X, (A(0), A(n))))),))
    proc = program(copy(source=V), change, product(), bufs=(T, V))
    assert privatize_copies(proc, 1 << 10) is proc
    assert privatize_copies(program(change, copy(source=V), product(), bufs=(T, V)), 1 << 10).body[0] is change


@pytest.mark.parametrize(("max_bytes", "private"), [(0, 0), (63, 0), (64, 1), (127, 1), (128, 2)])
def test_the_arrays_of_a_loop_fit_into_the_limit(max_bytes: int, private: int) -> None:
    t2, i, j = temporary("t2", 2, 3), Sym("i2", 0, 1), Sym("j2", 0, 2)
    second = loop(i, (loop(j, (Store(cell(t2, i, j), Load(cell(W, j, i))),)),))
    term = Apply(MUL, (Load(cell(t2, O, K)), Load(cell(T, O, K))))
    both = replace(loop(B, (loop(O, (loop(K, (Update(cell(Y, B, O), ADD, term),)),)),)), parallel_chunk=1)
    proc = privatize_copies(program(copy(), second, both, bufs=(T, t2)), max_bytes)
    assert sum(buf.space is MemorySpace.ARENA for buf in proc.bufs) == 2 - private
    verify(proc, "optimized")


def test_parallel_copies_become_serial_and_regions_are_searched() -> None:
    s = Sym("s", 0, 3, SymKind.ITERATION)
    region = loop(s, (replace(copy(), parallel_chunk=1), product()), mode=Mode.SEQUENTIAL)
    (outer,) = privatize_copies(program(region), 64).body
    assert isinstance(outer, For)
    (scope,) = map(private_scope, outer.body)
    assert scope is not None and not any(isinstance(stmt, For) and stmt.parallel_chunk for stmt in scope.copies)


def test_partial_copies_of_one_array_move_together() -> None:
    halves = []
    for n in range(2):
        j = Sym(f"j{n}", 0, 2)
        halves.append(loop(j, (Store(Ref(T, (A(n), A(j))), Load(Ref(W, (A(j), A(n))))),)))
    (scope,) = map(private_scope, privatize_copies(program(*halves, product()), 64).body)
    assert scope is not None and scope.copies[0] is not scope.copies[1] and len(scope.copies) == 2


def test_private_arrays_take_no_space_on_the_stack_or_in_the_arena() -> None:
    proc = allocate_memory(privatize_copies(program(copy(), product()), 64), 64)
    assert stack_bytes(proc) == 0 and proc.arena == 0


def test_of_a_copy_of_a_copy_the_last_one_moves() -> None:
    """The loop that copies is parallel itself, and each of its iterations reads the whole first copy."""
    first, source = temporary("first", 3), array("source", 3, access=AccessMode.IN)
    n, i, j = Sym("n", 0, 2), Sym("i2", 0, 1), Sym("j2", 0, 2)
    fill = loop(n, (Store(cell(first, n), Load(cell(source, n))),))
    again = replace(loop(i, (loop(j, (Store(cell(T, i, j), Load(cell(first, j))),)),)), parallel_chunk=1)
    proc = privatize_copies(Proc("step", (source, X, Y, first, T), (), (fill, again, product())), 1 << 10)
    verify(proc, "optimized")
    assert first in proc.bufs and T not in proc.bufs and proc.body[0] is fill


def test_polls_stay_outside_of_the_copies() -> None:
    proc = insert_polls(privatize_copies(program(copy(), product()), 64), 5)
    verify(proc, "optimized")
    (scope,) = map(private_scope, proc.body)
    assert scope is not None and not any(isinstance(stmt, Poll) for stmt in scope.copies)
    assert "poll" in print_proc(replace(proc, body=(scope.loop,)))


# --- the verifier ----------------------------------------------------------------------------------------------------

P = temporary("p", 2, 3, space=MemorySpace.PRIVATE)


def scoped(*body: Stmt) -> Proc:
    return program(If(TRUE, body), bufs=())


REFUSED = {
    "does not end with a parallel loop": scoped(Local(P), copy(P), product(reads=P, chunk=0)),
    "initial value": scoped(Local(P, 0), copy(P), product(reads=P)),
    "must not be parallel or cancellable": scoped(Local(P), replace(copy(P), parallel_chunk=1), product(reads=P)),
    "not be parallel or cancellable": scoped(
        Local(P), replace(copy(P), body=(Poll(), *copy(P).body)), product(reads=P)
    ),
    "must be loops that fill the same cells of private arrays": scoped(
        Local(P), copy(P), loop(Sym("n", 0, 2), (Store(Ref(Y, (A(0), A(0))), Load(Ref(X, (A(0), A(0))))),)),
        product(reads=P),
    ),
    "private arrays need more than": scoped(
        Local(temporary("huge", MAX_PRIVATE_BYTES // 4 + 1, space=MemorySpace.PRIVATE)), copy(P), product(reads=P)
    ),
    "parallel loop writes `p`": scoped(
        Local(P), copy(P), replace(loop(B, (Store(Ref(P, (A(0), A(0))), Load(cell(X, B, K))),)), parallel_chunk=1)
    ),
    "`p` in `private` memory": program(Local(P), copy(P), product(reads=P), bufs=()),
    "`p_2` in `local` memory": scoped(
        Local(P), Local(temporary("p_2", 3, space=MemorySpace.LOCAL)), copy(P), product(reads=P)
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_refusals(message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        verify(REFUSED[message], "optimized")


def test_filled_cells_do_not_depend_on_the_iteration_of_a_region() -> None:
    s = Sym("s", 0, 1, SymKind.ITERATION)
    row = loop(J, (Store(cell(P, s, J), Load(Ref(W, (A(J), A(0))))),))
    region = loop(s, (If(TRUE, (Local(P), row, product(reads=P))),), mode=Mode.SEQUENTIAL)
    with pytest.raises(VerifyError, match="fill the same cells"):
        verify(program(region, bufs=()), "optimized")


def test_arrays_on_the_stack_of_a_scope_do_not_overlap() -> None:
    blocks = [replace(temporary(name, 3, space=MemorySpace.LOCAL), offset=0) for name in ("a", "c")]
    fill = [loop(sym, (Store(cell(block, sym), Load(Ref(X, (A(B), A(sym))))),))
            for block, sym in zip(blocks, (Sym("n", 0, 2), Sym("m", 0, 2)), strict=True)]  # fmt: skip
    total = [Update(Ref(Y, (A(B), A(0))), ADD, Load(Ref(block, (A(0),)))) for block in blocks]
    rows = replace(loop(B, (*map(Local, blocks), *fill, *total)), parallel_chunk=1)
    with pytest.raises(VerifyError, match="stack"):
        verify(scoped(Local(P), copy(P), rows), "placed")


def test_a_loop_may_not_write_what_is_copied() -> None:
    term = Load(cell(P, O, K))
    update = replace(loop(B, (loop(O, (loop(K, (Update(cell(Y, B, O), ADD, term),)),)),)), parallel_chunk=1)
    source = loop(I, (loop(J, (Store(cell(P, I, J), Load(Ref(Y, (A(J), A(I))))),)),))
    with pytest.raises(VerifyError, match="parallel loop writes `y`, which is private or copied"):
        verify(scoped(Local(P), source, update), "optimized")
