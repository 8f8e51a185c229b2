"""Memory that is allocated before code is generated: which, when, and that its contents do not change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl.backend.cpu import prefaulting
from ocannl.base.errors import OutOfMemory
from ocannl.runtime import reserved_memory


@pytest.fixture
def prefaulted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the prefaulted slabs, however small they are."""
    sizes: list[int] = []

    def recorded(memory: Any) -> None:
        sizes.append(memory.nbytes)
        prefaulting._populate(memory)

    monkeypatch.setattr(reserved_memory, "MIN_BYTES", 1)
    monkeypatch.setattr(reserved_memory, "prefault", recorded)
    return sizes


def counter(start: float) -> tuple[oc.Tensor, Any]:
    """A state, and the code that adds 1 to it."""
    total = oc.node("total", init=start, output=[3])

    @oc.cd
    def code() -> None:
        oc.assign(total, "add", total, 1.0)

    return total, code()


@pytest.mark.parametrize("start", [0.0, 2.5])
def test_states_are_reserved_and_filled(start: float, prefaulted: list[int]) -> None:
    total, code = counter(start)
    ctx = oc.Context()
    routine = ctx.compile(code)
    assert prefaulted[0] >= 12
    routine()
    routine()
    np.testing.assert_array_equal(ctx[total], np.full(3, start + 2))


def test_written_states_keep_their_values(prefaulted: list[int]) -> None:
    total, code = counter(0.0)
    ctx = oc.Context()
    ctx[total] = [1, 2, 3]
    ctx.compile(code)()
    assert not prefaulted
    np.testing.assert_array_equal(ctx[total], [2, 3, 4])


def test_an_arena_is_reserved_before_it_is_used(prefaulted: list[int]) -> None:
    x = oc.placeholder("x", output=[50, 70])
    ctx = oc.Context("llvm")
    ctx[x] = np.ones((50, 70), "float32")
    y = (oc.einsum("ij; kj => ik", oc.exp(x), x) ** 2).sum()
    routine = ctx.compile(y.forward)
    assert prefaulted
    routine()
    expected = float(ctx[y])
    ctx.compile((y * 2.0).forward)()
    routine()
    assert float(ctx[y]) == expected


def test_small_states_are_allocated_with_other_arrays(prefaulted: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reserved_memory, "MIN_BYTES", 1 << 20)
    total, code = counter(0.0)
    ctx = oc.Context()
    ctx.compile(code)()
    assert not prefaulted
    np.testing.assert_array_equal(ctx[total], np.ones(3))


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(*_arguments: Any, **_options: Any) -> Any:
        raise error

    return fail


def test_states_that_do_not_fit(prefaulted: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    total, code = counter(0.0)
    ctx = oc.Context()
    with monkeypatch.context() as patch:
        patch.setattr(ctx.arrays, "slab", failing(OutOfMemory("no memory on purpose")))
        with pytest.raises(OutOfMemory, match="on purpose"):
            ctx.compile(code)
    ctx.compile(code)()
    np.testing.assert_array_equal(ctx[total], np.ones(3))


def test_prefaulting_keeps_contents() -> None:
    memory = np.full(prefaulting.MIN_BYTES + 12_345, 7, np.uint8)
    prefaulting._populate(memory[5:-3])
    prefaulting.prefault(memory)
    assert (memory == 7).all()


def test_small_memory_needs_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefaulting.threading, "Thread", failing(AssertionError("a thread")))
    prefaulting.prefault(np.zeros(prefaulting.MIN_BYTES - 1, np.uint8))


def test_a_thread_that_cannot_start_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefaulting.threading, "Thread", failing(RuntimeError("can't start new thread")))
    prefaulting.prefault(np.zeros(prefaulting.MIN_BYTES, np.uint8))
