"""Inlines cheap producers into their consumers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from math import prod

from ocannl.ir.affine import TRUE, Affine, Sym
from ocannl.ir.loops import Buf, Cast, Expr, Load, MemorySpace, Proc, Ref, Stmt, Store, Update, When
from ocannl.ir.name_mangling import Namer
from ocannl.ir.projections import is_injective
from ocannl.ir.walk import walk
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.expression_cost import cost, shared_cost
from ocannl.opt.analysis.guarded_reads import guarded_reads, iterations_of_guard
from ocannl.opt.analysis.indirect_nests import indirect_nest_of
from ocannl.opt.analysis.nests import (
    AccessTable,
    PerfectNest,
    bound_names,
    covering_loops,
    loads,
    nest_of,
    same_objects,
    unit_covering_loops,
    with_leaf,
)
from ocannl.opt.analysis.substitution import map_expr, substitute
from ocannl.opt.fusion.split_reader_loops import digits_of, has_merged_axes, merges_equally, split_loops
from ocannl.opt.simplify.simplify import simplify_expr


def inline_producers(proc: Proc, has_cse: bool) -> Proc:
    """Replaces loads of a temporary by the value that its nest computes; `eliminate_dead_code` removes the nest.

        proc step                        proc step
          x : f32[5]  in                   x : f32[5]  in
          t : f32[5]  arena                t : f32[5]  arena
          y : f32[3]  out                  y : f32[3]  out
          for i in 0..5:           ==>     for i in 0..5:
            t[i] = relu(x[i])                t[i] = relu(x[i])
          for i_2 in 0..3:                 for i_2 in 0..3:
            y[i_2] = t[i_2+2] * 2            y[i_2] = relu(x[i_2+2]) * 2

    A value is inlined into all readers or into none; if all cells are overwritten later, into those before that write.
    No value is computed more often than its temporary has cells, unless it is free (a constant, an index, an unguarded
    copy). Several readers recompute only cheap values, a single reader any, if it uses the value once in an iteration,
    or guards along short loops select one of several uses. Reductions are never inlined, nor are casts of their results
    to a narrower type: the producer rounds, and only the narrow array is stored. For the same reason, a value is not
    inlined into a cast to a wider type that reductions read more often than it has cells.
    Loops of readers are split where several loops of the producer run over an axis; see `split_loops`. Gathers are
    readers as well: they compute the values of the cells that they read.
    With `has_cse`, `eliminate_common_subexpressions` runs later, so that equal uses within one reader count once.
    The pass is a single traversal: values inlined into a producer are inlined further with it.
    """
    body, names = list(proc.body), Namer(bound_names(proc))
    region = _Region(proc.body, has_cse)
    inlinable: dict[Buf, PerfectNest] = {}
    for position, reader in enumerate(region.readers):
        if reader is None:
            continue
        value = _inline_reads(reader.leaf.value, inlinable)
        if value is not reader.leaf.value:
            leaf = replace(reader.leaf, value=simplify_expr(value, reader.cond))
            body[position] = with_leaf(body[position], leaf)
            region.update(position, body[position])
        inlinable.pop(reader.leaf.ref.buf, None)
        nest = region.nests[position]
        if nest is None:
            continue
        if has_merged_axes(nest):
            for reader_position, stmt in _split_readers(nest, position, region, body, names).items():
                body[reader_position] = stmt
                region.update(reader_position, stmt)
        if _can_inline(nest, position, region):
            inlinable[nest.leaf.ref.buf] = nest
    return proc if same_objects(body, proc.body) else replace(proc, body=tuple(body))


class _Region:
    """The statements of a region as perfect nests. `readers` are these nests, and gathers without their loaded indices;
    `index_bufs` are the buffers that loaded indices are read from."""

    def __init__(self, body: Sequence[Stmt], has_cse: bool) -> None:
        self.table = AccessTable(tuple(body))
        self.has_cse = has_cse
        self.nests: list[PerfectNest | None] = [None] * len(body)
        self.readers: list[PerfectNest | None] = [None] * len(body)
        self.index_bufs: set[Buf] = set()
        for position, stmt in enumerate(body):
            self.update(position, stmt)

    def update(self, position: int, stmt: Stmt) -> None:
        """Replaces a statement by another one that reads and writes the same buffers, or fewer."""
        self.nests[position] = self.readers[position] = nest_of(stmt)
        gather = indirect_nest_of(stmt)
        if gather is not None and gather.is_gather:
            self.readers[position] = PerfectNest(gather.loops, TRUE, gather.leaf)
            self.index_bufs.update(ref.buf for ref in gather.index_reads)

    def with_statements(self, stmts: Mapping[int, Stmt]) -> _Region:
        """Returns a copy with statements replaced, as by `update`."""
        region = copy(self)
        region.nests, region.readers, region.index_bufs = list(self.nests), list(self.readers), set(self.index_bufs)
        for position, stmt in stmts.items():
            region.update(position, stmt)
        return region

    def is_gather(self, position: int) -> bool:
        return self.readers[position] is not self.nests[position]


def _split_readers(nest: PerfectNest, at: int, region: _Region, body: Sequence[Stmt], names: Namer) -> dict[int, Stmt]:
    """Returns the readers with their loops over merged axes split, by position, if the value can then be inlined."""
    split: dict[int, Stmt] = {}
    for position in region.table.readers.get(nest.leaf.ref.buf, ()):
        reader = split_loops(nest.leaf.ref, body[position], names)
        if reader is None:
            return {}
        split[position] = reader
    return split if _can_inline(nest, at, region.with_statements(split)) else {}


def _inline_reads(value: Expr, inlinable: Mapping[Buf, PerfectNest]) -> Expr:
    def leaf(node: Expr) -> Expr:
        if isinstance(node, Load) and node.ref.buf in inlinable:
            producer = inlinable[node.ref.buf]
            return substitute(producer.leaf.value, match_indices(producer.leaf.ref, node.ref))
        return node

    return map_expr(value, leaf) if inlinable else value


def match_indices(written: Ref, read: Ref) -> dict[Sym, Affine]:
    """Values of the loop symbols around a write for which it writes the cell that is read."""
    values: dict[Sym, Affine] = {}
    for index, at in zip(written.indices, read.indices, strict=True):
        if len(index.terms) == 1:
            values[index.terms[0][1]] = at
        elif index.terms:  # of merged loops, which the reader merges too
            pairs = zip(digits_of(index), digits_of(at), strict=True)
            values.update((loop, Affine.of(sym)) for (_, loop), (_, sym) in pairs)
    return values


def _can_inline(nest: PerfectNest, at: int, region: _Region) -> bool:
    leaf, buf, table = nest.leaf, nest.leaf.ref.buf, region.table
    positions = table.readers.get(buf)
    if buf.space is not MemorySpace.ARENA or isinstance(leaf, Update) or not positions or buf in region.index_bufs:
        return False
    if _is_narrowing_cast(leaf.value):
        return False
    writers = table.writers[buf]
    following = writers[bisect_right(writers, at)] if writers[-1] != at else len(region.nests)
    if following < len(region.nests) and not _overwrites_array(region.nests[following]):
        return False
    if any(ref.buf is buf for ref in loads(leaf.value)):  # possibly by an inlined value
        return False
    is_unit = unit_covering_loops(leaf.ref, nest.loops) == {loop.sym for loop in nest.loops}
    if not nest.cond.is_true or not (is_unit or has_merged_axes(nest)):
        return False
    positions = positions[
        bisect_left(positions, at) : bisect_right(positions, following)
    ]  # later ones see a later write
    readers = {position: reader for position in positions if (reader := region.readers[position]) is not None}
    if not positions or len(readers) < len(positions):
        return False
    reads = [ref for reader in readers.values() for ref in loads(reader.leaf.value) if ref.buf is buf]
    if not all(merges_equally(leaf.ref, ref) for ref in reads):
        return False
    if cost(leaf.value).work and any(_is_widening_for_reductions(reader, region) for reader in readers.values()):
        return False
    return _is_profitable(nest, readers, region) and all(
        _reads_same_values(nest, reader, at, position, table) for position, reader in readers.items()
    )


def _overwrites_array(nest: PerfectNest | None) -> bool:
    """Whether the nest writes every cell of the array once and unconditionally."""
    if nest is None or not isinstance(nest.leaf, Store) or not nest.cond.is_true:
        return False
    return covering_loops(nest.leaf.ref, nest.loops) == {loop.sym for loop in nest.loops}


def _is_narrowing_cast(value: Expr) -> bool:
    """Whether the value is a load from a temporary, cast to a narrower type."""
    match value:
        case Cast(Load(ref), precision):
            return ref.buf.space is MemorySpace.ARENA and precision.nbytes < ref.buf.precision.nbytes
    return False


def _is_widening_for_reductions(nest: PerfectNest, region: _Region) -> bool:
    """Whether the nest stores a cast to a wider type, and its readers are reductions which read each cell often."""
    match nest.leaf:
        case Store(Ref(wide), Cast(Load(narrow), precision)) if precision.nbytes > narrow.buf.precision.nbytes:
            readers = [region.nests[n] for n in region.table.readers.get(wide, ())]
            return wide.space is MemorySpace.ARENA and all(
                reader is not None and isinstance(reader.leaf, Update) and reader.iterations > prod(wide.shape)
                for reader in readers
            )
    return False


def _is_profitable(nest: PerfectNest, readers: Mapping[int, PerfectNest], region: _Region) -> bool:
    value_cost = cost(nest.leaf.value)
    if value_cost.nodes > machine.MAX_EXPR_NODES:
        return False
    buf = nest.leaf.ref.buf
    if value_cost.work == 0 and not _is_guarded(nest.leaf.value):
        # copies that merge axes stay: products, which read cells often, and several readers gain from their order
        return not has_merged_axes(nest) or sum(reader.iterations for reader in readers.values()) <= prod(buf.shape)
    if len(readers) > 1 and any(_is_copy(reader, buf) for reader in readers.values()):
        return False  # the copy is free to move on instead
    computed_cost = shared_cost(nest.leaf.value) if region.has_cse else value_cost
    is_cheap = computed_cost.work <= machine.MAX_RECOMPUTED_OPS
    for position, reader in readers.items():
        cycles = 1 if is_cheap or not region.is_gather(position) else machine.GATHERED_VALUE_CYCLES
        if reader.iterations * cycles > prod(buf.shape):
            return False
    uses = [(n, ref.indices) for n, reader in readers.items() for ref in loads(reader.leaf.value) if ref.buf is buf]
    return is_cheap or len(set(uses) if region.has_cse else uses) == 1 or _are_uses_exclusive(nest, readers)


def _are_uses_exclusive(nest: PerfectNest, readers: Mapping[int, PerfectNest]) -> bool:
    """Whether guards along short loops select the uses, so that they compute no more values than the temporary has
    cells. Along contiguous cells, vectors become strided: only values without elementary functions are computed so."""
    buf, count = nest.leaf.ref.buf, 0
    is_light = cost(nest.leaf.value).work <= machine.MAX_STRIDED_OPS
    for reader in readers.values():
        syms = [loop.sym for loop in reader.loops]
        contiguous = {sym for sym in syms if reader.leaf.ref.stride(sym) == 1}
        for ref, guard in guarded_reads(reader.leaf.value):
            if ref.buf is not buf:
                continue
            iterations = iterations_of_guard(syms, guard)
            if iterations is None or not (is_light or contiguous.isdisjoint(guard.syms)):
                return False
            count += iterations
    return count <= prod(buf.shape)


def _is_guarded(value: Expr) -> bool:
    """Whether a load is guarded by a condition, which register tiles of products cannot handle."""
    return any(isinstance(node, When) and loads(node) for node in walk(value))


def _is_copy(nest: PerfectNest, buf: Buf) -> bool:
    value = nest.leaf.value
    is_load = isinstance(value, Load) and value.ref.buf is buf
    return is_load and isinstance(nest.leaf, Store) and nest.leaf.ref.buf.space is MemorySpace.ARENA


def _reads_same_values(nest: PerfectNest, reader: PerfectNest, at: int, reader_at: int, table: AccessTable) -> bool:
    """Whether every operand of the producer is unmodified at the reader."""
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
                    values = match_indices(nest.leaf.ref, use)
                    if read.substitute(values).indices != target.indices:
                        return False
    return True
