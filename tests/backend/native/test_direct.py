"""Direct (vectorcall) calls of compiled code are validated like all other calls."""

import gc
import threading
import weakref

import numpy as np
import pytest

import ocannl as oc
from ocannl.runtime.routine import DirectRoutine


@pytest.fixture
def ctx(native):
    with oc.Context(native.name, threads=1, queue="inline") as context:
        yield context


@pytest.fixture
def x():
    return oc.placeholder("x", batch=[], input=[], output=[3])


def counting(ctx, x):
    """A routine that adds `x` to a node at each call."""
    total = oc.node("total")
    with oc.cd("count") as code:
        total["=+"] = x
    step = ctx.compile(code)
    assert isinstance(step, DirectRoutine)
    return step, total


def sliced(ctx):
    rows = oc.tensor(np.arange(24, dtype="float32").reshape(2, 3, 4), batch_axes=2)
    i, j = oc.symbol("i", 0, 2), oc.symbol("j", 0, 3)
    picked = rows[i][j] + 0.0
    step = ctx.compile(picked.forward)
    assert isinstance(step, DirectRoutine)
    return step, picked


def test_every_call_counts(ctx, x):
    ctx[x] = np.ones(3, "float32")
    step, total = counting(ctx, x)
    for _ in range(10):
        assert step() is None
    assert ctx[total].tolist() == [10, 10, 10]
    ctx[x] = np.full(3, 2, "float32")
    step()
    assert ctx[total].tolist() == [12, 12, 12]


def test_unset_nodes_are_reported(ctx, x):
    step, total = counting(ctx, x)
    with pytest.raises(oc.UninitializedError, match="`x`: it was never set"):
        step()
    ctx[x] = 1
    step()
    assert ctx[total].tolist() == [1, 1, 1]


def test_a_closed_context_refuses(ctx, x):
    ctx[x] = 1
    step, _ = counting(ctx, x)
    step()
    step()
    ctx.close()
    with pytest.raises(oc.CodeError, match="this context is closed"):
        step()


def test_symbols_come_by_name(ctx):
    step, picked = sliced(ctx)
    for _ in range(2):  # checked by Python, then by compiled code
        for symbols in ({"i": 1, "j": 2}, {"j": 2, "i": 1}, {"i": np.int64(1), "j": np.uint8(2)}, {"i": 1, "j": 2}):
            step(i=0, j=0)
            step(**symbols)
            assert ctx[picked].tolist() == [20, 21, 22, 23]


@pytest.mark.parametrize(
    ("symbols", "error", "message"),
    [
        ({"i": 2, "j": 0}, oc.DataError, "must satisfy 0 <= i < 2, but is 2"),
        ({"i": 0, "j": -1}, oc.DataError, "must satisfy 0 <= j < 3, but is -1"),
        ({"i": 1 << 64, "j": 0}, oc.DataError, "must satisfy 0 <= i < 2"),
        ({"i": True, "j": 0}, oc.CodeError, "is an integer, not True"),
        ({"i": 1.0, "j": 0}, oc.CodeError, "is an integer, not 1.0"),
        ({"i": None, "j": 0}, oc.CodeError, "is an integer, not None"),
        ({"i": 1}, oc.CodeError, "needs the symbol `j`"),
        ({}, oc.CodeError, "needs the symbol `i`"),
        ({"i": 1, "j": 0, "k": 0}, oc.CodeError, "has no symbol `k`"),
        ({"i": 1, "k": 0}, oc.CodeError, "needs the symbol `j`"),
    ],
)
def test_a_wrong_symbol_changes_nothing(ctx, symbols, error, message):
    step, picked = sliced(ctx)
    step(i=0, j=1)
    step(i=0, j=1)
    with pytest.raises(error, match=message):
        step(**symbols)
    assert ctx[picked].tolist() == [4, 5, 6, 7]


def test_positional_arguments_are_refused(ctx):
    step, _ = sliced(ctx)
    step(i=0, j=1)
    with pytest.raises(TypeError, match="positional"):
        step(0, 1)


def test_calls_wait_for_the_lock(ctx, x):
    ctx[x] = 1
    step, total = counting(ctx, x)
    step()
    thread = threading.Thread(target=step)
    with ctx.lock:
        thread.start()
        thread.join(0.1)
        assert thread.is_alive()
        assert ctx[total].tolist() == [1, 1, 1]
    thread.join()
    assert ctx[total].tolist() == [2, 2, 2]


def test_routines_are_freed_by_reference_counting(ctx, x):
    ctx[x] = 1
    gc.disable()
    try:
        step, _ = counting(ctx, x)
        step()
        gone = weakref.ref(step)
        del step
        assert gone() is None
    finally:
        gc.enable()


def test_calls_of_a_deleted_routine(ctx, x):
    ctx[x] = 1
    step, total = counting(ctx, x)
    step()
    call = step.__call__
    del step
    gc.collect()
    call()
    assert ctx[total].tolist() == [2, 2, 2]
    ctx.close()
    with pytest.raises(oc.CodeError, match="is no more"):
        call()


def test_long_programs_are_not_called_directly(ctx):
    x = oc.placeholder("x", batch=[1 << 20], input=[], output=[])
    assert not isinstance(ctx.compile((x + 1.0).forward), DirectRoutine)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_direct_calls_of_parallel_programs(native, threads):
    numbers = np.random.default_rng(0)
    left, right = (numbers.integers(-9, 10, shape).astype("float32") for shape in ((48, 64), (64, 64)))
    with oc.Context(native.name, threads=threads, queue="inline") as context:
        a, b = oc.placeholder("a", batch=[48, 64], input=[], output=[]), oc.tensor(right, batch_axes=2)
        product = oc.einsum("ik|; kj| => ij|", a, b)
        step = context.compile(product.forward)
        assert isinstance(step, DirectRoutine) and "parallel(" in str(step.stages())
        for iteration in range(20):
            context[a] = left + iteration
            step()
            assert np.array_equal(context[product], (left + iteration) @ right)
