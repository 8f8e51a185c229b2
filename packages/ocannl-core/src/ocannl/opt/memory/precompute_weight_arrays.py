"""Arrays that depend on weights only are computed once, and again after a weight has been written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from ocannl.ir.affine import Sym, SymKind
from ocannl.ir.free_symbols import free_symbols
from ocannl.ir.loops import (
    AccessMode,
    BindIndex,
    Body,
    Buf,
    Const,
    For,
    Load,
    MemorySpace,
    Proc,
    Ref,
    Stmt,
    Store,
    region_body,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.precision import int64
from ocannl.ir.precomputed import precomputed_buffers, request_buffer
from ocannl.opt.analysis.nests import accessed_arrays, bound_names, loads
from ocannl.opt.analysis.substitution import replace_buffers
from ocannl.opt.analysis.weights import Access, is_weight, weight_arrays, weight_nests


def precompute_weight_arrays(proc: Proc) -> Proc:
    """Moves nests that depend on weights only, such as packing copies, into code that is executed on request:

        proc step                     proc step
          w : f32[5]  in                w               : f32[5]  in
          v : f32[5]  arena             x               : f32[5]  inout
          x : f32[5]  inout             weights_changed : i64     precomputed
          for i in 0..5:                v               : f32[5]  precomputed
            v[i] = exp(w[i])    ==>     bind changed in 1..2 = weights_changed:
          for j in 0..5:                  for i in 0..5:
            x[j] = v[j] * x[j]              v[i] = exp(w[i])
                                          weights_changed = 0
                                        for j in 0..5:
                                          x[j] = v[j] * x[j]

    Weights are parameters and constants that the program does not write. The arrays keep their values between calls;
    who calls the program sets the first of them to 1 whenever a weight has been written. Nests in conditional code and
    in loops are moved as well.
    """
    return _with_region(proc)


def precompute_packed_weights(proc: Proc) -> Proc:
    """Moves the nests that pack weights, or precomputed arrays, to the others that depend on weights only:

        proc step                                       proc step
          w               : f32[5]  in                    w               : f32[5]  in
          x               : f32[5]  inout                 x               : f32[5]  inout
          v_2             : f32[5]  arena                 v               : f32[5]  arena
          weights_changed : i64     precomputed           weights_changed : i64     precomputed
          v               : f32[5]  precomputed           v_2             : f32[5]  precomputed
          bind changed in 1..2 = weights_changed:         bind changed in 1..2 = weights_changed:
            for i in 0..5:                                  for i in 0..5:
              v[i] = exp(w[i])                    ==>         v[i] = exp(w[i])
            weights_changed = 0                             for i_2 in 0..5:
          for i_2 in 0..5:                                    v_2[i_2] = v[i_2]
            v_2[i_2] = v[i_2]                               weights_changed = 0
          for j in 0..5:                                  for j in 0..5:
            x[j] = v_2[j] * x[j]                            x[j] = v_2[j] * x[j]

    Precomputed arrays that only these nests read become temporaries.
    """
    return _with_region(_without_region(proc))


def writes_precomputed_arrays(stmt: Stmt) -> bool:
    return any(buf.access is AccessMode.PRECOMPUTED for buf in accessed_arrays(stmt)[1])


def weights_of(proc: Proc) -> list[Buf]:
    """Returns the weights that the precomputed arrays depend on."""
    region = _region(proc)
    return [] if region is None else [buf for buf in accessed_arrays(region)[0] if is_weight(buf) and buf.node]


def without_precomputed_arrays(proc: Proc, alignment_bytes: int) -> Proc:
    """Returns an equivalent program that computes the arrays in each call, in additional memory of the arena."""
    end_bytes = proc.arena
    plain = _without_region(proc)
    new = {}
    for buf in plain.bufs:
        if buf.space is MemorySpace.ARENA and buf.offset is None:
            offset_bytes = -(-end_bytes // alignment_bytes) * alignment_bytes
            new[buf] = replace(buf, offset=offset_bytes)
            end_bytes = offset_bytes + buf.nbytes
    return replace_buffers(replace(plain, arena=end_bytes), new)


def _with_region(proc: Proc) -> Proc:
    """Returns an equivalent program that computes arrays which depend on weights only on request."""
    proc = _hoist_from_regions(proc)
    access = [accessed_arrays(stmt) for stmt in proc.body]
    positions = weight_nests(proc, access)
    rest = [position for position in range(len(access)) if position not in positions]
    used = {buf for position in rest for buf in access[position][0]}
    moved = _needed(sorted(positions), access, used)
    arrays = {
        buf: replace(buf, space=MemorySpace.GLOBAL, access=AccessMode.PRECOMPUTED, node=None)
        for position in moved for buf in access[position][1] if buf in used
    }  # fmt: skip
    if not arrays:
        return proc
    names = Namer(bound_names(proc))
    flag = Buf(names("weights_changed"), int64, (), (), MemorySpace.GLOBAL, AccessMode.PRECOMPUTED)
    changed = Sym(names("changed"), 1, 1, SymKind.CONDITION)
    nests = [proc.body[position] for position in moved]
    region = BindIndex(changed, Load(Ref(flag, ())), (*nests, Store(Ref(flag, ()), Const(0, int64))))
    body = (region, *[proc.body[position] for position in rest])
    accessed = {buf for position in (*moved, *rest) for bufs in access[position] for buf in bufs}
    others = [
        buf for buf in proc.bufs if buf not in arrays and (buf in accessed or buf.space is MemorySpace.GLOBAL)
    ]
    return replace_buffers(replace(proc, bufs=(*others, flag, *arrays), body=body), arrays)


def _hoist_from_regions(proc: Proc) -> Proc:
    """Moves nests that depend on weights only from conditional code and sequential loops before these, if they alone
    write their results."""
    if all(region_body(stmt) is None for stmt in proc.body):
        return proc
    writers = Counter(buf for stmt in _nests(proc.body) for buf in accessed_arrays(stmt)[1])
    constant = weight_arrays(proc) | {buf for buf in proc.bufs if is_weight(buf)}
    seen: set[Buf] = set()  # read by nests before

    def moved_from(body: Body) -> set[int]:
        """Returns the positions of the nests of a body, without those of its conditional code and loops."""
        access = [accessed_arrays(stmt) for stmt in body]
        moved = {
            n for n, stmt in enumerate(body)
            if isinstance(stmt, For) and region_body(stmt) is None and not free_symbols(stmt)
        }  # fmt: skip
        while True:
            counts = Counter(buf for n in moved for buf in access[n][1])
            arrays = {buf for buf, count in counts.items() if buf.space is MemorySpace.ARENA and count == writers[buf]}
            last = {buf: n for n in sorted(moved) for buf in access[n][1]}
            kept = [(n, buf) for n, (read, _) in enumerate(access) if n not in moved for buf in read]
            arrays -= seen.union(buf for n, buf in kept if n < last.get(buf, 0))
            rest = {
                n for n in moved
                if arrays.issuperset(access[n][1]) and all(buf in constant or buf in arrays for buf in access[n][0])
            }  # fmt: skip
            if rest == moved:
                constant.update(arrays)
                return moved
            moved = rest

    def split(body: Body) -> tuple[list[Stmt], Body]:
        """Returns the nests that are moved, and the body without them."""
        moved, kept, positions = [], [], moved_from(body)
        for n, stmt in enumerate(body):
            inner = region_body(stmt)
            if n in positions:
                moved.append(stmt)
            elif inner is None:
                kept.append(stmt)
                seen.update(accessed_arrays(stmt)[0])
            else:
                assert isinstance(stmt, For | BindIndex)
                if isinstance(stmt, BindIndex):
                    seen.update(ref.buf for ref in loads(stmt.value))
                inner_moved, inner_kept = split(inner)
                moved += inner_moved
                kept.append(replace(stmt, body=inner_kept))
        return moved, tuple(kept)

    out: list[Stmt] = []
    for stmt in proc.body:
        if region_body(stmt) is None:
            seen.update(accessed_arrays(stmt)[0])
            out.append(stmt)
        else:
            moved, kept = split((stmt,))
            out += (*moved, *kept)
    return replace(proc, body=tuple(out))


def _nests(body: Body) -> Iterator[Stmt]:
    """Yields the statements of a body and of its conditional code and loops."""
    for stmt in body:
        inner = region_body(stmt)
        if inner is None:
            yield stmt
        else:
            yield from _nests(inner)


def _without_region(proc: Proc) -> Proc:
    """Returns an equivalent program that computes its precomputed arrays, as temporaries, in each call."""
    region = _region(proc)
    if region is None:
        return proc
    flag, *arrays = precomputed_buffers(proc)
    nests = [stmt for stmt in region.body if not isinstance(stmt, Store) or stmt.ref.buf is not flag]
    body = [inner for stmt in proc.body for inner in (nests if stmt is region else (stmt,))]
    bufs = tuple([buf for buf in proc.bufs if buf is not flag])
    temporaries = {buf: replace(buf, space=MemorySpace.ARENA, access=AccessMode.TEMP) for buf in arrays}
    return replace_buffers(replace(proc, bufs=bufs, body=tuple(body)), temporaries)


def _needed(positions: Sequence[int], access: Sequence[Access], used: Collection[Buf]) -> list[int]:
    """Returns the positions of nests whose results other statements use, or other needed nests, in order."""
    needed, result = set(used), []
    for position in reversed(positions):
        read, written = access[position]
        if not needed.isdisjoint(written):
            needed.update(read)
            result.append(position)
    return result[::-1]


def _region(proc: Proc) -> BindIndex | None:
    """Returns the statement that computes the precomputed arrays on request."""
    flag = request_buffer(proc)
    for stmt in proc.body if flag is not None else ():
        if isinstance(stmt, BindIndex) and [ref.buf for ref in loads(stmt.value)] == [flag]:
            return stmt
    return None
