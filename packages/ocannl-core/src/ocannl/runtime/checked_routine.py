"""Checked routines: the setting `check_numbers` finds the first NaN of a call, and class ids out of range.

All nodes of the code are kept, so that every call can be searched in order of execution; checked runs are slower and
take more memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ocannl.base.errors import DataError
from ocannl.ir.assign import Comp, nodes, written_nodes
from ocannl.ir.tnode import Placement, Role, TNode
from ocannl.runtime.routine import Routine

REASON = "check_numbers"


def nodes_to_keep(code: Comp) -> dict[TNode, str]:
    """The nodes of the code that are temporary otherwise, with the reason to keep them."""
    temporary = (node for node in nodes(code) if node.role in (Role.RESULT, Role.GRADIENT))
    return {node: REASON for node in temporary if node.requested.value is not Placement.TEMPORARY}


class CheckedRoutine(Routine):
    """A routine that checks the nodes that each call reads and writes.

    Raises: DataError for the first node that holds NaN, or that a check of its operation finds wrong.
    """

    __slots__ = ()

    def __call__(self, /, **symbols: Any) -> None:
        for node in self.inputs:
            if _is_float(node) and self._arrays.holds(node) and np.isnan(self._downloaded(node)).any():
                raise DataError(f"`{node.label}` holds NaN before routine `{self.name}` runs{_position(node)}")
        super().__call__(**symbols)
        for node in self._checked_nodes():
            values = self._downloaded(node)
            if node.violation is not None and values.any():
                raise DataError(f"{node.violation()}{_position(node)}")
            if _is_float(node) and (number := int(np.isnan(values).sum())):
                raise DataError(
                    f"routine `{self.name}`: the first NaN is in `{node.label}`, in {number} of {values.size} "
                    f"cells{_position(node)}"
                )

    def _checked_nodes(self) -> Iterable[TNode]:
        written = dict.fromkeys(written_nodes(self._program.comp))
        return [node for node in written if node in self._program.outputs and self._arrays.holds(node)]

    def _downloaded(self, node: TNode) -> np.ndarray[Any, Any]:
        values = self._arrays.download(node)
        return values.astype(np.float64) if _is_float(node) else values


def _is_float(node: TNode) -> bool:
    return node.precision.is_float


def _position(node: TNode) -> str:
    source = node.gradient_of or node
    return f"\n  in   {source.label}  {source.where}" if source.where else ""
