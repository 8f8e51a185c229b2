"""Where temporaries lie: never on top of each other while they live, and close to as tight as can be."""

from __future__ import annotations

from random import Random

import pytest

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.loops import (
    AccessMode,
    Buf,
    Const,
    For,
    Load,
    Local,
    MemorySpace,
    Mode,
    Proc,
    Ref,
    Stmt,
    Store,
    loop,
    row_major,
)
from ocannl.ir.precision import Precision, float32, float64, uint8
from ocannl.ir.verify import verify
from ocannl.opt.analysis.nests import accessed_buffers
from ocannl.opt.memory.allocate_memory import allocate_memory


def temp(name: str, *shape: int, kind: Precision = float32) -> Buf:
    return Buf(name, kind, shape, row_major(shape), MemorySpace.ARENA, AccessMode.TEMP)


def program(lives: list[tuple[Buf, int, int]], length: int) -> Proc:
    """Each buffer is written at its first and read at its last position."""
    body = []
    for at in range(length):
        for buf, first, last in lives:
            syms = tuple(Sym(f"{buf.name}_{at}_{n}", 0, size - 1) for n, size in enumerate(buf.shape))
            indices = tuple(map(Affine.of, syms))
            if at == first:
                body.append((at, 0, nest(syms, Store(Ref(buf, indices), Const(0, buf.precision)))))
            if at == last:
                body.append((at, 1, nest(syms, Store(Ref(buf, indices), Load(Ref(buf, indices))))))
    return Proc("p", tuple(buf for buf, _, _ in lives), (), tuple(stmt for *_, stmt in body))


def nest(syms: tuple[Sym, ...], stmt: Stmt) -> Stmt:
    for sym in reversed(syms):
        stmt = loop(sym, (stmt,))
    return stmt


def offsets(proc: Proc) -> dict[str, int | None]:
    return {buf.name: buf.offset for buf in proc.bufs}


def test_a_chain_needs_two_places() -> None:
    bufs = [temp(f"t{n}", 64) for n in range(6)]
    body = [loop(Sym("i", 0, 63), (Store(Ref(bufs[0], (Affine(),)), Const(0, float32)),))]
    for n in range(5):
        i = Sym(f"i{n}", 0, 63)
        cell = (Affine.of(i),)
        body.append(loop(i, (Store(Ref(bufs[n + 1], cell), Load(Ref(bufs[n], cell))),)))
    placed = allocate_memory(Proc("p", tuple(bufs), (), tuple(body)), 64)
    assert placed.arena == 512
    assert list(offsets(placed).values()) == [0, 256, 0, 256, 0, 256]


def test_small_ones_go_into_gaps() -> None:
    big, late, small = temp("big", 100), temp("late", 100), temp("small", 2)
    placed = allocate_memory(program([(big, 0, 1), (late, 2, 3), (small, 0, 3)], 4), 64)
    assert offsets(placed) == {"big": 0, "late": 0, "small": 448}
    assert placed.arena == 512


def test_sizes_are_in_bytes_and_aligned() -> None:
    bufs = [temp("a", 3, kind=float64), temp("b", 5, kind=uint8), temp("c")]
    placed = allocate_memory(program([(b, 0, 1) for b in bufs], 2), 32)
    assert offsets(placed) == {"a": 0, "b": 32, "c": 64}
    assert placed.arena == 96
    verify(placed, "placed", alignment_bytes=32)


def test_no_cells_and_no_temporaries() -> None:
    placed = allocate_memory(program([(temp("none", 0, 5), 0, 1), (temp("some", 5), 0, 1)], 2), 64)
    assert placed.arena == 64
    assert allocate_memory(Proc("p", (), (), ()), 64).arena == 0


@pytest.mark.parametrize("seed", range(20))
def test_random_lives(seed: int) -> None:
    random = Random(seed)
    length, lives = 30, []
    for n in range(40):
        first = random.randrange(length - 1)
        last = min(length - 1, first + random.choice([1, 1, 2, 3, 10, 20]))
        lives.append((temp(f"t{n}", random.choice([1, 7, 16, 60, 64, 300])), first, last))
    proc = program(lives, length)
    placed = allocate_memory(proc, 64)
    verify(placed, "placed", alignment_bytes=64)  # nothing overlaps
    at = {buf: [n for n, stmt in enumerate(proc.body) if buf in accessed_buffers(stmt)[1]] for buf in proc.bufs}
    alive = [[b for b in proc.bufs if at[b][0] <= n <= at[b][-1]] for n in range(len(proc.body))]
    peak = max(sum(-(-b.nbytes // 64) * 64 for b in bufs) for bufs in alive)
    assert peak <= placed.arena <= 1.25 * peak
    assert offsets(allocate_memory(proc, 64)) == offsets(placed)


def test_what_loops_walk_has_a_place_on_the_stack_and_what_stays_in_registers_has_none() -> None:
    def local(name: str) -> Buf:
        return Buf(name, float32, (2, 16), row_major((2, 16)), MemorySpace.LOCAL, AccessMode.TEMP)

    def accesses_of(buf: Buf, name: str, mode: Mode) -> Stmt:
        row, lane = Sym(f"{name}_row", 0, 1), Sym(name, 0, 15)
        cells = Store(Ref(buf, (Affine.of(row), Affine.of(lane))), Const(0, float32))
        return loop(row, (loop(lane, (cells,), mode=Mode.VECTORIZED),), mode=mode)

    walked, second, in_registers, kept = (local(name) for name in ("walked", "other", "held", "kept"))
    bufs = walked, second, in_registers, kept
    modes = Mode.SERIAL, Mode.SERIAL, Mode.UNROLLED, Mode.UNROLLED
    writes = [accesses_of(buf, buf.name, mode) for buf, mode in zip(bufs, modes, strict=True)]
    outside = loop(Sym("i", 0, 3), (*map(Local, bufs), *writes))
    placed = allocate_memory(Proc("p", (), (), (outside,)), 64)
    assert isinstance(placed.body[0], For)
    offsets = {stmt.buf.name: stmt.buf.offset for stmt in placed.body[0].body if isinstance(stmt, Local)}
    assert offsets == {"walked": 0, "other": 0, "held": None, "kept": None}
