"""Puts cheap producers into their readers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from ocannl.ir.index import Affine, Sym
from ocannl.ir.loops import Buf, Cast, Expr, MemorySpace, Load, Proc, Ref, Store, Update, When
from ocannl.ir.projections import is_injective
from ocannl.ir.walk import walk
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.cost import cost
from ocannl.opt.analysis.nests import Nest, AccessTable, unit_covering_loops, loads, nest_of, same_objects, covering_loops, with_leaf
from ocannl.opt.analysis.substitution import map_expr, substitute
from ocannl.opt.simplify.simplify import simplify_expr


def inline_producers(proc: Proc, shares: bool) -> Proc:
    """Replaces reads of a temporary by the value that its one nest computes; `eliminate_dead_code` then finds the nest dead.

        proc step                        proc step
          x : f32[5]  in                   x : f32[5]  in
          t : f32[5]  arena                t : f32[5]  arena
          y : f32[3]  out                  y : f32[3]  out
          for i in 0..5:           ==>     for i in 0..5:
            t[i] = relu(x[i])                t[i] = relu(x[i])
          for i_2 in 0..3:                 for i_2 in 0..3:
            y[i_2] = t[i_2+2] * 2            y[i_2] = relu(x[i_2+2]) * 2

    All readers take the value, or none; where all cells are written again later, those before that. Nothing is computed
    more often than its temporary has cells, unless it is free (a number, an index, a copy without a guard); several
    readers take what is cheap, a single one anything. Sums never move, nor does the rounding of one: who sums rounds,
    and only the narrow array is kept.
    `shares` says that `eliminate_common_subexpressions` will see to it that a reader computes what it mentions twice only once.
    Goes through the program once: what is put into a producer moves on with it.
    """
    table = AccessTable(proc.body)
    nests = [nest_of(stmt) for stmt in proc.body]
    moving: dict[Buf, Nest] = {}
    body = list(proc.body)
    for at, nest in enumerate(nests):
        if nest is None:
            continue
        value = _insert(nest.leaf.value, moving)
        if value is not nest.leaf.value:
            leaf = replace(nest.leaf, value=simplify_expr(value, nest.cond))
            body[at] = with_leaf(body[at], leaf)
            nest = replace(nest, leaf=leaf)
        moving.pop(nest.leaf.ref.buf, None)
        if _may_move(nest, at, table, nests, shares):
            moving[nest.leaf.ref.buf] = nest
    return proc if same_objects(body, proc.body) else replace(proc, body=tuple(body))


def _insert(value: Expr, moving: Mapping[Buf, Nest]) -> Expr:
    def leaf(node: Expr) -> Expr:
        if isinstance(node, Load) and node.ref.buf in moving:
            producer = moving[node.ref.buf]
            return substitute(producer.leaf.value, matching(producer.leaf.ref, node.ref))
        return node

    return map_expr(value, leaf) if moving else value


def matching(written: Ref, read: Ref) -> dict[Sym, Affine]:
    """What the loops around a write must be for it to hit the cell that is read."""
    return {w.terms[0][1]: r for w, r in zip(written.indices, read.indices, strict=True) if w.terms}


def _may_move(nest: Nest, at: int, table: AccessTable, nests: Sequence[Nest | None], shares: bool) -> bool:
    leaf, buf = nest.leaf, nest.leaf.ref.buf
    readers = table.readers.get(buf)
    if buf.space is not MemorySpace.ARENA or isinstance(leaf, Update) or not readers or _is_rounded(leaf.value):
        return False
    writers = table.writers[buf]
    following = writers[bisect_right(writers, at)] if writers[-1] != at else len(nests)
    if following < len(nests) and not _renews(nests[following]):
        return False
    if any(ref.buf is buf for ref in loads(leaf.value)):  # perhaps by what was put into it
        return False
    if not nest.cond.is_true or unit_covering_loops(leaf.ref, nest.loops) != {loop.sym for loop in nest.loops}:
        return False
    readers = readers[bisect_left(readers, at) : bisect_right(readers, following)]  # others see what others wrote
    taking = [reader for reader in (nests[r] for r in readers) if reader is not None]
    if not readers or len(taking) < len(readers):
        return False
    return _pays(nest, taking, shares) and all(
        _sees_same(nest, reader, at, r, table) for r, reader in zip(readers, taking, strict=True)
    )


def _renews(nest: Nest | None) -> bool:
    """Whether each cell is written once, so that the array has nothing left of what it held."""
    if nest is None or not isinstance(nest.leaf, Store) or not nest.cond.is_true:
        return False
    return covering_loops(nest.leaf.ref, nest.loops) == {loop.sym for loop in nest.loops}


def _is_rounded(value: Expr) -> bool:
    """Whether it is a cell of another temporary in a narrower type."""
    match value:
        case Cast(Load(ref), precision):
            return ref.buf.space is MemorySpace.ARENA and precision.nbytes < ref.buf.precision.nbytes
    return False


def _pays(nest: Nest, readers: Sequence[Nest], shares: bool) -> bool:
    price = cost(nest.leaf.value)
    if price.nodes > machine.MAX_EXPR_NODES:
        return False
    if price.work == 0 and not _is_guarded(nest.leaf.value):
        return True
    buf = nest.leaf.ref.buf
    if len(readers) > 1 and any(_is_copy(reader, buf) for reader in readers):
        return False  # the copy is free to move on instead
    if any(reader.iterations > prod(buf.shape) for reader in readers):
        return False
    uses = [(n, ref.indices) for n, reader in enumerate(readers) for ref in loads(reader.leaf.value) if ref.buf is buf]
    return len(set(uses) if shares else uses) == 1 or cost(nest.leaf.value, shares).work <= machine.MAX_RECOMPUTED_OPS


def _is_guarded(value: Expr) -> bool:
    """Whether a condition picks what is read: products in tiles do without."""
    return any(isinstance(node, When) and loads(node) for node in walk(value))


def _is_copy(nest: Nest, buf: Buf) -> bool:
    value = nest.leaf.value
    is_load = isinstance(value, Load) and value.ref.buf is buf
    return is_load and isinstance(nest.leaf, Store) and nest.leaf.ref.buf.space is MemorySpace.ARENA


def _sees_same(nest: Nest, reader: Nest, at: int, reader_at: int, table: AccessTable) -> bool:
    """Whether everything the producer reads still holds the same where the reader would read it."""
    target = reader.leaf.ref
    for read in loads(nest.leaf.value):
        if table.written_between(read.buf, at, reader_at):
            return False
        if read.buf is target.buf:
            # the reader overwrites it: harmless if each iteration reads no other cell than the one it writes
            if not is_injective(target.indices, tuple([loop.sym for loop in reader.loops])):
                return False
            for use in loads(reader.leaf.value):
                if use.buf is nest.leaf.ref.buf:
                    values = matching(nest.leaf.ref, use)
                    if tuple([place.substitute(values) for place in read.indices]) != target.indices:
                        return False
    return True
