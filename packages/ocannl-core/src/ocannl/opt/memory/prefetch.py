"""What a row of a nest asks memory for while it works on the one before."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from ocannl.ir.index import Affine, Sym
from ocannl.ir.loops import (
    AccessMode,
    Body,
    Buf,
    For,
    MemorySpace,
    If,
    Load,
    Local,
    Mode,
    BindIndex,
    Prefetch,
    Proc,
    Ref,
    Stmt,
    Update,
    When,
)
from ocannl.ir.names import Namer
from ocannl.ir.accesses import always_in_bounds
from ocannl.ir.walk import walk
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.nests import bound_names, same_objects
from ocannl.opt.analysis.substitution import substitute_statements
from ocannl.opt.memory.nontemporal_stores import is_far


def prefetch(proc: Proc, far_bytes: int, large_bytes: int | None = None) -> Proc:
    """Lets the loops that read a row fetch the same part of the next one: the first of them waits for memory itself, if
    there is another. And lets tiles fetch what they add their sums to before they sum. Here every array is large:

        proc step                         proc step
          x : f32[4,8]  in                  x : f32[4,8]  in
          y : f32[4,8]  out                 y : f32[4,8]  out
          z : f32[4,8]  out                 z : f32[4,8]  out
          for i in 0..4:                    for i in 0..4:
            for j in 0..8 lanes:              for j in 0..8 lanes:
              y[i, j] = x[i, j] * 2  ==>        y[i, j] = x[i, j] * 2
            for k in 0..8 lanes:              prefetch x[i, 0] ahead 8
              z[i, k] = x[i, k] + 2           for k in 0..8 lanes:
                                                z[i, k] = x[i, k] + 2
    """
    large_bytes = machine.MIN_PREFETCHED_BYTES if large_bytes is None else large_bytes
    body = tuple([_ahead(stmt, large_bytes) if is_far(stmt, far_bytes) else stmt for stmt in proc.body])
    body = _Tiles(Namer(bound_names(proc)), large_bytes).body(body)
    return proc if same_objects(body, proc.body) else replace(proc, body=body)


def _ahead(stmt: Stmt, large_bytes: int) -> Stmt:
    """The innermost loops over rows, each of which is gone through several times, with what they fetch."""
    match stmt:
        case For(mode=Mode.SERIAL, body=body):
            inner = tuple([_ahead(each, large_bytes) for each in body])
            if same_objects(inner, body) and sum(isinstance(each, For | If) for each in body) > 1:
                rows = _Rows(stmt, large_bytes)
                inner = rows.body(body) if rows.fetching else body
            return stmt if same_objects(inner, body) else replace(stmt, body=inner)
        case _:
            return stmt


class _Rows:
    """A loop over rows, and which loops over lanes fetch which arrays."""

    def __init__(self, loop: For, large_bytes: int) -> None:
        self.sym, self.large_bytes = loop.sym, large_bytes
        readers: dict[Buf, list[For]] = {}
        for lanes in walk(loop.body):
            if isinstance(lanes, For) and lanes.mode is Mode.VECTORIZED:
                for buf in dict.fromkeys(ref.buf for ref in self.wanted(lanes)):
                    readers.setdefault(buf, []).append(lanes)
        # the first one waits for memory itself
        self.fetching = {(buf, id(each)) for buf, found in readers.items() for each in found[1:] or found}

    def wanted(self, lanes: For) -> list[Ref]:
        """What it reads of large arrays, a vector at a time and another row in each turn."""
        return [ref for ref in _read(lanes) if self.is_large(ref)]

    def is_large(self, ref: Ref) -> bool:
        row = abs(ref.stride(self.sym)) * ref.buf.precision.nbytes
        large = ref.buf.access is AccessMode.IN and ref.buf.nbytes >= self.large_bytes
        return large and 0 < row <= machine.MAX_PREFETCHED_ROW_BYTES

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for stmt in body:
            match stmt:
                case For(mode=Mode.VECTORIZED):
                    out += [self.ahead(ref, stmt) for ref in self.wanted(stmt) if (ref.buf, id(stmt)) in self.fetching]
                    out.append(stmt)
                case For():
                    out.append(replace(stmt, body=self.body(stmt.body)))
                case If(cond, then, orelse):
                    out.append(If(cond, self.body(then), self.body(orelse)))
                case _:
                    out.append(stmt)
        return tuple(out)

    def ahead(self, ref: Ref, lanes: For) -> Prefetch:
        return Prefetch(_first(ref, lanes), ref.stride(self.sym))


class _Tiles:
    """Tiles that read large arrays when their sums are done: what comes from afar is on its way meanwhile."""

    def __init__(self, names: Namer, large_bytes: int) -> None:
        self.names, self.large_bytes = names, large_bytes

    def body(self, body: Body) -> Body:
        out = tuple(map(self.inside, body))
        sums = {stmt.buf for stmt in body if isinstance(stmt, Local)}
        adding = [at for at, stmt in enumerate(body) if _adds(stmt, sums)]
        if adding:
            first = next(at for at, stmt in enumerate(body) if isinstance(stmt, For))
            out = (*out[:first], *chain.from_iterable(map(self.fetched, body[adding[-1] + 1 :])), *out[first:])
        return body if same_objects(out, body) else out

    def inside(self, stmt: Stmt) -> Stmt:
        match stmt:
            case For(mode=Mode.SERIAL, body=body):
                inner = self.body(body)
                return stmt if inner is body else replace(stmt, body=inner)
            case If(cond, then, orelse):
                sides = self.body(then), self.body(orelse)
                return stmt if sides == (then, orelse) else If(cond, *sides)
            case _:
                return stmt

    def fetched(self, stmt: Stmt) -> Body:
        """The loops of the statement, with the lines that they read of large arrays."""
        match stmt:
            case For(mode=Mode.VECTORIZED):
                places = dict.fromkeys(_first(ref, stmt) for ref in _read(stmt) if self.is_large(ref.buf))
                return tuple([Prefetch(ref, 0) for ref in places])
            case For(sym, body=body):
                inner = tuple(chain.from_iterable(map(self.fetched, body)))
                if not inner:
                    return ()
                new = Sym(self.names(sym.name), sym.lo, sym.hi)
                return (replace(stmt, sym=new, body=substitute_statements(inner, {sym: Affine.of(new)})),)
            case _:
                return ()

    def is_large(self, buf: Buf) -> bool:
        return buf.space is not MemorySpace.LOCAL and buf.nbytes >= self.large_bytes


def _read(lanes: For) -> list[Ref]:
    """What the loop reads a vector at a time: cells that are there, be they read or not, and that are known before."""
    nodes = list(walk(lanes.body))
    picked = {node.sym for node in nodes if isinstance(node, BindIndex)}
    inner = [node for node in nodes if isinstance(node, For | If | When)]
    at_times = {node.ref for each in inner for node in walk(each) if isinstance(node, Load | Update)}
    refs = dict.fromkeys(node.ref for node in nodes if isinstance(node, Load | Update))
    known = [ref for ref in refs if picked.isdisjoint(sym for at in ref.indices for sym in at.syms)]
    return [ref for ref in known if ref.stride(lanes.sym) == 1 and (ref not in at_times or always_in_bounds(ref))]


def _first(ref: Ref, lanes: For) -> Ref:
    """The cell in the first iteration, of loops inside as well."""
    loops = (lanes, *(each for each in walk(lanes.body) if isinstance(each, For)))
    first = {each.sym: Affine((), each.sym.lo) for each in loops}
    return Ref(ref.buf, tuple([index.substitute(first) for index in ref.indices]))


def _adds(stmt: Stmt, sums: set[Buf]) -> bool:
    """Whether it is a loop that adds to one of these again and again."""
    if not isinstance(stmt, For) or stmt.mode is not Mode.SERIAL:
        return False
    return any(isinstance(node, Update) and node.ref.buf in sums for node in walk(stmt.body))
