"""States that are filled while their routines are compiled: when, which, and what becomes of errors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl.base.errors import OutOfMemory
from ocannl.runtime import context as context_module
from ocannl.runtime import filled_states
from ocannl.runtime.context import Context


@pytest.fixture
def fill(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The states that were uploaded by another thread, however small they are."""
    monkeypatch.setattr(filled_states, "MIN_BYTES", 1)
    uploaded: list[str] = []
    upload = Context.upload_contents

    def recorded(ctx: Context, *nodes: Any, **options: Any) -> None:
        upload(ctx, *nodes, **options)
        if threading.current_thread() is not threading.main_thread():
            uploaded.extend(node.label for node in nodes)

    monkeypatch.setattr(Context, "upload_contents", recorded)
    yield uploaded
    assert "ocannl states" not in {thread.name for thread in threading.enumerate()}


def counter(start: float) -> tuple[oc.Tensor, Any]:
    """A state, and the code that adds 1 to it."""
    total = oc.node("total", init=start, output=[3])

    @oc.cd
    def code() -> None:
        oc.assign(total, "add", total, 1.0)

    return total, code()


@pytest.mark.parametrize("start", [0.0, 2.5])
def test_states_start_with_their_number(start: float, fill: list[str]) -> None:
    total, code = counter(start)
    ctx = oc.Context()
    routine = ctx.compile(code)
    assert fill == ["total"]
    routine()
    routine()
    np.testing.assert_array_equal(ctx[total], np.full(3, start + 2))


def test_written_states_keep_their_values(fill: list[str]) -> None:
    total, code = counter(0.0)
    ctx = oc.Context()
    ctx[total] = [1, 2, 3]
    ctx.compile(code)()
    assert not fill
    np.testing.assert_array_equal(ctx[total], [2, 3, 4])


def test_small_states_are_filled_by_the_caller(fill: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filled_states, "MIN_BYTES", 13)
    total, code = counter(0.0)
    ctx = oc.Context()
    ctx.compile(code)()
    assert not fill
    np.testing.assert_array_equal(ctx[total], np.ones(3))


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(*_arguments: Any, **_options: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize("error", [KeyboardInterrupt(), oc.CompileError("on purpose")])
def test_a_failed_compilation_leaves_no_thread(
    error: BaseException, fill: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    total, code = counter(0.0)
    ctx = oc.Context()
    with monkeypatch.context() as patch:
        patch.setattr(context_module, "compile_routines", failing(error))
        with pytest.raises(type(error)):
            ctx.compile(code)
    ctx.compile(code)()
    np.testing.assert_array_equal(ctx[total], np.ones(3))


def test_errors_of_the_upload_are_raised_by_the_caller(fill: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    _, code = counter(0.0)
    ctx = oc.Context()
    monkeypatch.setattr(ctx.arrays, "allocate", failing(OutOfMemory("no memory on purpose")))
    with pytest.raises(OutOfMemory, match="on purpose"):
        ctx.compile(code)
