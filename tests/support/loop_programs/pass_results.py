"""Arrays of programs written by hand, and the comparison of what a program computes before and after a pass."""

from __future__ import annotations

import numpy as np

from ocannl.ir.interpret import interpret
from ocannl.ir.loops import AccessMode, Buf, MemorySpace, Proc, row_major
from ocannl.ir.precision import float32
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.verify import verify


def array(label: str, *dims: int, access: AccessMode = AccessMode.IN) -> Buf:
    """An array of the caller, of float32."""
    node = TNode(label, Role.PLACEHOLDER, lambda: dims, lambda: float32)
    return Buf(label, float32, dims, row_major(dims), MemorySpace.GLOBAL, access, node)


def assert_equal_results(before: Proc, after: Proc) -> None:
    """Verifies the optimized program, and compares all its arrays with those of the other one, from random values."""
    verify(after, "optimized")
    numbers = np.random.default_rng(0)
    arrays = {buf.node: numbers.normal(size=buf.shape).astype("float32") for buf in before.bufs if buf.node is not None}
    wanted, got = interpret(before, arrays, {}), interpret(after, arrays, {})
    for node, result in wanted.items():
        np.testing.assert_array_equal(got[node], result)
