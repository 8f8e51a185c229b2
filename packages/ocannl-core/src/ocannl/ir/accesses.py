"""What statements touch, and whether iterations of a loop touch the same cells: as far as indices tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ocannl.ir.index import Affine, Sym, SymKind
from ocannl.ir.loops import AccessMode, Body, Buf, Expr, For, Load, Local, MemorySpace, ReadClock, Ref, Store, Update
from ocannl.ir.ops import Op
from ocannl.ir.walk import walk

VECTORS = (16, 32, 64)  # bytes of those that processors write to memory at once


@dataclass(frozen=True, slots=True)
class Access:
    """One access: `op` is that of an `Update`; `writes` is false for a load."""

    ref: Ref
    writes: bool
    op: Op | None = None


def touches(body: Body) -> list[Access]:
    """Every access to memory that the statements share with others."""
    found: list[Access] = []
    private: set[Buf] = set()
    for node in walk(body):
        match node:
            case Store(ref) | ReadClock(ref):
                found.append(Access(ref, True))
            case Update(ref, op, _):
                found.append(Access(ref, True, op))
            case Load(ref):
                found.append(Access(ref, False))
            case Local(buf):
                private.add(buf)
            case _:
                pass
    return [t for t in found if t.ref.buf not in private]


def loads(value: Expr) -> Iterator[Access]:
    return (Access(e.ref, False) for e in walk(value) if isinstance(e, Load))


def always_in_bounds(ref: Ref) -> bool:
    """Whether the cell exists whatever values symbols have."""
    ranges = (index.range() for index in ref.indices)
    return all(low >= 0 and high < size for (low, high), size in zip(ranges, ref.buf.shape, strict=True))


def is_aligned(ref: Ref, lanes: For) -> bool:
    """That the cells of all lanes are one vector in memory, at a multiple of its size, as all arrays are that lie in a
    pool or in the arena."""
    low, high = lanes.lo.constant, lanes.hi.constant
    if low is None or high is None or ref.buf.space is MemorySpace.LOCAL:
        return False
    count = high + 1 - low
    cells = Affine.sum((c * step, s) for at, step in zip(ref.indices, ref.buf.strides, strict=True) for c, s in at.terms)
    first = low + sum(at.const * step for at, step in zip(ref.indices, ref.buf.strides, strict=True))
    others = [coef for coef, sym in cells.terms if sym is not lanes.sym]
    whole = count * ref.buf.precision.nbytes in VECTORS
    return whole and cells.coef(lanes.sym) == 1 and not any(steps % count for steps in (first, *others))


def storage(buf: Buf) -> object:
    """What two arrays share that are the same memory: views of a node are all of it."""
    return buf if buf.node is None or buf.access is AccessMode.MERGE else buf.node


def has_no_loop_carried_dependence(touched: Iterable[Access], sym: Sym, outer: Sequence[Sym], *, sums: bool) -> bool:
    """That no iteration over `sym` touches what another one writes, the outer symbols being the same. With `sums`, what
    all of them only add to does not count."""
    groups: dict[object, list[Access]] = {}
    for touch in touched:
        groups.setdefault(storage(touch.ref.buf), []).append(touch)
    for group in groups.values():
        writes = [t for t in group if t.writes]
        if not writes or (sums and _only_adds(group)):
            continue
        if not all(_separates_iterations(sym, outer, w.ref, other.ref) for w in writes for other in group):
            return False
    return True


def _only_adds(group: Sequence[Access]) -> bool:
    op = group[0].op
    return op is not None and op.monoid and all(t.op is op and t.ref.buf is group[0].ref.buf for t in group)


def _separates_iterations(sym: Sym, outer: Sequence[Sym], one: Ref, other: Ref) -> bool:
    """That both are one cell only in the same iteration over `sym`."""
    if one.buf is not other.buf:
        return False
    pairs = list(zip(one.indices, other.indices, strict=True))
    return sym in determined_symbols([a for a, b in pairs if a == b], outer) or any(_steps_over(sym, outer, a, b) for a, b in pairs)


def _steps_over(sym: Sym, outer: Sequence[Sym], one: Affine, other: Affine) -> bool:
    """That a step of `sym` moves both indices further than all else can make up for."""
    step = one.coef(sym)
    if step == 0 or step != other.coef(sym):
        return False
    moves = [(c, s) for index in (one, -other) for c, s in index.terms if s is not sym]
    fixed = Affine.sum((c, s) for c, s in moves if s in outer or s.kind is not SymKind.LOOP)
    if fixed.terms or any(s.kind is SymKind.INDIRECT for _, s in moves):
        return False
    rest = [(c, s) for c, s in moves if s not in outer and s.kind is SymKind.LOOP]
    low = one.const - other.const + sum(min(c * s.lo, c * s.hi) for c, s in rest)
    high = one.const - other.const + sum(max(c * s.lo, c * s.hi) for c, s in rest)
    return max(-low, high) < abs(step)


def determined_symbols(at: Iterable[Affine], known: Iterable[Sym]) -> set[Sym]:
    """The symbols whose values follow from the values of the indices and of the known symbols.

    One index tells several symbols when they are its digits: each coefficient is larger than what all smaller ones
    can add up to.
    """
    known = set(known)  # static symbols are known as well
    found: set[Sym] = set()
    indices = list(at)
    while True:
        more: set[Sym] = set()
        for index in indices:
            if any(s.kind is SymKind.INDIRECT for s in index.syms):
                continue  # whatever it is
            terms = [(abs(c), s) for c, s in index.terms if s.kind is SymKind.LOOP and s not in known | found]
            reach = 0
            for coef, s in sorted(terms, key=lambda t: t[0]):
                if coef <= reach:
                    break
                reach += coef * max(0, s.extent - 1)
            else:
                more.update(s for _, s in terms)
        if not more:
            return found
        found |= more
