"""Adds up the products of narrow numbers in pairs, with the instructions of processors that have them."""

from __future__ import annotations

from dataclasses import replace

from ocannl.ir.affine import Affine, Sym
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import Apply, BindIndex, Cast, For, If, Load, Proc, Ref, Stmt, is_full, loop
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD, MUL
from ocannl.ir.pair_dots import SUM_PRECISIONS, dot_of_pairs, has_dots
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction, group_of, is_matmul_like
from ocannl.opt.analysis.nests import bound_names, same_objects
from ocannl.opt.analysis.substitution import substitute
from ocannl.opt.schedule.plan.register_tiles import best_tile_plan


def form_pair_dots(proc: Proc, capabilities: Capabilities) -> Proc:
    """Unrolls the reduction of a product of bfloat16 matrices, or of integers of 8 and 16 bits with sums of 32 bits, by
    two, so that a term is the dot product of two pairs:

        proc step                                          proc step
          y : f32[4,16]       out                            y : f32[4,16]       out
          x : bfloat16[4,6]   in                             x : bfloat16[4,6]   in
          w : bfloat16[6,16]  in                             w : bfloat16[6,16]  in
          for i_2 in 0..4:                                   for i_2 in 0..4:
            for j_2 in 0..16:                                  for j_2 in 0..16:
              local acc: f32                           ==>       local acc: f32
              acc = 0                                            acc = 0
              for k in 0..6:                                     for k_2 in 0..3:
                acc += f32(x[i_2, k]) * f32(w[k, j_2])             acc += f32(x[i_2, 2*k_2]) * f32(w[2*k_2, j_2]) + f32(x[i_2, 2*k_2+1]) * f32(w[2*k_2+1, j_2])
              y[i_2, j_2] = acc                                  y[i_2, j_2] = acc

    The last term of a single loop of odd length is added first. Other loops of odd length stay as they are, and those
    whose terms would be the lanes of vectors.
    """  # noqa: E501
    names = Namer(bound_names(proc))
    body = tuple([_paired(stmt, capabilities, names) for stmt in proc.body])
    return proc if same_objects(body, proc.body) else replace(proc, body=body)


def _paired(stmt: Stmt, capabilities: Capabilities, names: Namer) -> Stmt:
    group = group_of(stmt, names)
    if group is not None:
        pairs = group_of_pairs(group, capabilities, names)
        plan = None if pairs is None else best_tile_plan(pairs, capabilities)
        is_output_plan = plan is not None and plan.vector not in plan.reduction_syms
        return pairs.stmt() if pairs is not None and is_output_plan else stmt
    match stmt:
        case For(body=body) | BindIndex(body=body):
            new = tuple([_paired(inner, capabilities, names) for inner in body])
            return stmt if same_objects(new, body) else replace(stmt, body=new)
        case If(cond, on_true, on_false):
            first, second = (
                tuple([_paired(inner, capabilities, names) for inner in part]) for part in (on_true, on_false)
            )
            return stmt if same_objects((*first, *second), (*on_true, *on_false)) else If(cond, first, second)
        case _:
            return stmt


def group_of_pairs(group: FusionGroup, capabilities: Capabilities, names: Namer) -> FusionGroup | None:
    """Returns the group with terms that are dot products of pairs; None if it is no product of matrices for which
    the target has instructions."""
    if len(group.reductions) != 1 or not is_matmul_like(group):
        return None
    (reduction,) = group.reductions
    factors, sym = factors_of_terms(reduction), _pairable_loop(reduction)
    if factors is None or sym is None or not has_dots(capabilities, reduction.acc.precision):
        return None
    pair = Sym(names(sym.name), 0, sym.extent // 2 - 1)
    (x, y), (u, v) = (
        [substitute(factor, {sym: Affine.of(pair) * 2 + sym.lo + n}) for factor in factors] for n in range(2)
    )
    loops = tuple([loop(pair, (), old.origin) if old.sym is sym else old for old in reduction.loops])
    update, init = replace(reduction.update, value=dot_of_pairs((x, y, u, v))), reduction.init
    if sym.extent % 2:
        init = Apply(ADD, (init, substitute(reduction.update.value, {sym: Affine((), sym.hi)})))
    return replace(group, reductions=(replace(reduction, loops=loops, update=update, init=init),))


def factors_of_terms(reduction: Reduction) -> tuple[Load, Load] | None:
    """Returns the narrow factors of a sum of products; None for other reductions."""
    match reduction.update.value:
        case Apply(op, (Cast(Load() as x, kind), Cast(Load() as y, _))) if op is MUL:
            is_sum = reduction.update.op is ADD and reduction.acc.precision is kind
            return (x, y) if is_sum and all(SUM_PRECISIONS.get(z.precision) is kind for z in (x, y)) else None
        case _:
            return None


def _pairable_loop(reduction: Reduction) -> Sym | None:
    """Returns a reduction loop of even length, or the only one, preferably one along which an operand is contiguous."""
    is_single = len(reduction.loops) == 1
    syms = [
        old.sym for old in reduction.loops
        if is_full(old) and old.sym not in reduction.cond.syms and old.sym.extent > 1
        and (is_single or old.sym.extent % 2 == 0)
    ]  # fmt: skip
    refs: list[Ref] = [factor.ref for factor in factors_of_terms(reduction) or ()]
    return max(syms, key=lambda sym: any(abs(ref.stride(sym)) == 1 for ref in refs), default=None)
