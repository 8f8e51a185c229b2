"""Merges gathers with the initialization of their results."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from ocannl.ir.affine import TRUE, Affine, Sym, SymKind
from ocannl.ir.loops import (
    Apply,
    BindIndex,
    Body,
    Const,
    Expr,
    For,
    Proc,
    Stmt,
    Store,
    Update,
    loop,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import BY_NAME, WHERE
from ocannl.ir.precision import int64
from ocannl.opt.analysis.constant_folding import make_const
from ocannl.opt.analysis.indirect_nests import IndirectNest, indirect_nest_of
from ocannl.opt.analysis.initial_stores import InitialStores
from ocannl.opt.analysis.nests import (
    AccessTable,
    PerfectNest,
    bound_names,
    covering_loops,
    nest_of,
    wrap_in_loops,
)
from ocannl.opt.simplify.simplify import simplify_expr


def merge_gather_initialization(proc: Proc) -> Proc:
    """Stores the gathered cells, and the initial value only where an index is out of range:

        proc step                             proc step
          y : f32[3,4]  out                     y : f32[3,4]  out
          n : i32[3]    in                      n : i32[3]    in
          x : f32[5,4]  in                      x : f32[5,4]  in
          for i in 0..3:                        for b in 0..3:
            for j in 0..4:               ==>      bind outside in 0..1 = where(i64(n[b]) >= 0 && i64(n[b]) <= 4, -1, 0):
              y[i, j] = 0                           for k_2 in 0..4:
          for b in 0..3:                              y[b, k_2] = 0
            bind v in 0..5 = i64(n[b]):           bind v in 0..5 = i64(n[b]):
              for k in 0..4:                        for k in 0..4:
                y[b, k] += x[v, k]                    y[b, k] = x[v, k]

    Each cell is then written once and never read.
    """
    return _GatherStores(proc).result()


class _GatherStores:
    def __init__(self, proc: Proc) -> None:
        self.proc, self.names = proc, Namer(bound_names(proc))
        self.initial_stores = InitialStores(AccessTable(proc.body))

    def result(self) -> Proc:
        body: list[Body] = [(stmt,) for stmt in self.proc.body]
        for position, stmt in enumerate(self.proc.body):
            nest = nest_of(stmt)
            if nest is not None:
                self.initial_stores.record(position, nest)
                continue
            gather = indirect_nest_of(stmt)
            initial = self.initialization(position, gather) if gather is not None else None
            if initial is not None:
                at, value = initial
                body[at], body[position] = (), self.stored(stmt, value)
        return self.proc if all(body) else replace(self.proc, body=tuple(chain.from_iterable(body)))

    def initialization(self, position: int, gather: IndirectNest) -> tuple[int, Const] | None:
        """The position and value of a store that initializes the cells of the gather, which writes each of them in one
        iteration."""
        leaf, syms = gather.leaf, {loop.sym for loop in gather.loops}
        if any(ref.buf is leaf.ref.buf for ref in gather.reads) or covering_loops(leaf.ref, gather.loops) != syms:
            return None
        reaching = self.initial_stores.reaching_initialization(position, PerfectNest(gather.loops, TRUE, leaf))
        if reaching is None or not isinstance(value := reaching[1].leaf.value, Const):
            return None
        return reaching[0], value

    def stored(self, stmt: Stmt, initial: Const) -> Body:
        """The statement with a store instead of an update, and before each bound index, if it is out of range, stores
        of the initial value to the cells that its body writes."""
        match stmt:
            case Store():
                return (stmt,)
            case Update(ref, op, value, origin):
                return (Store(ref, simplify_expr(Apply(op, (initial, value))), origin),)
            case BindIndex(sym, index, (inner,)):
                gathered = BindIndex(sym, index, self.stored(inner, initial))
                if not isinstance(inner, For):
                    return (*self.filled(inner, initial), gathered)
                outside = Sym(self.names("outside"), 0, 0, SymKind.INDIRECT)
                return BindIndex(outside, _is_inside(index, sym), self.filled(inner, initial)), gathered
            case For(body=(inner,)):
                return (replace(stmt, body=self.stored(inner, initial)),)
            case _:
                raise AssertionError(f"{type(stmt).__name__} in a gather")

    def filled(self, stmt: Stmt, initial: Const) -> Body:
        """Stores of the initial value to the cells that the statement writes."""
        loops: list[For] = []
        values: dict[Sym, Affine] = {}
        while not isinstance(stmt, Update | Store):
            assert isinstance(stmt, For | BindIndex)
            if isinstance(stmt, For):
                sym = Sym(self.names(stmt.sym.name), stmt.sym.lo, stmt.sym.hi)
                loops.append(loop(sym, (), stmt.origin))
                values[stmt.sym] = Affine.of(sym)
            (stmt,) = stmt.body
        cell = stmt.ref.substitute(values)
        return wrap_in_loops(loops, TRUE, (Store(cell, initial, stmt.origin),))


def _is_inside(index: Expr, sym: Sym) -> Expr:
    """-1 if the index is in the range of the symbol, else 0."""
    low, high = (make_const(bound, int64) for bound in (sym.lo, sym.hi))
    test = Apply(BY_NAME["and"], (Apply(BY_NAME["ge"], (index, low)), Apply(BY_NAME["le"], (index, high))))
    return Apply(WHERE, (test, make_const(-1, int64), make_const(0, int64)))
