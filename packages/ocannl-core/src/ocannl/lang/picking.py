"""Cells picked by integers: rows of tables, classes of scores."""

from __future__ import annotations

from ocannl.base.errors import DtypeError, ShapeError
from ocannl.infer.logic import einsum
from ocannl.infer.parse import parse
from ocannl.infer.terms import resolve
from ocannl.ir.ops import ADD
from ocannl.lang.leaves import embed
from ocannl.lang.operation import contraction
from ocannl.lang.operators import REGISTRY
from ocannl.lang.tensor import Tensor, apply
from ocannl.lang.terms import Term


def take(t: object, ids: object, *, label: str | None = None) -> Tensor:
    """Rows of the leading output axis of `t`, at the integers `ids`: the axes of `ids`, then the rest of `t`.

    Shapes: `v, ..r..; ..b..|..s.. => ..b..|..s.., ..r..`; the number of axes of one of `r` and `s` must be known when
    this is written. Batch and input rows that `t` is known to have stay: the batch row is that of `ids`, too. An id
    outside of the table gives zeros, it never wraps.
    Grad: what arrives is added to the rows that were taken; ids have none.
    Raises: DtypeError for ids that are not integers; ShapeError.
    """
    table, places = embed(t), embed(ids)
    _refuse_fractions(places, "take")
    rest, asked = _count(table, 2), _count(places, 2)
    batch = "...|" if _count(table, 0) else ""
    input = "..i.. -> " if _count(table, 1) else ""
    if rest is not None and rest >= 1:
        axes = "".join(f", r{n}" for n in range(rest - 1))
        spec = f"{batch}{input}v{axes}; ...|..s.. => ...|{input}..s..{axes}"
    elif asked is not None:
        axes = "".join(f"s{n}, " for n in range(asked))
        spec = f"{batch}{input}v, ..r..; ...|{axes.removesuffix(', ')} => ...|{input}{axes}..r.."
    else:
        raise ShapeError(
            f"`{table.label}.take({places.label})`: nothing says how many output axes either of them has"
            f"\n  fix    give `{table.label}` or `{places.label}` output=[...]"
        )
    return _picked("take", spec, table, places, "{0}.take({1})", label)


def pick(x: object, ids: object, *, label: str | None = None) -> Tensor:
    """The cell of the one output axis of `x` at the integer `ids`, for each batch: `...|v; ...| => ...|`."""
    values, places = embed(x), embed(ids)
    _refuse_fractions(places, "pick")
    return _picked("pick", "...|v; ...| => ...|", values, places, "pick({0}, {1})", label)


def _picked(name: str, spec: str, table: Tensor, places: Tensor, text: str, label: str | None) -> Tensor:
    operation = contraction(name, einsum(parse(spec)), _first, ADD, weak_operands=frozenset({1}), text=text, picks=True)
    return apply(operation, [table, places], label=label)


def _first(x: Term, _: Term) -> Term:
    return x


def _count(t: Tensor, row_number: int) -> int | None:
    """How many axes a row has, if that is known."""
    row = resolve(t.handle.rows[row_number])
    return None if row.var is not None else row.count


def _refuse_fractions(ids: Tensor, name: str) -> None:
    if ids.dtype.is_float:
        raise DtypeError(f"`{name}` picks by integers, and `{ids.label}` is of type {ids.dtype}; give dtype=oc.int32")


REGISTRY.update(take=take, pick=pick)
