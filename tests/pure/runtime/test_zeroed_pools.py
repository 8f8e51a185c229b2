"""Arrays that start with zeros are not written in memory that was zero when it was allocated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl.backend.cpu import host_slab
from ocannl.backend.cpu.queue import CpuQueue
from ocannl.runtime.context import node_of


@pytest.fixture
def zeroed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of arrays that are zeroed in slabs of new memory, however small these are."""
    sizes: list[int] = []
    zero = CpuQueue.zero

    def recorded(queue: CpuQueue, where: Any, size_bytes: int) -> None:
        sizes.append(size_bytes)
        zero(queue, where, size_bytes)

    monkeypatch.setattr(host_slab, "MIN_ZEROED_BYTES", 1)
    monkeypatch.setattr(CpuQueue, "zero", recorded)
    return sizes


def counter() -> tuple[oc.Tensor, Any]:
    total = oc.node("total", init=0.0, output=[3])

    @oc.cd
    def code() -> None:
        oc.assign(total, "add", total, 1.0)

    return total, code()


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("threads", [1, 2])
def test_new_arrays_are_zero(backend: str, threads: int, zeroed: list[int]) -> None:
    total, code = counter()
    ctx = oc.Context(backend, threads=threads)
    routine = ctx.compile(code)
    np.testing.assert_array_equal(ctx[total], np.zeros(3))
    routine()
    routine()
    np.testing.assert_array_equal(ctx[total], [2, 2, 2])
    assert not zeroed


def test_reinitialized_arrays_are_zeroed(zeroed: list[int]) -> None:
    total, code = counter()
    ctx = oc.Context()
    ctx.compile(code)()
    ctx.upload_contents(node_of(total), again=True)
    np.testing.assert_array_equal(ctx[total], np.zeros(3))
    assert zeroed == [12]


def test_uploaded_values_are_replaced(zeroed: list[int]) -> None:
    total, _ = counter()
    ctx = oc.Context()
    ctx[total] = [1, 2, 3]
    ctx.upload_contents(node_of(total), again=True)
    np.testing.assert_array_equal(ctx[total], np.zeros(3))
    assert zeroed == [12]


def test_reused_memory_is_zeroed(zeroed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_slab, "MIN_ZEROED_BYTES", 1 << 40)
    total, code = counter()
    ctx = oc.Context()
    ctx.compile(code)()
    np.testing.assert_array_equal(ctx[total], np.ones(3))
    assert zeroed == [12]
