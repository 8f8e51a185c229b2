"""Cells picked by integers: rows of tables, classes of scores."""

from __future__ import annotations

from dataclasses import replace

from ocannl.base.errors import DtypeError, ShapeError
from ocannl.infer.logic import einsum
from ocannl.infer.parse import parse
from ocannl.infer.terms import resolve
from ocannl.ir.ops import ADD
from ocannl.ir.precision import precision
from ocannl.lang.core.leaves import embed
from ocannl.lang.core.operation import contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.core.terms import Term
from ocannl.lang.core.terms import apply as term
from ocannl.lang.ops.index_tensors import iota

BATCH, INPUT, OUTPUT = range(3)


def take(t: object, ids: object, *, label: str | None = None) -> Tensor:
    """Rows of the leading output axis of `t`, at the integers `ids`: the axes of `ids`, then the rest of `t`.

    An id outside of the table gives zeros, it never wraps.

    Shapes: `v, ..r..; ..b..|s => ..b..|s, ..r..`, for any number of axes `s`; their number, or that of `r`, must be
            known when this is written. Batch and input rows that `t` is known to have stay. The batch row is also that
            of `ids`, unless these have none: then each cell of the batch row takes the same rows.
    Grad:   what arrives is added to the rows that were taken; ids have none.
    Raises: DtypeError for ids that are not integers; ShapeError.
    """
    table, places = embed(t), embed(ids)
    _refuse_fractions(places, "take")
    rest, asked = axes_known(table, OUTPUT), axes_known(places, OUTPUT)
    batch = "...|" if _has_axes(table, BATCH) else ""
    input = "..i.. -> " if _has_axes(table, INPUT) else ""
    of_ids = "" if batch and axes_known(places, BATCH) == 0 else "...|"
    if rest is not None and rest >= 1:
        axes = "".join(f", r{n}" for n in range(rest - 1))
        spec = f"{batch}{input}v{axes}; {of_ids}..s.. => ...|{input}..s..{axes}"
    elif asked is not None:
        axes = "".join(f"s{n}, " for n in range(asked))
        spec = f"{batch}{input}v, ..r..; {of_ids}{axes.removesuffix(', ')} => ...|{input}{axes}..r.."
    else:
        raise ShapeError(
            f"`{table.label}.take({places.label})`: nothing says how many output axes either of them has"
            f"\n  fix    give `{table.label}` or `{places.label}` output=[...]"
        )
    return _picked("take", spec, table, places, "{0}.take({1})", label)


def pick(x: object, ids: object, *, label: str | None = None) -> Tensor:
    """The cell of the one output axis of `x` at the integer `ids`, for each cell of the batch row.

    Shapes: `...|v; ...| => ...|`. An id outside of the axis gives 0.
    Grad:   what arrives is added to the cells that were picked; ids have none.
    Raises: DtypeError for ids that are not integers; ShapeError.
    """
    values, places = embed(x), embed(ids)
    _refuse_fractions(places, "pick")
    return _picked("pick", "...|v; ...| => ...|", values, places, "pick({0}, {1})", label)


def one_hot(ids: object, n: int, *, dtype: object = None, label: str | None = None) -> Tensor:
    """1 at the integer `ids`, 0 elsewhere along a new last output axis of size `n`, as `dtype`, or as its users
    demand, or as float32.

    Shapes: `...|...->... => ...|...->..., n`. An id outside of the axis gives zeros.
    Grad:   none.
    Raises: DtypeError for ids that are not integers; DataError when `n` is no size.
    """
    places, kind = embed(ids), None if dtype is None else precision(dtype)
    _refuse_fractions(places, "one_hot")
    operation = contraction("one_hot", _ONE_HOT, _is_there, None, differentiable=False, kind=kind)
    return apply(replace(operation, demanded=kind is None), [places, iota(n)], label=label)


_ONE_HOT = einsum(parse("...|...->...; n => ...|...->..., n"))


def _is_there(place: Term, at: Term) -> Term:
    return term("eq", place, at)


def _picked(name: str, spec: str, table: Tensor, places: Tensor, text: str, label: str | None) -> Tensor:
    operation = contraction(name, einsum(parse(spec)), _first, ADD, weak_operands=frozenset({1}), text=text, picks=True)
    return apply(operation, [table, places], label=label)


def _first(x: Term, _: Term) -> Term:
    return x


def axes_known(t: Tensor, kind: int) -> int | None:
    """How many axes a row has, if that is known."""
    row = resolve(t.handle.rows[kind])
    return None if row.var is not None else row.count


def _has_axes(t: Tensor, kind: int) -> bool:
    """Whether a row is known to have axes, however many."""
    return resolve(t.handle.rows[kind]).count > 0


def _refuse_fractions(ids: Tensor, name: str) -> None:
    if ids.typing.is_float:
        kind = ids.typing.known
        raise DtypeError(f"`{name}` picks by integers, and `{ids.label}` is of type {kind}; give dtype=oc.int32")


REGISTRY.update(take=take, pick=pick, one_hot=one_hot)
