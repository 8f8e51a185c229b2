"""Turns the bodies of fused loops into straight-line code, which is scheduled and vectorized as one group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ocannl.ir.accesses import has_no_loop_carried_dependence, memory_accesses
from ocannl.ir.affine import Sym
from ocannl.ir.loops import (
    Apply,
    BindIndex,
    Body,
    Buf,
    Comment,
    Const,
    Expr,
    For,
    If,
    Let,
    Load,
    Local,
    Mode,
    Proc,
    Ref,
    Stmt,
    Store,
    Update,
    Var,
    is_full,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.walk import walk
from ocannl.opt.analysis.nests import bound_names, same_objects
from ocannl.opt.analysis.substitution import map_expr


def flatten_fused_loops(proc: Proc) -> Proc:
    """Merges the scopes of a fused loop, and turns its scalars into values:

        proc step                      proc step
          x : f32[5]  in                 x : f32[5]  in
          y : f32[5]  out                y : f32[5]  out
          z : f32[5]  out                z : f32[5]  out
          for i in 0..5:                 for i in 0..5:
            local h: f32                   let e = exp(x[i])
            scope:               ==>       let h_2 = e * e
              let e = exp(x[i])            y[i] = e
              h = e * e                    z[i] = h_2 + e
              y[i] = e
            z[i] = h + y[i]

    A loop is flattened if its iterations, and those of the loops around it, are independent. Loads of cells that the
    iteration has stored are replaced by the values (store-to-load forwarding).
    """
    names = Namer(bound_names(proc))
    body = _flattened_body(proc.body, names)
    return proc if same_objects(body, proc.body) else replace(proc, body=body)


def _flattened_body(body: Body, names: Namer) -> Body:
    out = tuple([_flattened(stmt, names) for stmt in body])
    return body if same_objects(out, body) else out


def _flattened(stmt: Stmt, names: Namer) -> Stmt:
    match stmt:
        case For(mode=Mode.SERIAL, body=body):
            flat = _flat_nest(stmt, names)
            if flat is not None:
                return flat
            inner = _flattened_body(body, names)
            return stmt if inner is body else replace(stmt, body=inner)
        case If(cond, then, orelse):
            first, second = _flattened_body(then, names), _flattened_body(orelse, names)
            return stmt if first is then and second is orelse else If(cond, first, second)
        case BindIndex(sym, value, body):
            inner = _flattened_body(body, names)
            return stmt if inner is body else BindIndex(sym, value, inner)
        case _:
            return stmt


def _flat_nest(nest: For, names: Namer) -> For | None:
    """Returns a perfect nest of loops with a flat body; None if the body is flat already, or cannot be."""
    loops, body = [nest], nest.body
    while len(body) == 1 and isinstance(body[0], For) and body[0].mode is Mode.SERIAL:
        loops.append(body[0])
        body = body[0].body
    if all(isinstance(stmt, Let | Store | Update) for stmt in body) or not all(map(is_full, loops)):
        return None
    flat = _Flattener(names, {node.ref.buf for node in walk(body) if isinstance(node, Load)}).flattened(body)
    if flat is None or not _is_independent(flat, [loop.sym for loop in loops]):
        return None
    for loop in reversed(loops):
        flat = (replace(loop, body=flat),)
    (result,) = flat
    assert isinstance(result, For)
    return result


def _is_independent(body: Body, syms: Sequence[Sym]) -> bool:
    accesses = memory_accesses(body)
    return all(
        has_no_loop_carried_dependence(accesses, sym, tuple(syms[:n]), sums=False) for n, sym in enumerate(syms)
    )


class _Flattener:
    """Flattens one body: scalars get a new name at each assignment (static single assignment)."""

    def __init__(self, names: Namer, loaded: set[Buf]) -> None:
        self.names, self.loaded = names, loaded
        self.scalars: dict[Buf, Expr | None] = {}  # the current value of each local scalar
        self.stored: dict[Buf, tuple[Ref, Expr]] = {}  # the last store to each array
        self.out: list[Stmt] = []
        self.is_valid = True  # no scalar is read before it is assigned

    def flattened(self, body: Body) -> Body | None:
        """Returns the statements as definitions, stores and updates of arrays; None if that is not possible."""
        return tuple(self.out) if all(map(self.add, body)) and self.is_valid else None

    def add(self, stmt: Stmt) -> bool:
        """Adds a statement; returns False if that is not possible."""
        match stmt:
            case Comment():
                return True
            case Local(buf, init) if not buf.shape:
                self.scalars[buf] = None if init is None else Const(init, buf.precision)
                return True
            case If(cond, then, ()) if cond.is_true:
                return all(map(self.add, then))
            case Let(name, value):
                self.out.append(Let(name, self.value(value)))
                return True
            case Store(ref, value) if ref.buf in self.scalars:
                self.scalars[ref.buf] = self.define(ref.buf.name, self.value(value))
                return True
            case Update(ref, op, value) if ref.buf in self.scalars:
                old = self.scalars[ref.buf]
                if old is None:
                    return False
                self.scalars[ref.buf] = self.define(ref.buf.name, Apply(op, (old, self.value(value))))
                return True
            case Store(ref, value):
                return self.store(stmt, self.value(value))
            case _:
                return False

    def store(self, stmt: Store, value: Expr) -> bool:
        if stmt.ref.buf in self.stored and self.stored[stmt.ref.buf][0] != stmt.ref:
            return False
        if stmt.ref.buf in self.loaded:
            value = self.define(stmt.ref.buf.name, value)
        self.stored[stmt.ref.buf] = stmt.ref, value
        self.out.append(replace(stmt, value=value))
        return True

    def define(self, name: str, value: Expr) -> Expr:
        if isinstance(value, Var | Const):
            return value
        variable = Var(self.names(name), value.precision)
        self.out.append(Let(variable.name, value))
        return variable

    def value(self, expr: Expr) -> Expr:
        return map_expr(expr, self.leaf)

    def leaf(self, expr: Expr) -> Expr:
        if isinstance(expr, Load):
            if expr.ref.buf in self.scalars:
                scalar = self.scalars[expr.ref.buf]
                self.is_valid &= scalar is not None
                return scalar or expr
            stored = self.stored.get(expr.ref.buf)
            if stored is not None and stored[0] == expr.ref:
                return stored[1]
        return expr
