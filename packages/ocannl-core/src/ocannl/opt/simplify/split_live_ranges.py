"""Splits temporaries that several regions use for unrelated values, so that each region has a temporary of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ocannl.ir.loops import AccessMode, BindIndex, Body, Buf, For, Proc, Stmt, region_body
from ocannl.ir.name_mangling import Namer
from ocannl.opt.analysis.nests import accessed_buffers, bound_names
from ocannl.opt.analysis.privatizable_buffers import privatizable_buffers
from ocannl.opt.analysis.region_parts import region_parts
from ocannl.opt.analysis.substitution import with_buffers
from ocannl.opt.analysis.union_find import DisjointSets


def split_live_ranges(proc: Proc) -> Proc:
    """Renames each live range of a temporary, beyond the first, in programs with loops or conditionals of whole nests:

        proc step                             proc step
          x : f32[3,5]  inout                   x   : f32[3,5]  inout
          v : f32[5]    arena                   v   : f32[5]    arena
          y : f32[3,5]  inout                   y   : f32[3,5]  inout
          sequential for t in 0..3:             v_2 : f32[5]    arena
            for i in 0..5:                      sequential for t in 0..3:
              v[i] = exp(x[t, i])                 for i in 0..5:
            for j in 0..5:                          v[i] = exp(x[t, i])
              x[t, j] = v[j]            ==>       for j in 0..5:
          sequential for s in 0..3:                 x[t, j] = v[j]
            for i_2 in 0..5:                    sequential for s in 0..3:
              v[i_2] = tanh(y[s, i_2])            for i_2 in 0..5:
            for j_2 in 0..5:                        v_2[i_2] = tanh(y[s, i_2])
              y[s, j_2] = v[j_2]                  for j_2 in 0..5:
                                                    y[s, j_2] = v_2[j_2]

    A live range begins where a run of nests overwrites the whole temporary before reading it (webs; Muchnick 1997,
    section 16.3).
    """
    if all(region_body(stmt) is None for stmt in proc.body):
        return proc
    parts = [_part(stmts, enclosing) for stmts, enclosing in region_parts(proc.body)]
    names, new = Namer(bound_names(proc)), list(proc.bufs)
    renamed: list[dict[Buf, Buf]] = [{} for _ in parts]
    for buf in proc.bufs:
        if buf.access is not AccessMode.TEMP:
            continue
        for live_range in _live_ranges(buf, parts)[1:]:
            new.append(replace(buf, name=names(buf.name), node=None))
            for number in live_range:
                renamed[number][buf] = new[-1]
    if not any(renamed):
        return proc
    body = _rebuilt(proc.body, iter(renamed))
    return replace(proc, body=body, bufs=tuple(new))


@dataclass(frozen=True, slots=True)
class _Part:
    """A run of statements without regions, or the condition of a conditional, within the `enclosing` regions."""

    accessed: frozenset[Buf]
    covered: frozenset[Buf]
    enclosing: tuple[Stmt, ...]

    def dominates(self, part: _Part) -> bool:
        """Whether this part, which precedes the other, is executed whenever the other is."""
        return part.enclosing[: len(self.enclosing)] == self.enclosing

    @property
    def outermost_loop(self) -> For | None:
        return next((stmt for stmt in self.enclosing if isinstance(stmt, For)), None)


def _part(stmts: Sequence[Stmt], enclosing: tuple[Stmt, ...]) -> _Part:
    accessed = frozenset(buf for stmt in stmts for bufs in accessed_buffers(stmt) for buf in bufs)
    return _Part(accessed, frozenset(privatizable_buffers(stmts)), enclosing)


def _live_ranges(buf: Buf, parts: Sequence[_Part]) -> list[list[int]]:
    """Returns the numbers of the parts of each live range, in order."""
    accessing = [number for number, part in enumerate(parts) if buf in part.accessed]
    ranges = DisjointSets()
    for position, number in enumerate(accessing):
        part = parts[number]
        if buf in part.covered:
            continue
        for previous in reversed(accessing[:position]):
            ranges.union(number, previous)
            if buf in parts[previous].covered and parts[previous].dominates(part):
                break
        if part.outermost_loop is not None:
            for inside in accessing:  # values of an earlier iteration
                if parts[inside].outermost_loop is part.outermost_loop:
                    ranges.union(number, inside)
    grouped: dict[object, list[int]] = {}
    for number in accessing:
        grouped.setdefault(ranges.find(number), []).append(number)
    return list(grouped.values())


def _rebuilt(body: Body, renamed: Iterator[dict[Buf, Buf]]) -> Body:
    """Renames the buffers of each part."""
    out: list[Stmt] = []
    run: list[Stmt] = []
    for stmt in body:
        inner = region_body(stmt)
        if inner is None:
            run.append(stmt)
            continue
        out += with_buffers(tuple(run), next(renamed))
        run = []
        if isinstance(stmt, BindIndex):
            (stmt,) = with_buffers((replace(stmt, body=()),), next(renamed))
        assert isinstance(stmt, For | BindIndex)
        out.append(replace(stmt, body=_rebuilt(inner, renamed)))
    return (*out, *with_buffers(tuple(run), next(renamed)))
