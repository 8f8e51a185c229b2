"""Crops: windows of the spatial axes, at the center or at random."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.base.errors import ShapeError
from ocannl.infer.logic import einsum
from ocannl.infer.spec import Label, RowSpec, ShapeSpec, Spec
from ocannl.ir.ops import ADD
from ocannl.lang.core.context_vars import composite
from ocannl.lang.core.operation import ResultType, contraction
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.symbolic_terms import apply as term
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.ops.index_tensors import indices
from ocannl.lang.ops.repetition import slice_axes
from ocannl.lang.ops.sampling import randint
from ocannl.lang.ops.selected_axes import SelectedAxes, axis_vector, integers_per_axis, spatial_axes

Sizes = int | Sequence[int]


def _cropped(title: str, x: object, size: object) -> tuple[SelectedAxes, dict[str, int], dict[str, int]]:
    """The spatial axes, their new sizes, and the numbers of cells to remove. Raises: CodeError; ShapeError."""
    axes = spatial_axes(x, len(size) if isinstance(size, list | tuple) else None, title)
    sizes = dict(zip(axes.names, integers_per_axis(title, "size", size, len(axes.names)), strict=True))
    surplus = {name: axes.size(name) - new for name, new in sizes.items()}
    for name, cells in surplus.items():
        if cells < 0:
            problem = f"`{title}` of `{axes.x.label}`: the axis `{name}` has {axes.size(name)} cells"
            raise ShapeError(f"{problem}, and {sizes[name]} are to remain; oc.pad adds cells")
    return axes, sizes, surplus


@composite
def center_crop(x: object, size: Sizes) -> Tensor:
    """The window of `size` cells at the center of the spatial axes, which are the first output axes.

        oc.center_crop(images, (24, 24))

    `size` is one number for all output axes but the last, or one for each spatial axis. Of an odd number of surplus
    cells, the larger part is removed at the end.

    Shapes: `...|h, w, ..c.. => ...|size, size, ..c..`, for one to three spatial axes, whose sizes must be inferred
            before the call.
    Grad:   `g` in the window, else 0.
    Raises: CodeError for invalid sizes; ShapeError, also for axes that are smaller than the window.
    """
    axes, sizes, surplus = _cropped("center_crop", x, size)
    return slice_axes(axes, {name: (surplus[name] // 2, sizes[name]) for name in axes.names})


@composite
def random_crop(x: object, size: Sizes, *, key: str | None = None, counter: object = None) -> Tensor:
    """A window of `size` cells at random positions of the spatial axes, drawn for each element of the batch row.

        oc.random_crop(images, (24, 24), key="crops")

    The positions are new at each call, or those of `counter`; all are equally probable.

    Shapes: those of `center_crop`.
    Grad:   `g` in the window, else 0.
    Raises: CodeError for invalid sizes; ShapeError, also for axes that are smaller than the window.
    """
    axes, sizes, surplus = _cropped("random_crop", x, size)
    for name in axes.names:
        stream = None if key is None else f"{key}.{name}"
        if surplus[name] > 0:
            offset = randint(0, surplus[name] + 1, key=stream, counter=counter, output=[], input=[])
            axes = axes.with_tensor(_window_at(axes, name, offset, sizes[name]))
    return axes.x


def _window_at(axes: SelectedAxes, name: str, offset: Tensor, size: int) -> Tensor:
    """The cells of an axis from an offset, which has the batch row of the tensor."""
    target = f"{name}'"
    batch = ShapeSpec(batch=axes.shape.batch, output=RowSpec())
    result = axes.renamed({name: (Label(target),)})
    spec = Spec((axes.shape, batch, axis_vector(name), axis_vector(target)), result)

    def combine(v: Term, start: Term, source: Term, position: Term) -> Term:
        return term("where", term("eq", start + position, source), v, 0)

    kind = None if axes.x.typing.is_float else axes.x.typing.current
    result_type = ResultType(kind, weak_operands=frozenset({1, 2, 3}))
    operation = contraction(axes.title, einsum(spec), combine, ADD, result_type=result_type)
    return apply(operation, [axes.x, offset, indices(), indices({"n": size})])


REGISTRY.update(center_crop=center_crop, random_crop=random_crop)
