"""Programs that measure a processor (see `ocannl.backend.cpu.cpu_probe`): any backend for CPUs compiles them.

`chase` follows links through memory, so that each load depends on the previous one. `read` loads vectors in order.
`multiply` has independent multiply-additions of vectors, `chain` additions and multiplications of integers that depend
on each other, and `multiply_beside_chain` has both.
"""

from __future__ import annotations

from collections.abc import Callable

from ocannl.ir.affine import Affine, Bound, Sym, SymKind
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    BindIndex,
    Buf,
    Const,
    Expr,
    For,
    Load,
    Local,
    MemorySpace,
    Mode,
    Proc,
    Ref,
    Stmt,
    Store,
    Update,
    loop,
    row_major,
)
from ocannl.ir.ops import ADD, MUL
from ocannl.ir.precision import Precision, float32, int64, uint32

READ_ACCUMULATORS = 12
MULTIPLY_ACCUMULATORS = 12  # enough for two multiply-additions per cycle with a latency of five cycles
CHAIN_STEP_CYCLES = 4  # of an integer multiplication and an addition, on all current processors
_MULTIPLIER, _INCREMENT = 1664525, 1013904223  # Numerical Recipes' congruential generator
_COUNT_LIMIT = 1 << 30


def programs(lanes: int, cells: int) -> tuple[Proc, ...]:
    """Returns the programs for vectors of `lanes` float32 elements and arrays of at most `cells` float32 elements."""
    return (
        _chase(cells // 2),
        _read(lanes, cells),
        _arithmetic("multiply", lanes, MULTIPLY_ACCUMULATORS, chained=False),
        _arithmetic("chain", lanes, 0, chained=True),
        _arithmetic("multiply_beside_chain", lanes, CHAIN_STEP_CYCLES // 2, chained=True),
    )


def _chase(links: int) -> Proc:
    """`at[0] = links[at[0]]`, `steps` times."""
    steps, step = _static("steps"), Sym("step", 0, _COUNT_LIMIT - 1)
    link = Sym("link", 0, links - 1, SymKind.INDIRECT)
    table, at = _array("links", int64, links, AccessMode.CONST), _array("at", int64, 1)
    position = _local("position", int64, 1)
    follow = BindIndex(link, _load(position, 0), (Store(_cell(position, 0), _load(table, link)),))
    body = (
        Local(position),
        Store(_cell(position, 0), _load(at, 0)),
        _counted(step, steps, follow),
        Store(_cell(at, 0), _load(position, 0)),
    )
    return _proc("chase", (table, at), (steps,), *body)


def _read(lanes: int, cells: int) -> Proc:
    """Reads `blocks` blocks of vectors, `laps` times, beginning `shift` elements after an aligned address."""
    shift, blocks, laps = _static("shift"), _static("blocks"), _static("laps")
    lap, block = Sym("lap", 0, _COUNT_LIMIT - 1), Sym("block", 0, _COUNT_LIMIT - 1)
    width = READ_ACCUMULATORS * lanes
    data, total = _array("data", float32, cells, AccessMode.CONST), _array("total", float32, width)
    sums = _local("sums", float32, width)

    def add(cell: Affine) -> Stmt:
        return Update(_cell(sums, cell), ADD, _load(data, Affine.of(block) * width + cell + shift))

    body = (
        *_zeros(sums, lanes),
        _counted(lap, laps, _counted(block, blocks, *_vectors("read", lanes, width, add))),
        *_copy(total, sums, lanes),
    )
    return _proc("read", (data, total), (shift, blocks, laps), *body)


def _arithmetic(name: str, lanes: int, accumulators: int, *, chained: bool) -> Proc:
    """Updates so many vectors, and the state of a congruential generator if `chained`, `steps` times."""
    steps, step = _static("steps"), Sym("step", 0, _COUNT_LIMIT - 1)
    width = accumulators * lanes
    factors, total = _array("factors", float32, lanes, AccessMode.CONST), _array("total", float32, max(1, width))
    seed, state = _array("seed", uint32, 1), _local("state", uint32, 1)
    factor, sums = _local("factor", float32, lanes), _local("sums", float32, max(1, width))

    def multiply(cell: Affine) -> Stmt:
        value = _load(factor, cell - (cell.const - cell.const % lanes))
        return Update(_cell(sums, cell), ADD, Apply(MUL, (value, value)))

    body = (
        Local(factor), *_copy(factor, factors, lanes), Local(sums), *_copy(sums, total, lanes),
        Local(state), Store(_cell(state, 0), _load(seed, 0)),
        _counted(step, steps, *_vectors("multiply", lanes, width, multiply), *([_advance(state)] if chained else [])),
        *_copy(total, sums, lanes), Store(_cell(seed, 0), _load(state, 0)),
    )  # fmt: skip
    return _proc(name, (factors, total, seed), (steps,), *body)


def _advance(state: Buf) -> Stmt:
    product = Apply(MUL, (_load(state, 0), Const(_MULTIPLIER, uint32)))
    return Store(_cell(state, 0), Apply(ADD, (product, Const(_INCREMENT, uint32))))


def _proc(name: str, bufs: tuple[Buf, ...], syms: tuple[Sym, ...], *body: Stmt) -> Proc:
    return Proc(name, bufs, syms, (loop(Sym("once", 0, 0), body),))


def _static(name: str) -> Sym:
    return Sym(name, 0, _COUNT_LIMIT, SymKind.STATIC)


def _array(name: str, precision: Precision, size: int, access: AccessMode = AccessMode.INOUT) -> Buf:
    return Buf(name, precision, (size,), row_major((size,)), MemorySpace.GLOBAL, access)


def _local(name: str, precision: Precision, size: int) -> Buf:
    return Buf(name, precision, (size,), row_major((size,)), MemorySpace.LOCAL, AccessMode.TEMP)


def _cell(buf: Buf, index: Affine | Sym | int) -> Ref:
    return Ref(buf, (Affine.of(index),))


def _load(buf: Buf, index: Affine | Sym | int) -> Expr:
    return Load(_cell(buf, index))


def _range(count: Sym | int) -> tuple[Bound, Bound]:
    return Bound.lower(0), Bound.upper(Affine.of(count))


def _counted(sym: Sym, count: Sym, *body: Stmt) -> For:
    return For(sym, *_range(count), body)


def _zeros(buf: Buf, lanes: int) -> tuple[Stmt, ...]:
    return Local(buf), *_vectors(
        f"{buf}_start", lanes, buf.size, lambda cell: Store(_cell(buf, cell), Const(0.0, float32))
    )


def _copy(target: Buf, source: Buf, lanes: int) -> tuple[Stmt, ...]:
    size = min(target.size, source.size)
    return _vectors(f"{target}_copy", lanes, size, lambda cell: Store(_cell(target, cell), _load(source, cell)))


def _vectors(name: str, lanes: int, size: int, statement: Callable[[Affine], Stmt]) -> tuple[Stmt, ...]:
    """Returns a vectorized loop for every `lanes` of `size` cells."""
    loops = []
    for first in range(0, size - lanes + 1, lanes):
        lane = Sym(f"{name}_{first}", 0, lanes - 1)
        loops.append(loop(lane, (statement(Affine.of(lane) + first),), mode=Mode.VECTORIZED))
    return tuple(loops)
