"""Inlines casts into the loops that read them."""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.loops import AccessMode, Buf, Cast, Load, MemorySpace, Proc, Store, region_body
from ocannl.ir.walk import Node, rewrite
from ocannl.opt.analysis.expression_cost import cost
from ocannl.opt.analysis.nests import AccessTable, PerfectNest, nest_of, unit_covering_loops
from ocannl.opt.analysis.substitution import substitute
from ocannl.opt.fusion.inline_producers import match_indices


def inline_casts(proc: Proc) -> Proc:
    """Replaces loads of a temporary that is an input in a wider type, by casts of the input, if regions read it:

        proc step                        proc step
          x : i8[5]   in                   x : i8[5]   in
          t : i32[5]  arena                t : i32[5]  arena
          h : i32[5]  out                  h : i32[5]  out
          for i in 0..5:                   for i in 0..5:
            t[i] = i32(x[i])       ==>       t[i] = i32(x[i])
          sequential for s in 0..3:        sequential for s in 0..3:
            for j in 0..5:                   for j in 0..5:
              h[j] = t[j]                      h[j] = i32(x[j])

    A sequential loop then reads the narrow array in every iteration. `inline_producers` does not see other regions, and
    `eliminate_dead_code` removes the nest. Only casts that cost nothing, such as those of integers, are inlined.
    """
    table = AccessTable(proc.body)
    casts: dict[Buf, PerfectNest] = {}
    for position, stmt in enumerate(proc.body):
        nest = nest_of(stmt)
        if nest is not None and _is_free_cast_of_input(nest, table):
            buf = nest.leaf.ref.buf
            readers = [proc.body[n] for n in table.readers.get(buf, ())]
            if any(region_body(reader) is not None for reader in readers) and table.writers[buf] == [position]:
                casts[buf] = nest

    def rule(node: Node) -> Node:
        if isinstance(node, Load) and node.ref.buf in casts:
            leaf = casts[node.ref.buf].leaf
            return substitute(leaf.value, match_indices(leaf.ref, node.ref))
        return node

    return replace(proc, body=tuple([rewrite(stmt, rule) for stmt in proc.body])) if casts else proc


def _is_free_cast_of_input(nest: PerfectNest, table: AccessTable) -> bool:
    match nest.leaf:
        case Store(ref, Cast(Load(source), wide) as value):
            is_unchanged = source.buf.access in (AccessMode.IN, AccessMode.CONST) and source.buf not in table.writers
            is_widening = wide.nbytes > source.buf.precision.nbytes and cost(value).work == 0
            is_whole = nest.cond.is_true and unit_covering_loops(ref, nest.loops) == {loop.sym for loop in nest.loops}
            return ref.buf.space is MemorySpace.ARENA and is_unchanged and is_widening and is_whole
        case _:
            return False
