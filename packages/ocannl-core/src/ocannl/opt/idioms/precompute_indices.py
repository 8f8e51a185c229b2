"""Computes the indices of gathers and scatters in loops of their own, which are vectorized."""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.affine import Affine, Sym, SymKind
from ocannl.ir.free_symbols import free_symbols
from ocannl.ir.loops import BindIndex, Body, For, If, Load, Local, Mode, Proc, Ref, Stmt, Store, is_full, loop
from ocannl.ir.name_mangling import Namer
from ocannl.ir.precision import int64
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.expression_cost import shared_cost
from ocannl.opt.analysis.fusion_group import local_buffer
from ocannl.opt.analysis.nests import accessed_buffers, bound_names, is_parallel_loop, loads, same_objects
from ocannl.opt.analysis.substitution import substitute, substitute_statements


def precompute_indices(proc: Proc, min_work: int = machine.MIN_PRECOMPUTED_WORK) -> Proc:
    """Distributes loops over the computation of an index and its uses (loop distribution); here for any computation:

        proc step                                      proc step
          y : f32[3]  inout                              y : f32[3]  inout
          x : f32[5]  in                                 x : f32[5]  in
          for i in 0..5:                                 local index: i64[5]
            bind v in 0..3 = i64(trunc(x[i])):   ==>     for i_2 in 0..5:
              y[v] += 1                                    index[i_2] = i64(trunc(x[i_2]))
                                                         for i_3 in 0..5:
                                                           bind v in 0..3 = index[i_3]:
                                                             y[v] += 1

    Indices that take less than `min_work` operations are not worth the memory traffic. Long loops are split into
    blocks, whose indices stay in the cache.
    """
    names = Namer(bound_names(proc))
    body = _in_body(proc.body, names, min_work)
    return proc if body is proc.body else replace(proc, body=body)


def _in_body(body: Body, names: Namer, min_work: int) -> Body:
    out: list[Stmt] = []
    for stmt in body:
        out += _in_statement(stmt, names, min_work)
    return body if same_objects(out, body) else tuple(out)


def _in_statement(stmt: Stmt, names: Namer, min_work: int) -> Body:
    match stmt:
        case For(body=(BindIndex() as binding,)) if _is_worthwhile(stmt, binding, min_work):
            return _distributed(stmt, binding, names) or (stmt,)
        case For(body=body) | BindIndex(body=body):
            inner = _in_body(body, names, min_work)
            return (stmt if inner is body else replace(stmt, body=inner),)
        case If(cond, then, orelse):
            first, second = _in_body(then, names, min_work), _in_body(orelse, names, min_work)
            return (stmt if first is then and second is orelse else If(cond, first, second),)
        case _:
            return (stmt,)


def _is_worthwhile(stmt: For, binding: BindIndex, min_work: int) -> bool:
    if stmt.mode is not Mode.SERIAL or is_parallel_loop(stmt) or not is_full(stmt):
        return False
    if binding.sym.kind is not SymKind.INDIRECT or stmt.sym not in free_symbols(binding.value):
        return False
    written = accessed_buffers(stmt)[1]
    return shared_cost(binding.value).work >= min_work and all(ref.buf not in written for ref in loads(binding.value))


def _distributed(stmt: For, binding: BindIndex, names: Namer) -> Body | None:
    """The loops of the index and of its uses; None if the loop is long, and no block divides it."""
    extent, sym = stmt.sym.extent, stmt.sym
    limit = machine.MAX_INDICES_PER_BLOCK
    size = next((n for n in range(min(extent, limit), 0, -1) if extent % n == 0), 0)
    if size < min(extent, machine.MIN_INDICES_PER_BLOCK):
        return None
    block = Sym(names(f"{sym.name}_block"), 0, extent // size - 1) if size < extent else None
    first = Affine((), sym.lo) if block is None else Affine(((size, block),), sym.lo)
    index = local_buffer(names("index"), int64, (size,))
    defined, used = (Sym(names(sym.name), 0, size - 1) for _ in range(2))
    store = Store(Ref(index, (Affine.of(defined),)), substitute(binding.value, {sym: first + Affine.of(defined)}))
    load = Load(Ref(index, (Affine.of(used),)))
    uses = substitute_statements(binding.body, {sym: first + Affine.of(used)})
    body: Body = (
        Local(index),
        loop(defined, (store,), stmt.origin),
        loop(used, (BindIndex(binding.sym, load, uses),), stmt.origin),
    )
    return body if block is None else (loop(block, body, stmt.origin),)
