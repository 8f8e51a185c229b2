"""Every way in which a weight can be written reaches routines that keep packed weights: they compute what a routine
computes that packs the weights in each call."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

BATCH, INPUTS, OUTPUTS = 24, 200, 300  # large enough to be packed
RNG = np.random.default_rng(0)


class Layer:
    """A layer of a context, with one routine that keeps packed weights and one that packs them in each call."""

    def __init__(self, context: oc.Context, batch: int = BATCH, inputs: int = INPUTS, outputs: int = OUTPUTS) -> None:
        self.context, self.dims = context, (outputs, inputs)
        self.x = oc.placeholder("x", batch=[batch], i=[], o=[inputs])
        self.w = oc.param("w", i=[inputs], o=[outputs])
        self.y = oc.relu(self.w @ self.x)
        self.loss = (self.y**2).mean()
        context[self.w], context[self.x] = self.values(), RNG.normal(size=(batch, inputs))
        with oc.settings(precompute_weights=True):
            self.keeping = context.compile(self.y.forward, keep=[self.y])
        with oc.settings(precompute_weights=False):
            self.packing = context.compile(self.y.forward, keep=[self.y])
        assert self.keeping.precomputed_bytes
        assert not self.packing.precomputed_bytes

    def values(self) -> np.ndarray:
        return RNG.normal(size=self.dims).astype("f4")

    def check(self) -> None:
        for _ in range(2):
            self.keeping()
            kept = self.context[self.y]
            self.packing()
            np.testing.assert_allclose(kept, self.context[self.y], rtol=1e-4, atol=1e-3)

    def checked(self) -> None:
        """Checks that the weights have changed, and the result with them."""
        before = self.context[self.y]
        self.check()
        assert not np.allclose(before, self.context[self.y])

    def doubled(self, label: str = "doubled") -> oc.Code:
        with oc.cd(label) as code:
            self.w[...] = self.w * 2.0
        return code


@pytest.fixture(params=["inline", "threaded"])
def layer(native, request):
    with oc.Context(native.name, queue=request.param) as context:
        layer = Layer(context)
        layer.check()
        yield layer


# --- each of them writes the weight of a layer ------------------------------------------------------------------------


def set_items(layer, tmp_path):
    layer.context[layer.w] = layer.values()


def set_a_number(layer, tmp_path):
    layer.context[layer.w] = 0.25


def set_the_node(layer, tmp_path):
    layer.context.set(layer.w.value, layer.values().T.copy().T)  # other strides


def set_after_a_refusal(layer, tmp_path):
    layer.context[layer.w] = layer.values()
    with pytest.raises(oc.ShapeError):
        layer.context[layer.w] = np.zeros((3, 3))


def run_code(layer, tmp_path):
    layer.context.run(layer.doubled())


def call_a_routine(layer, tmp_path):
    routine = layer.context.compile(layer.doubled())
    for _ in range(2):
        layer.check()
        routine()


def call_all_routines(layer, tmp_path):
    first, second = layer.context.compile_all([layer.doubled("first"), layer.doubled("second")])
    first()
    layer.check()
    second()


def train_the_weights(layer, tmp_path):
    step = layer.context.compile(oc.seq(train.grad_update(layer.loss), train.sgd(layer.loss, 0.5)), keep=[layer.y])
    for _ in range(3):
        layer.check()
        step()


def load_a_file(layer, tmp_path):
    with oc.Context(layer.context.backend.name) as source:
        source[layer.w] = layer.values()
        oc.save(tmp_path / "w.ocannl", source, layer.w)
    oc.load(tmp_path / "w.ocannl", layer.context, layer.w)


def load_weights(layer, tmp_path):
    np.savez(tmp_path / "w.npz", w=layer.values())
    oc.load_weights(tmp_path / "w.npz", {"w": layer.w}, ctx=layer.context)


def transfer_into_the_node(layer, tmp_path):
    with oc.Context(layer.context.backend.name, device=1) as source:
        source[layer.w] = layer.values()
        transfer = oc.transfer(layer.w, src=source, dst=layer.context, into="node")
        for _ in range(2):
            layer.check()
            source[layer.w] = layer.values()
            transfer()


def transfer_and_merge(layer, tmp_path):
    with oc.Context(layer.context.backend.name, device=1) as source:
        source[layer.w] = layer.values()
        transfer = oc.transfer(layer.w, src=source, dst=layer.context)
        with oc.cd("merged") as code:
            layer.w[...] = layer.w.merge * 1.0
        routine = layer.context.compile(code)
        transfer()
        layer.check()
        routine()


def write_a_shared_array(layer, tmp_path):
    shared = np.from_dlpack(layer.context.share(layer.w))
    for _ in range(2):
        layer.check()
        np.asarray(layer.context.share(layer.w))[...] = layer.values()
    assert np.array_equal(shared, layer.context[layer.w])


def write_in_a_host_call(layer, tmp_path):
    def written(w):
        layer.context[layer.w] = w * 2
        return w

    layer.context.run(copied(written)(layer.w, label="copy").forward)


def assign_from_a_host_call(layer, tmp_path):
    with oc.cd("assigned") as code:
        layer.w[...] = copied(lambda w: w * 3)(layer.w, label="tripled")
    layer.context.run(code)


def write_in_another_thread(layer, tmp_path):
    thread = threading.Thread(target=set_items, args=(layer, tmp_path))
    thread.start()
    thread.join()


def fail_in_between(layer, tmp_path):
    def failing(w):
        raise RuntimeError

    layer.context[layer.w] = layer.values()
    with pytest.raises(oc.HostCallError):
        layer.context.run(copied(failing)(layer.w, label="failed").forward)


def profile_a_writer(layer, tmp_path):
    layer.context.compile(layer.doubled()).profile(calls=2)  # restores the weight
    layer.check()
    layer.context[layer.w] = layer.values()


def copied(function: Callable[[np.ndarray], np.ndarray]):
    @oc.defop(shape="...|i->o => ...|i->o", doc="The result of a function of a matrix.")
    def copied_matrix(x):
        def forward(v, v1):
            v["=:"] = oc.host_call(function, v1)

        return forward, None

    return copied_matrix


WRITERS = [
    set_items, set_a_number, set_the_node, set_after_a_refusal, run_code, call_a_routine, call_all_routines,
    train_the_weights, load_a_file, load_weights, transfer_into_the_node, transfer_and_merge, write_a_shared_array,
    write_in_a_host_call, assign_from_a_host_call, write_in_another_thread, fail_in_between, profile_a_writer,
]  # fmt: skip


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_a_write_is_noticed(layer, write, tmp_path):
    write(layer, tmp_path)
    layer.checked()
    gc.collect()
    layer.check()


def test_writes_in_random_order(layer, tmp_path):
    for number in RNG.permutation(2 * len(WRITERS)):
        write = WRITERS[number % len(WRITERS)]
        if write is not write_a_shared_array:  # from then on, weights are packed in each call
            write(layer, tmp_path)
            layer.context[layer.w] = layer.context[layer.w] / max(1, np.abs(layer.context[layer.w]).max())
            layer.check()


def test_views_for_reading_cannot_be_written(layer):
    with layer.context.lock, pytest.raises(ValueError, match="read-only"):
        layer.context.host_array(layer.w)[...] = 0
    layer.check()
    layer.set = layer.context[layer.w]  # a copy
    layer.set[...] = 0
    layer.check()


# --- short routines, which are called without Python ------------------------------------------------------------------


def test_calls_of_a_deleted_routine_are_noticed(native):
    with oc.Context(native.name) as context:
        layer = Layer(context, batch=1, inputs=64, outputs=64)
        doubling = context.compile(layer.doubled())
        for _ in range(3):
            doubling()
            layer.check()
        call = doubling.__call__
        if getattr(call, "__self__", None) is doubling:
            pytest.skip("not called directly")
        del doubling
        gc.collect()
        layer.check()
        for _ in range(3):
            call()
            layer.check()
        del call
        layer.check()


def test_short_routines_alternate(native):
    with oc.Context(native.name) as context:
        layer = Layer(context, batch=1, inputs=64, outputs=64)
        step = context.compile(oc.seq(train.grad_update(layer.loss), train.sgd(layer.loss, 0.5)))
        for _ in range(5):
            step()
            layer.check()
        del step
        context[layer.w] = layer.values()
        layer.check()


# --- a host call that writes a weight for a later part, or for the next call ------------------------------------------


def parts_that_write(layer: Layer, function: Callable[[np.ndarray], np.ndarray]) -> oc.Code:
    """Computes the layer, passes the result to a function, and doubles the weight in a later part."""
    seen = copied(function)(oc.einsum("b|o => |b->o", layer.y), label="seen")
    return oc.seq(oc.forward(seen), layer.doubled())


def test_profiles_compute_with_the_weights_of_each_call(layer):
    sums = []
    with oc.settings(precompute_weights=True):
        routine = layer.context.compile(parts_that_write(layer, lambda y: sums.append(float(y.sum())) or y))
    assert routine.precomputed_bytes
    before = layer.context[layer.w]
    routine()
    layer.context[layer.w] = before
    sums.clear()
    routine.profile(calls=4)
    np.testing.assert_allclose(layer.context[layer.w], before)
    calls = sums[-5:]  # of the whole routine
    np.testing.assert_allclose(calls, [calls[0] * 2**n for n in range(5)], rtol=1e-4)
    layer.check()


def test_a_call_may_write_its_own_weights(layer):
    """The function sets the weight in the context, which the routine does not know."""

    def function(y):
        layer.context[layer.w] = layer.context[layer.w] * 2
        sums.append(float(y.sum()))
        return y

    sums: list[float] = []
    seen = copied(function)(oc.einsum("b|o => |b->o", layer.y), label="seen")
    with oc.settings(precompute_weights=True):
        routine = layer.context.compile(oc.forward(seen))
    assert routine.precomputed_bytes
    for _ in range(5):
        routine()
    np.testing.assert_allclose(sums, [sums[0] * 2**n for n in range(5)], rtol=1e-4)


# --- several contexts, loops, processes and memory --------------------------------------------------------------------


def test_data_parallel_training(native):
    with oc.Context(native.name) as first, oc.Context(native.name, device=1) as second:
        layer = Layer(first)
        x, w, y = layer.x, layer.w, layer.y
        second[x], second[w] = RNG.normal(size=(BATCH, INPUTS)), layer.values()
        with oc.settings(precompute_weights=True):
            keeping = second.compile(y.forward, keep=[y])
        keeping()
        step = train.DataParallel([first, second], layer.loss, train.sgd(layer.loss, 0.5))
        for _ in range(3):
            step(*[{x: RNG.normal(size=(BATCH, INPUTS))} for _ in range(2)])
            layer.check()
            keeping()
            np.testing.assert_allclose(second[y], np.maximum(second[x] @ second[w].T, 0), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kind", ["scan", "while"])
def test_loops_read_new_weights(native, kind):
    width = 128
    with oc.Context(native.name) as context:
        w = oc.param("w", i=[width], o=[width])
        start = oc.placeholder("start", batch=[4], o=[width])
        if kind == "scan":
            result, _ = oc.scan(lambda c, _: (oc.tanh(w @ c), None), start, length=5)
        else:
            result = oc.while_loop(lambda c: (c * c).sum() > 1e-3, lambda c: oc.tanh(w @ c), start, bound=5)
        context[start], context[w] = RNG.normal(size=(4, width)), np.eye(width)
        routines = []
        for setting in (True, False):
            with oc.settings(precompute_weights=setting):
                routines.append(context.compile(result.forward, keep=[result]))
        with oc.cd("scaled") as code:
            w[...] = w * 0.5
        for _ in range(3):
            results = []
            for routine in routines:
                routine()
                results.append(context[result])
            np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5)
            context[w] = RNG.normal(size=(width, width)) / width
            context.run(code)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_forks_have_weights_of_their_own(native):
    with oc.Context(native.name, threads=1) as context:
        layer = Layer(context)
        layer.check()
        child = os.fork()
        if not child:
            status = 1
            try:
                context[layer.w] = layer.values()
                layer.checked()
                status = 0
            finally:
                os._exit(status)
        layer.check()
        assert os.waitpid(child, 0)[1] == 0
        layer.check()


def test_memory_that_is_used_again(native):
    for _ in range(6):
        with oc.Context(native.name) as context:
            layer = Layer(context)
            layer.check()
            layer.keeping = None
            gc.collect()
            layer = Layer(context)
            layer.check()
            set_items(layer, None)
            layer.checked()


def test_threads_that_write_and_read(native):
    """Under the lock of the context, what a thread reads is what a thread has written before."""
    with oc.Context(native.name) as context:
        layer, failures = Layer(context), []

        def work() -> None:
            try:
                for _ in range(10):
                    with context.lock:
                        layer.context[layer.w] = float(RNG.normal())
                        layer.check()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
