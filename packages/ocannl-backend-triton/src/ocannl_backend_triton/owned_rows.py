"""Partition of the target rows of a scatter among programs (owner-computes rule; see `owner_computes_scatter`)."""

from __future__ import annotations

from dataclasses import dataclass

from ocannl.codegen.numbers import next_power_of_two
from ocannl.ir.accesses import has_no_loop_carried_dependence, memory_accesses
from ocannl.ir.affine import Sym
from ocannl.ir.loops import BindIndex, Body, Comment, For, If, Poll, Var, is_full
from ocannl.ir.walk import walk
from ocannl_backend_triton.matrix_products import varying_symbols

MAX_SEARCH_BLOCK = 256  # ids searched at a time


@dataclass(frozen=True, slots=True)
class OwnedRows:
    """Each program owns `block_size` values of the symbol that `bind` binds in `loop`."""

    bind: BindIndex
    loop: For
    block_size: int

    @property
    def sym(self) -> Sym:
        return self.bind.sym

    @property
    def num_programs(self) -> int:
        return -(-self.sym.extent // self.block_size)

    @property
    def search_block(self) -> int:
        return min(MAX_SEARCH_BLOCK, next_power_of_two(self.loop.sym.extent))


def partition_rows(body: Body, blocks: frozenset[Sym], max_programs: int) -> OwnedRows | None:
    """Partitions the rows of a scatter among at most `max_programs` programs.

    Returns None if that is impossible or useless; the picked index must not vary within blocks over `blocks`.
    """
    trip_count = 1
    while True:
        match [stmt for stmt in body if not isinstance(stmt, Comment | Poll)]:
            case [For(body=(BindIndex() as bind,)) as loop] if is_full(loop) and loop.sym.extent:
                max_programs = min(max_programs, trip_count * loop.sym.extent)
                rows = -(-bind.sym.extent // max(max_programs, 1))
                is_independent = has_no_loop_carried_dependence(memory_accesses(bind.body), bind.sym, (), sums=False)
                is_local = any(isinstance(node, Var) for node in walk(bind.value))
                varies = is_local or varying_symbols(bind.value, blocks) & blocks
                if rows >= bind.sym.extent or varies or not is_independent:
                    return None
                return OwnedRows(bind, loop, next_power_of_two(rows))
            case [For() as loop]:
                trip_count *= loop.sym.extent
                body = loop.body
            case [If(_, inner, ())]:
                body = inner
            case _:
                return None
