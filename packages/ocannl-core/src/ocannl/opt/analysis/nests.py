"""Loop nests: decomposition and construction of perfect nests, and which statements access which buffers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import is_

from ocannl.ir.affine import TRUE, Affine, Bound, Cond, Sym
from ocannl.ir.cached_analyses import cached_on_argument
from ocannl.ir.loops import (
    Apply,
    BindIndex,
    Body,
    Buf,
    Expr,
    For,
    If,
    Let,
    Load,
    Local,
    MemorySpace,
    Proc,
    Ref,
    Stmt,
    Store,
    Update,
    is_full,
)
from ocannl.ir.walk import CHILDREN, Node


@dataclass(frozen=True, slots=True)
class PerfectNest:
    """A perfect nest: loops around a single store or update; `cond` is the conjunction of the guards between them."""

    loops: tuple[For, ...]
    cond: Cond
    leaf: Store | Update

    @property
    def iterations(self) -> int:
        count = 1
        for loop in self.loops:
            count *= loop.sym.extent
        return count


def nest_of(stmt: Stmt) -> PerfectNest | None:
    """Returns the statement as a perfect nest, or None if it is none."""
    loops: list[For] = []
    cond = TRUE
    while True:
        match stmt:
            case For(body=(inner,)):
                loops.append(stmt)
                stmt = inner
            case If(guard, (inner,), ()):
                cond = cond & guard
                stmt = inner
            case Store() | Update():
                return PerfectNest(tuple(loops), cond, stmt)
            case _:
                return None


def with_leaf(stmt: Stmt, leaf: Store | Update) -> Stmt:
    """Returns the perfect or indirect nest `stmt` with its store or update replaced by `leaf`."""
    match stmt:
        case For(body=(inner,)):
            return For(stmt.sym, stmt.lo, stmt.hi, (with_leaf(inner, leaf),), stmt.step, stmt.origin)
        case If(guard, (inner,), ()):
            return If(guard, (with_leaf(inner, leaf),))
        case BindIndex(sym, value, (inner,)):
            return BindIndex(sym, value, (with_leaf(inner, leaf),))
        case _:
            return leaf


def wrap_in_loops(loops: Sequence[For], cond: Cond, body: Body) -> Body:
    """Wraps `body` in the loops and tests each fact of `cond` at the outermost level where its symbols are bound."""
    if not loops:
        return body if cond.is_true else (If(cond, body),)
    invariant, varying = split_condition(cond, [loop.sym for loop in loops])
    nest = replace(loops[0], body=wrap_in_loops(loops[1:], varying, body))
    return (nest,) if invariant.is_true else (If(invariant, (nest,)),)


def wrap_with_bounds(loops: Sequence[For], cond: Cond, body: Body) -> Body:
    """As `wrap_in_loops`, with each inequality turned into a bound of the innermost loop that it depends on."""
    if not loops:
        return body if cond.is_true else (If(cond, body),)
    first, *inner_loops = loops
    inner = [loop.sym for loop in inner_loops]
    invariant, varying = split_condition(cond, [first.sym, *inner])
    bounding, varying = split_condition(varying, inner)
    lower, upper = list(first.lo.quotients), list(first.hi.quotients)
    for fact in bounding.ge0:
        coef = fact.coef(first.sym)
        offset = fact - Affine(((coef, first.sym),))
        (lower if coef > 0 else upper).append((-offset if coef > 0 else offset, abs(coef)))
    equations = Cond((), bounding.eq0)
    inner_body = wrap_with_bounds(inner_loops, varying & equations, body)
    nest = replace(first, lo=_lower_bound(lower), hi=_upper_bound(upper), body=inner_body)
    return (nest,) if invariant.is_true else (If(invariant, (nest,)),)


def _lower_bound(bounds: list[tuple[Affine, int]]) -> Bound:
    """Returns the maximum of the bounds; constant bounds are merged, and omitted if another bound implies them."""
    constant = max([-(-index.const // div) for index, div in bounds if index.is_const], default=None)
    variable = [(index, div) for index, div in bounds if not index.is_const]
    if constant is None or any(-(-index.range()[0] // div) >= constant for index, div in variable):
        return Bound(tuple(variable))
    return Bound(((Affine((), constant), 1), *variable))


def _upper_bound(bounds: list[tuple[Affine, int]]) -> Bound:
    """Returns the minimum of the bounds, simplified as in `_lower_bound`."""
    constant = min([index.const // div for index, div in bounds if index.is_const], default=None)
    variable = [(index, div) for index, div in bounds if not index.is_const]
    if constant is None or any(index.range()[1] // div <= constant for index, div in variable):
        return Bound(tuple(variable))
    return Bound(((Affine((), constant), 1), *variable))


def loops_in_order(loops: Sequence[For], syms: Sequence[Sym]) -> list[For]:
    """Returns the loops over the given symbols, in the order of the symbols."""
    by_sym = {loop.sym: loop for loop in loops}
    return [by_sym[sym] for sym in syms]


def split_condition(cond: Cond, syms: Sequence[Sym]) -> tuple[Cond, Cond]:
    """Splits a condition into the facts that do not depend on `syms` and the facts that do."""

    def select(facts: tuple[Affine, ...], depends: bool) -> tuple[Affine, ...]:
        return tuple([f for f in facts if any(s in syms for s in f.syms) is depends])

    return Cond(select(cond.ge0, False), select(cond.eq0, False)), Cond(select(cond.ge0, True), select(cond.eq0, True))


def as_statement(body: Body) -> Stmt:
    """Returns the body as a single statement; several statements are wrapped in a guard that limits their scope."""
    return body[0] if len(body) == 1 else If(TRUE, body)


def is_parallel_loop(stmt: Stmt) -> bool:
    """Whether the statement is a hoisted parallel loop, which no other loop may enclose."""
    return isinstance(stmt, For) and stmt.parallel_chunk > 0


def loads(expr: Expr) -> list[Ref]:
    """Returns the cells that the expression may read, left to right, with repetitions."""
    refs: list[Ref] = []
    stack: list[Node] = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Load):
            refs.append(node.ref)
        elif isinstance(node, Apply):
            stack.extend(node.args[::-1])
        elif (below := CHILDREN.get(type(node))) is not None:
            stack.extend(below(node)[::-1])
    return refs


def leaves(body: Body) -> Iterator[Store | Update | Let | Local | BindIndex]:
    """Yields the statements inside loops and guards in program order; a `BindIndex` precedes its body."""
    stack = list(reversed(body))
    while stack:
        match stack.pop():
            case For(body=inner):
                stack.extend(reversed(inner))
            case If(_, on_true, on_false):
                stack.extend(reversed(on_true + on_false))
            case BindIndex(_, _, inner) as pick:
                yield pick
                stack.extend(reversed(inner))
            case Store() | Update() | Let() | Local() as leaf:
                yield leaf
            case _:
                pass


def accessed_buffers(stmt: Stmt) -> tuple[tuple[Buf, ...], tuple[Buf, ...]]:
    """Returns the buffers a statement reads and writes; the target of an update counts as a write only."""
    return _buffers_of_loop(stmt) if isinstance(stmt, For) else _buffers_of(stmt)


def accessed_arrays(stmt: Stmt) -> tuple[tuple[Buf, ...], tuple[Buf, ...]]:
    """Returns the buffers a statement reads and writes, except those that it declares."""
    read, written = accessed_buffers(stmt)
    declared = {leaf.buf for leaf in leaves((stmt,)) if isinstance(leaf, Local)}
    if not declared:
        return read, written
    return tuple([buf for buf in read if buf not in declared]), tuple([buf for buf in written if buf not in declared])


def _buffers_of(stmt: Stmt) -> tuple[tuple[Buf, ...], tuple[Buf, ...]]:
    read: dict[Buf, None] = {}
    written: dict[Buf, None] = {}
    for leaf in leaves((stmt,)):
        match leaf:
            case Store(ref, value) | Update(ref, _, value):
                written[ref.buf] = None
                for cell in loads(value):
                    read[cell.buf] = None
            case Let(_, value) | BindIndex(_, value, _):
                for cell in loads(value):
                    read[cell.buf] = None
            case Local():
                pass
    return tuple(read), tuple(written)


@cached_on_argument
def _buffers_of_loop(loop: For) -> tuple[tuple[Buf, ...], tuple[Buf, ...]]:
    return _buffers_of(loop)


def bound_names(proc: Proc) -> Iterator[str]:
    """Yields the names of all buffers, symbols and locals of the program, and the reserved ones."""
    yield from proc.reserved
    yield from (buf.name for buf in proc.bufs)
    yield from (sym.name for sym in proc.syms)
    for stmt in proc.body:
        yield from _names_in_loop(stmt) if isinstance(stmt, For) else _names_in((stmt,))


@cached_on_argument
def _names_in_loop(loop: For) -> tuple[str, ...]:
    return (loop.sym.name, *_names_in(loop.body))


def _names_in(body: Body) -> Iterator[str]:
    stack: list[Body] = [body]
    while stack:
        for stmt in stack.pop():
            match stmt:
                case For(sym, _, _, body):
                    yield sym.name
                    stack.append(body)
                case If(_, on_true, on_false):
                    stack += (on_true, on_false)
                case BindIndex(sym, _, body):
                    yield sym.name
                    stack.append(body)
                case Let(name, _):
                    yield name
                case Local(buf):
                    yield buf.name
                case _:
                    pass


def writes_kept_buffer(stmt: Stmt) -> bool:
    """Whether the statement writes a buffer that is visible to the caller, even an empty one."""
    return any(buf.space is MemorySpace.GLOBAL for buf in accessed_buffers(stmt)[1])


def same_objects(new: Sequence[object], old: Sequence[object]) -> bool:
    """Whether two sequences contain the same objects, compared by identity."""
    return len(new) == len(old) and all(map(is_, new, old))


class AccessTable:
    """Maps each buffer to the ascending positions of the statements that read it and that write it."""

    __slots__ = ("readers", "writers")

    def __init__(self, body: Body) -> None:
        self.readers: dict[Buf, list[int]] = {}
        self.writers: dict[Buf, list[int]] = {}
        for position, stmt in enumerate(body):
            read, written = accessed_buffers(stmt)
            for buf in read:
                self.readers.setdefault(buf, []).append(position)
            for buf in written:
                self.writers.setdefault(buf, []).append(position)

    def written_between(self, buf: Buf, first: int, last: int) -> bool:
        """Whether a statement strictly between the positions `first` and `last` writes the buffer."""
        return any_between(self.writers.get(buf, ()), first, last)

    def read_between(self, buf: Buf, first: int, last: int) -> bool:
        return any_between(self.readers.get(buf, ()), first, last)


def any_between(positions: Sequence[int], first: int, last: int) -> bool:
    """Whether one of the ascending positions lies strictly between two others."""
    return bisect_left(positions, last) > bisect_right(positions, first)


def covers_buffer(nest: PerfectNest) -> bool:
    """Whether the nest writes every cell of its buffer unconditionally."""
    if not nest.cond.is_true or not all(is_full(loop) for loop in nest.loops):
        return False
    if any(loop.sym.extent == 0 for loop in nest.loops):
        return 0 in nest.leaf.ref.buf.shape
    return covering_loops(nest.leaf.ref, nest.loops) is not None


def covering_loops(ref: Ref, loops: Sequence[For]) -> set[Sym] | None:
    """Returns the loops over which `ref` is a bijection onto the cells of its buffer, or None if it is none.

    Every index must be a mixed-radix number whose digits are full loops, and every loop a digit of one index at most.
    """
    full = {loop.sym for loop in loops if is_full(loop)}
    used: set[Sym] = set()
    for index, size in zip(ref.indices, ref.buf.shape, strict=True):
        radix, start = 1, index.const
        for coef, sym in sorted(index.terms, key=lambda t: t[0]):
            if sym not in full or sym in used or coef != radix:
                return None
            used.add(sym)
            radix *= sym.extent
            start += coef * sym.lo
        if start != 0 or radix != size:
            return None
    return used


def unit_covering_loops(ref: Ref, loops: Sequence[For]) -> set[Sym] | None:
    """As `covering_loops`, where every index must also be a single symbol, or constant if its axis has size 1."""
    is_single = all(index.only_sym is not None or index.is_const for index in ref.indices)
    return covering_loops(ref, loops) if is_single else None
