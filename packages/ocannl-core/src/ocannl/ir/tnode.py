"""Tensor nodes: identities of arrays, independent of where they are stored."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import NoReturn, Protocol

import numpy as np

from ocannl.base import spelling
from ocannl.base.errors import ArgumentError
from ocannl.base.write_once import WriteOnce
from ocannl.ir.precision import Precision

_default_ids = count()
_ids: ContextVar[count[int]] = ContextVar("ocannl_ids")


def reset_ids() -> None:
    """Restarts the numbering of nodes in this context, for reproducible listings and tests."""
    _ids.set(count())


def next_id() -> int:
    return next(_ids.get(_default_ids))


class Role(Enum):
    """The purpose of a node. Routines keep all nodes that they write, except RESULT and GRADIENT."""

    DATA = "data"  # constant contents from the host
    PARAMETER = "param"
    PLACEHOLDER = "placeholder"  # set from outside, or assigned by code
    STATE = "node"  # `oc.node`: kept between calls
    RESULT = "result"
    GRADIENT = "gradient"


class Placement(Enum):
    KEPT = "kept"  # stored in contexts, outlives the routine
    TEMPORARY = "temporary"  # exists, if at all, within one call of a routine

    def __str__(self) -> str:
        return self.value


class Contents(Protocol):
    """The initial contents of a node."""

    def array(self, dims: tuple[int, ...], precision: Precision, seed: int) -> np.ndarray:
        """Returns the contents; the array may be read-only, and a view that repeats cells."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """The placement of a node, and the rule or user that decided it."""

    placement: Placement
    author: str

    def __str__(self) -> str:
        return f"{self.placement}, settled by {self.author}"


@spelling.with_answers(spelling.NODE)
class TNode:
    """A tensor node, compared by identity. Dims and precision are fixed when code is generated; `requested` is a user's
    permanent choice of placement, `last_decision` that of the latest routine that mentions the node; `path` is the path
    of a parameter or state with its blocks, its label if None. Checked runs raise `violation`, if there is one, when a
    cell of the node is not 0."""

    __slots__ = (
        "__weakref__", "_compute_dims", "_compute_precision", "_dims", "_label", "_precision", "_tensor",
        "contents", "gradient_of", "id", "last_decision", "path", "requested", "role", "violation", "where",
    )  # fmt: skip

    def __init__(
        self,
        label: str,
        role: Role,
        dims: Callable[[], tuple[int, ...]],
        precision: Callable[[], Precision],
        *,
        gradient_of: TNode | None = None,
        contents: Contents | None = None,
        where: str = "",
    ) -> None:
        self.id = next_id()
        self.gradient_of = gradient_of  # the value node, if this is a gradient
        self.role = role
        self.contents = contents
        self.where = where  # file and line of the user's code
        self.requested: WriteOnce[Placement] = WriteOnce(f"the placement of `{label}`")
        self.last_decision: Decision | None = None
        self.violation: Callable[[], str] | None = None
        self.path: str | None = None
        self._tensor: Callable[[], object] | None = None
        self._label = label
        self._compute_dims = dims
        self._compute_precision = precision
        self._dims: tuple[int, ...] | None = None
        self._precision: Precision | None = None

    @property
    def label(self) -> str:
        return f"{self.gradient_of.label}.grad" if self.gradient_of is not None else self._label or f"n{self.id}"

    @label.setter
    def label(self, text: str) -> None:
        self._label = text
        self.requested.subject = f"the placement of `{text}`"

    @property
    def dims(self) -> tuple[int, ...]:
        """Sizes in memory order (batch, output, input). The first access completes inference."""
        if self._dims is None:
            self._dims = self._compute_dims()
        return self._dims

    @property
    def precision(self) -> Precision:
        if self._precision is None:
            self._precision = self._compute_precision()
        return self._precision

    dtype = precision

    @property
    def placement(self) -> Decision | None:
        """The placement and who decided it: a user's request, or the latest routine that mentions the node."""
        if self.requested:
            assert self.requested.value is not None and self.requested.author is not None
            return Decision(self.requested.value, self.requested.author)
        return self.last_decision

    def __repr__(self) -> str:
        return f"<node {self.label}>"


def set_tensor(node: TNode, tensor: object) -> None:
    """Remembers the tensor of the language whose value a node is, by a weak reference; the first one stays."""
    if node._tensor is None:
        node._tensor = weakref.ref(tensor)


def tensor_of(node: TNode) -> object | None:
    """The tensor of the language whose value, or gradient, a node is, for explanations; None if it is no more."""
    return None if node._tensor is None else node._tensor()


def _refuse_operator(node: TNode, *_: object) -> NoReturn:
    name = node.label
    raise ArgumentError(f"`{name}` is a node: write the tensor in expressions, ctx[t] for the value")


_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "pow", "mod", "matmul", "and", "or", "xor", "lshift", "rshift")
for _name in _BINARY:
    setattr(TNode, f"__{_name}__", _refuse_operator)
    setattr(TNode, f"__r{_name}__", _refuse_operator)
for _name in ["neg", "pos", "abs", "float", "int", "getitem", "setitem", "lt", "le", "gt", "ge"]:
    setattr(TNode, f"__{_name}__", _refuse_operator)




def temporary_of(node: TNode, name: str, dims: tuple[int, ...], precision: Precision) -> TNode:
    """A node for intermediate values of the code of `node`, labelled after it."""
    return TNode(f"{node.label}.{name}", Role.RESULT, lambda: dims, lambda: precision, where=node.where)
