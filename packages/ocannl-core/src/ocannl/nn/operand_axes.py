"""The axes of operands that layers expect, and their sizes."""

from __future__ import annotations

from dataclasses import dataclass

from ocannl.base.errors import ShapeError
from ocannl.infer.explain import table
from ocannl.lang.api import Tensor
from ocannl.lang.ops.indexed_rows import BATCH, OUTPUT, axis_count


@dataclass(frozen=True)
class Layout:
    """Axes of an operand, with the number of output axes, and how a tensor gets them."""

    text: str
    output_count: int
    fix: str

    def misfit(self, x: Tensor, title: str) -> ShapeError:
        lines = table([x.handle], f"give `{x.label}` {self.fix}")
        return ShapeError("\n".join([f"nn.{title} takes {self.text}", *lines]))


FEATURES = Layout(
    "`...|c`: features along the output axis",
    1,
    "one output axis: batch_axes=1 of an array of rows of features, or output=[c]",
)
SEQUENCE = Layout(
    "`..b.., t|c`: positions along the last batch axis, features along the output axis",
    1,
    "batch axes: batch_axes=2 of an array of sequences, or batch=[n, t] and output=[c]",
)
HEADS = Layout("`..b.., t|h,d`: heads and their features along output axes", 2, "two output axes: output=[h, d]")


def check_sequence(x: Tensor, title: str) -> None:
    """Raises: ShapeError unless `x`, as far as inferred, has a batch axis, the positions, and an output axis."""
    if axis_count(x, BATCH) == 0 or axis_count(x, OUTPUT) not in (None, 1):
        raise SEQUENCE.misfit(x, title)


def position_count(x: Tensor, title: str) -> int:
    """The size of the last batch axis. Raises: ShapeError unless `x` has one."""
    sizes = x.dims[: len(x.shape.batch)]
    if not sizes:
        raise SEQUENCE.misfit(x, title)
    return sizes[-1]


def feature_count(x: Tensor, title: str, layout: Layout = FEATURES) -> int:
    """The size of the last output axis. Raises: ShapeError unless `x` has the output axes of the layout."""
    first, count = len(x.shape.batch), len(x.shape.output)
    if count != layout.output_count:
        raise layout.misfit(x, title)
    return x.dims[first + count - 1]
