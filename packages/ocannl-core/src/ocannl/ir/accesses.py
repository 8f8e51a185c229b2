"""Memory accesses of statements, and a test for loop-carried dependences on affine indices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ocannl.ir.affine import Affine, Sym, SymKind
from ocannl.ir.cached_analyses import cached_on_argument
from ocannl.ir.loops import AccessMode, Body, Buf, Expr, For, Load, Local, MemorySpace, ReadClock, Ref, Store, Update
from ocannl.ir.ops import Op
from ocannl.ir.walk import walk

VECTOR_BYTES = (16, 32, 64)  # of vectors that processors store in one piece


class Access(NamedTuple):  # made in little more than half the time of a frozen dataclass, and very often
    """One access: `op` is that of an `Update`; `writes` is false for a load."""

    ref: Ref
    writes: bool
    op: Op | None = None

    @property
    def is_update(self) -> bool:
        return self.op is not None


_MEMORY_NODES = frozenset({Load, Store, ReadClock, Update, Local})


def memory_accesses(body: Body) -> Sequence[Access]:
    """All accesses to memory outside of the statements: those of their local buffers are left out. They are cached if
    the body is a single loop."""
    match body:
        case (For() as loop,):
            return _accesses_of_loop(loop)
        case _:
            return _accesses(body)


@cached_on_argument
def _accesses_of_loop(loop: For) -> tuple[Access, ...]:
    return _accesses(loop.body)


def _accesses(body: Body) -> tuple[Access, ...]:
    accesses: list[Access] = []
    private: set[Buf] = set()
    for node in walk(body):
        if type(node) in _MEMORY_NODES:  # few are
            match node:
                case Load(ref):
                    accesses.append(Access(ref, False))
                case Store(ref) | ReadClock(ref):
                    accesses.append(Access(ref, True))
                case Update(ref, op):
                    accesses.append(Access(ref, True, op))
                case Local(buf):
                    private.add(buf)
    return tuple([access for access in accesses if access.ref.buf not in private] if private else accesses)


def loads(value: Expr) -> Iterator[Access]:
    """All loads of an expression."""
    return (Access(e.ref, False) for e in walk(value) if isinstance(e, Load))


def always_in_bounds(ref: Ref) -> bool:
    """Whether the cell is in bounds for all values of the symbols."""
    ranges = (index.range() for index in ref.indices)
    return all(low >= 0 and high < size for (low, high), size in zip(ranges, ref.buf.shape, strict=True))


def is_aligned(ref: Ref, lanes: For) -> bool:
    """Whether the cells of all lanes form one vector in memory, aligned to its size. Arrays that are not local are
    aligned themselves."""
    low, high = lanes.lo.constant, lanes.hi.constant
    if low is None or high is None or ref.buf.space is MemorySpace.LOCAL:
        return False
    count = high + 1 - low
    address = ref.address
    strides = [coef for coef, sym in address.terms if sym is not lanes.sym]
    is_vector = count * ref.buf.precision.nbytes in VECTOR_BYTES and address.coef(lanes.sym) == 1
    return is_vector and not any(offset % count for offset in (low + address.const, *strides))


def alias_class(buf: Buf) -> object:
    """A key that buffers have in common if they may be the same memory: views of a node alias the node."""
    return buf if buf.node is None or buf.access is AccessMode.MERGE else buf.node


def has_no_loop_carried_dependence(accesses: Iterable[Access], sym: Sym, outer: Sequence[Sym], *, sums: bool) -> bool:
    """Whether no iteration over `sym` accesses a cell that another one writes, for fixed `outer` symbols. With `sums`,
    cells that all iterations accumulate into with one operation are no dependence."""
    groups: dict[object, list[Access]] = {}
    for access in accesses:
        groups.setdefault(alias_class(access.ref.buf), []).append(access)
    for group in groups.values():
        writes = [access for access in group if access.writes]
        if not writes or (sums and _only_accumulates(group)):
            continue
        if not all(_separates_iterations(sym, outer, write.ref, access.ref) for write in writes for access in group):
            return False
    return True


def _only_accumulates(group: Sequence[Access]) -> bool:
    op = group[0].op
    buf = group[0].ref.buf
    return op is not None and op.monoid and all(access.op is op and access.ref.buf is buf for access in group)


def _separates_iterations(sym: Sym, outer: Sequence[Sym], a: Ref, b: Ref) -> bool:
    """Whether both references denote one cell only within the same iteration over `sym`."""
    if a.buf is not b.buf:
        return False
    pairs = list(zip(a.indices, b.indices, strict=True))
    equal = [index for index, counterpart in pairs if index == counterpart]
    if sym.kind is SymKind.LOOP and any(index.only_sym is sym for index in equal):  # the common case
        return True
    return sym in determined_symbols(equal, outer) or any(_strides_apart(sym, outer, *pair) for pair in pairs)


def _strides_apart(sym: Sym, outer: Sequence[Sym], a: Affine, b: Affine) -> bool:
    """Whether a step of `sym` moves both indices further than all inner loops together."""
    step = a.coef(sym)
    if step == 0 or step != b.coef(sym):
        return False
    moves = [(c, s) for index in (a, -b) for c, s in index.terms if s is not sym]
    fixed = Affine.sum((c, s) for c, s in moves if s in outer or s.kind is not SymKind.LOOP)
    if fixed.terms or any(s.kind is SymKind.INDIRECT for _, s in moves):
        return False
    inner = [(c, s) for c, s in moves if s not in outer and s.kind is SymKind.LOOP]
    low = a.const - b.const + sum(min(c * s.lo, c * s.hi) for c, s in inner)
    high = a.const - b.const + sum(max(c * s.lo, c * s.hi) for c, s in inner)
    return max(-low, high) < abs(step)


def determined_symbols(indices: Iterable[Affine], fixed: Iterable[Sym]) -> set[Sym]:
    """The symbols whose values follow from the values of the indices and of the fixed symbols.

    An index determines several symbols if they are its digits: each coefficient exceeds the sum of all smaller terms.
    """
    fixed = set(fixed)  # like static symbols
    determined: set[Sym] = set()
    indices = list(indices)
    while True:
        digits: set[Sym] = set()
        for index in indices:
            if any(s.kind is SymKind.INDIRECT for s in index.syms):
                continue
            terms = [(abs(c), s) for c, s in index.terms if s.kind is SymKind.LOOP and s not in fixed | determined]
            reach = 0
            for coef, s in sorted(terms, key=lambda t: t[0]):
                if coef <= reach:
                    break
                reach += coef * max(0, s.extent - 1)
            else:
                digits.update(s for _, s in terms)
        if not digits:
            return determined
        determined |= digits
