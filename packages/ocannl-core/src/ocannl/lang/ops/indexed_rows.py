"""Specs of operations on rows that integer tensors select.

The leading output axes of a tensor are indexed, and the rows are the remaining ones: row `ids[s]` of `x` is the cells
`x[ids[s], r]` for all `r`. Batch and input axes are kept. Indices have the batch row of the tensor, or no batch axes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ocannl.base.errors import ShapeError
from ocannl.infer.terms import find, resolve
from ocannl.lang.core.tensor import Tensor

BATCH, INPUT, OUTPUT = range(3)


@dataclass(frozen=True, slots=True)
class IndexedRows:
    """The parts of a spec: the axes `s` of the indices, the axes `r` of a row, and the batch and input rows.

    A spec has at most one row variable per row, so the axes `s` or `r` are listed.
    """

    index_axes: str
    row_axes: str
    batch: str
    index_batch: str
    input: str

    def table(self, *axes: str) -> str:
        """The spec of a tensor with indexed axes."""
        return self._shape(self.batch, self.input, *axes, self.row_axes)

    def result(self, *axes: str) -> str:
        """The spec of a result with indexed axes, and the batch row of the tensor or the indices."""
        return self._shape("...|", self.input, *axes, self.row_axes)

    def values(self) -> str:
        """The spec of a tensor of one row per index."""
        return self._shape("...|", self.input, self.index_axes, self.row_axes)

    def indices(self, component: int | None = None) -> str:
        """The spec of the indices, or of one component of these along their last axis."""
        return self._shape(self.index_batch, "", self.index_axes, "" if component is None else str(component))

    @staticmethod
    def _shape(batch: str, input: str, *axes: str) -> str:
        listed = ", ".join(filter(None, axes))
        return f"{batch}{input}{listed}"


def indexed_rows(
    x: Tensor, ids: Tensor, title: str, *, leading: int = 1, trailing: int = 0, is_per_index: bool = False
) -> IndexedRows:
    """The specs for the `leading` indexed axes of `x`, and for indices whose last `trailing` axes are components.

    With `is_per_index`, `x` has one row per index instead. Raises: ShapeError while the axes are unknown.
    """
    axes, index_axes = axis_count(x, OUTPUT), axis_count(ids, OUTPUT)
    if axes is not None and not is_per_index and axes >= leading:
        listed = "..s..", ", ".join(f"r{n}" for n in range(axes - leading))
    elif index_axes is not None and index_axes >= trailing:
        listed = ", ".join(f"s{n}" for n in range(index_axes - trailing)), "..r.."
    else:
        raise ShapeError(
            f"`{title}` of `{x.label}` and `{ids.label}`: the number of output axes of both operands is unknown"
            f"\n  fix    give `{x.label}` or `{ids.label}` output=[...]"
        )
    batch = "...|" if has_axes(x, BATCH) else ""
    index_batch = "" if batch and axis_count(ids, BATCH) == 0 else "...|"
    return IndexedRows(*listed, batch, index_batch, "..i.. -> " if has_axes(x, INPUT) else "")


def axis_count(t: Tensor, kind: int) -> int | None:
    """The number of axes of a row, or None while it is undetermined."""
    row = resolve(t.handle.rows[kind])
    return None if row.var is not None else row.count


def has_axes(t: Tensor, kind: int) -> bool:
    """Whether a row has at least one axis, as far as inferred."""
    return resolve(t.handle.rows[kind]).count > 0


def last_axis_size(t: Tensor) -> int | None:
    """The size of the last output axis, or None while it is undetermined."""
    axes = resolve(t.handle.rows[OUTPUT]).axes
    return find(axes[-1]).size if axes else None
