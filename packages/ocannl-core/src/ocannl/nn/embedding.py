"""Embeddings: rows of a table."""

from __future__ import annotations

from ocannl.lang import api as oc
from ocannl.lang.api import Tensor
from ocannl.nn.layer import layer


@layer
def embedding(ids: Tensor, *, count: int, width: int, init: object = None) -> Tensor:
    """The rows of a learned table at integer ids, from 0 to `count - 1`.

    Shapes: `..b..|..i.. => ..b..|..i.., width`; `table` is `count, width`.
    Init:   `table` by `init`, `oc.normal()` by default.
    """
    table = oc.param(oc.normal() if init is None else init, o=[count, width])
    return table.take(ids)
