"""Weights, whose values seldom change between two calls of a program, and the nests that depend on weights only."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ocannl.ir.free_symbols import free_symbols
from ocannl.ir.loops import AccessMode, Buf, For, Load, MemorySpace, Proc, Store, region_body
from ocannl.ir.tnode import Role
from ocannl.opt.analysis.nests import accessed_arrays, covers_buffer, nest_of

Access = tuple[Sequence[Buf], Sequence[Buf]]  # read, written


def is_weight(buf: Buf) -> bool:
    """Whether the buffer is a parameter or a constant that the program does not write, or depends on these only."""
    if buf.access in (AccessMode.IN, AccessMode.CONST):
        return buf.node is not None and buf.node.role in (Role.PARAMETER, Role.DATA)
    return buf.access is AccessMode.PRECOMPUTED


def weight_nests(proc: Proc, access: Sequence[Access]) -> set[int]:
    """Returns the positions of the nests that write only temporaries which depend on weights only; `access` are the
    buffers that each nest reads and writes."""
    nests = {
        position for position, stmt in enumerate(proc.body)
        if isinstance(stmt, For) and region_body(stmt) is None and not free_symbols(stmt)
    }  # fmt: skip
    while True:
        arrays = _written_only_by(nests, access)
        kept = {position for position in nests if _depends_on_weights(access[position], arrays)}
        if kept == nests:
            return nests
        nests = kept


def weight_arrays(proc: Proc) -> set[Buf]:
    """Returns the weights, and the temporaries that depend on weights only."""
    access: list[Access] = [accessed_arrays(stmt) for stmt in proc.body]
    inputs = {buf for buf in proc.bufs if is_weight(buf)}.difference(*(written for _, written in access))
    return inputs.union(*(access[position][1] for position in weight_nests(proc, access)))


def copied_weights(proc: Proc) -> dict[Buf, Buf]:
    """Returns the precomputed arrays that are copies of another array in another layout, each with its source."""
    sources: dict[Buf, Buf] = {}
    for stmt in (stmt for region in proc.body for stmt in region_body(region) or ()):
        nest = nest_of(stmt)
        match nest and nest.leaf:
            case Store(target, Load(source)) if target.buf.access is AccessMode.PRECOMPUTED:
                same = target.indices == source.indices and target.buf.precision is source.buf.precision
                if same and nest is not None and covers_buffer(nest):
                    sources[target.buf] = sources.get(source.buf, source.buf)
    return sources


def _written_only_by(positions: Collection[int], access: Sequence[Access]) -> set[Buf]:
    """Returns the temporaries that no other statements write."""
    written = {buf for position in positions for buf in access[position][1] if buf.space is MemorySpace.ARENA}
    return written.difference(*(bufs for position, (_, bufs) in enumerate(access) if position not in positions))


def _depends_on_weights(access: Access, arrays: set[Buf]) -> bool:
    read, written = access
    return bool(written) and arrays.issuperset(written) and all(buf in arrays or is_weight(buf) for buf in read)
