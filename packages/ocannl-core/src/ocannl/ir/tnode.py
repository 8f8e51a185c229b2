"""A tensor node: one array, wherever it may live."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import Protocol

import numpy as np

from ocannl.base.once import Once
from ocannl.ir.precision import Precision

_first_ids = count()
_ids: ContextVar[count[int]] = ContextVar("ocannl_ids")


def reset_ids() -> None:
    """Numbers in printed names start again at zero, in this context: for reproducible listings and tests."""
    _ids.set(count())


def next_id() -> int:
    return next(_ids.get(_first_ids))


class Role(Enum):
    """What a node is for; all but RESULT and GRADIENT are kept by every routine that writes them."""

    DATA = "data"  # constant contents from the host
    PARAMETER = "param"
    PLACEHOLDER = "placeholder"  # set from outside, or assigned by code
    STATE = "node"  # `oc.node`: kept between calls
    RESULT = "result"
    GRADIENT = "gradient"


class Placement(Enum):
    KEPT = "kept"  # owned by contexts, outlives the routine
    TEMPORARY = "temporary"  # lives, if anywhere, inside one call of one routine

    def __str__(self) -> str:
        return self.value


class Contents(Protocol):
    """What a node holds before any code writes it."""

    def array(self, dims: tuple[int, ...], precision: Precision, seed: int) -> np.ndarray: ...


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a routine put a node, and which rule said so."""

    placement: Placement
    author: str

    def __str__(self) -> str:
        return f"{self.placement}, settled by {self.author}"


class TNode:
    """An identity object. Its dims and precision settle once, when code is generated; `requested` is the placement that
    a user asked for, for good; `decided` what the newest routine that mentions it made of it."""

    __slots__ = (
        "__weakref__", "_dims", "_dims_of", "_label", "_precision", "_precision_of", "contents", "decided", "id", "of",
        "requested", "role", "where",
    )  # fmt: skip

    def __init__(
        self,
        label: str,
        role: Role,
        dims: Callable[[], tuple[int, ...]],
        precision: Callable[[], Precision],
        *,
        of: TNode | None = None,
        contents: Contents | None = None,
        where: str = "",
    ) -> None:
        self.id = next_id()
        self.of = of  # the value node of which this is the gradient
        self.role = role
        self.contents = contents
        self.where = where  # file and line of the user's code
        self.requested: Once[Placement] = Once(f"the placement of `{label}`")
        self.decided: Decision | None = None
        self._label = label
        self._dims_of = dims
        self._precision_of = precision
        self._dims: tuple[int, ...] | None = None
        self._precision: Precision | None = None

    @property
    def label(self) -> str:
        return f"{self.of.label}.grad" if self.of is not None else self._label or f"n{self.id}"

    @label.setter
    def label(self, text: str) -> None:
        self._label = text
        self.requested.what = f"the placement of `{text}`"

    @property
    def dims(self) -> tuple[int, ...]:
        """Sizes in memory order (batch, output, input); asking finishes inference."""
        if self._dims is None:
            self._dims = self._dims_of()
        return self._dims

    @property
    def precision(self) -> Precision:
        if self._precision is None:
            self._precision = self._precision_of()
        return self._precision

    dtype = precision

    @property
    def placement(self) -> Decision | None:
        """What was settled, and by whom: a request, or the decision of the newest routine that mentions the node."""
        if self.requested:
            assert self.requested.value is not None and self.requested.author is not None
            return Decision(self.requested.value, self.requested.author)
        return self.decided

    def __repr__(self) -> str:
        return f"<node {self.label}>"


