"""Assignments by Threefry: `key["=^^^^"] = counter` and `bits["=:^^^^"] = counter`."""

from __future__ import annotations

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.lang.core.leaf_constructors import tensor
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.threefry import threefry4x32
from ocannl.lang.record.assignments import StatementRecorder, store_value

THREEFRY = {"=^^^^": False, "=:^^^^": True}
"""The assignments, and whether the target is cleared first: then the key is 0."""


def threefry_sign(key: object) -> str | None:
    """The assignment, if it is by Threefry. Raises: CodeError for explicit loops beside it."""
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str) and key[0] in THREEFRY:
        raise CodeError(f"{key[0]!r} has no loops to write: leave {key[1]!r} out")
    return key if isinstance(key, str) and key in THREEFRY else None


def assign_threefry(active: StatementRecorder, lhs: Tensor, sign: str, counter: object) -> None:
    """Records `lhs <- threefry4x32(lhs, counter)`, with the key 0 in place of `lhs` if the target is cleared."""
    key = tensor(np.zeros(4, np.uint32), label="zero_key") if THREEFRY[sign] else lhs
    store_value(active, lhs, threefry4x32(key, counter))
