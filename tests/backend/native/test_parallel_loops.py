"""Nests fused into one parallel loop over the batch; results do not depend on the number of threads."""

import gc
import re

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.runtime.profile import partition
from ocannl.runtime.program import links

BATCH, LENGTH, WIDTH = 16, 32, 48


def step(context):
    """Two attention layers whose activations exceed a core's cache: loss, gradients and update."""

    @oc.op
    def layer(x):
        q, k, v = (oc.param(name, o=[WIDTH]) @ x for name in "qkv")
        scores = oc.einsum("...s|d; ...t|d => ...s|t", q, k) * WIDTH**-0.5
        weights = oc.exp(scores - scores.max("...s|t => ...s|0"))
        mixed = oc.einsum("...s|t; ...t|d => ...s|d", weights / weights.sum("...s|t => ...s|0"), v)
        hidden = oc.tanh(oc.param("up", o=[2 * WIDTH]) @ (x + mixed))
        return x + oc.param("down", o=[WIDTH]) @ hidden

    x = oc.placeholder("x", batch=[BATCH, LENGTH], input=[], output=[WIDTH])
    first, second = layer(label="first"), layer(label="second")  # labels make initial values repeatable
    loss = (second(first(x)) ** 2).sum() * (1.0 / BATCH)
    context.init(loss, seed=3)
    numbers = np.random.default_rng(0)
    context[x] = numbers.standard_normal((BATCH, LENGTH, WIDTH)).astype(np.float32)
    routine = context.compile(oc.seq(train.grad_update(loss), train.sgd(loss, 1e-3)))
    losses = []
    for _ in range(3):
        routine()
        losses.append(float(context[loss]))
    return routine, np.array(losses), [context[p] for p in loss.params.values()]


@pytest.fixture(scope="module")
def wanted():
    with oc.Context("numpy") as context:
        return step(context)[1:]


def test_threads_do_not_change_results(native, wanted):
    results = []
    for threads in (1, 2, 3):
        with oc.Context(native.name, threads=threads) as context:
            results.append(step(context)[1:])
    losses, params = results[0]
    np.testing.assert_allclose(losses, wanted[0], rtol=1e-5)
    for got, expected in zip(params, wanted[1], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)
    for repeated in results[1:]:
        assert losses.tobytes() == repeated[0].tobytes()
        assert [p.tobytes() for p in params] == [p.tobytes() for p in repeated[1]]


def test_forward_and_backward_share_a_loop(native):
    with oc.Context(native.name, threads=2) as context:
        routine, *_ = step(context)
        last = str(routine.stages()).rsplit("\n--- ", 1)[1]
    outermost = re.split(r"\n  (?=\S)", last)
    loop = rf"parallel\(chunk=\d+\) for \w+ in 0\.\.{BATCH}:"
    batch = [stmt for stmt in outermost if re.match(rf"(?s:scope:.*\n    )?{loop}", stmt)]
    assert any(len(re.findall(r"\n {4,6}(?:\w+ )?for ", stmt)) > 20 for stmt in batch)


@pytest.mark.slow
@pytest.mark.parametrize("queue", ["inline", "threaded"])
def test_profiles_have_a_row_per_member(native, queue):
    with oc.Context(native.name, threads=2, queue=queue) as context:
        routine, *_ = step(context)
        pieces = partition(routine._program.rebuild())
        max_members = max(len(piece.members) for piece in pieces)
        before, usage = [context.get(node) for node in routine.outputs], context.arrays.usage()
        profile = routine.profile(calls=3)
        assert [context.get(node).tobytes() for node in routine.outputs] == [array.tobytes() for array in before]
        gc.collect()
        assert context.arrays.usage().held_bytes == usage.held_bytes
    assert max_members > 20 and len(profile.rows) == sum(len(piece.members) for piece in pieces)
    assert all(row.name and row.calls == 3 for row in profile.rows)
    assert any(
        "inner" not in row.name and row.read_bytes == 0 for row in profile.rows
    )  # intermediates that are local to an iteration
    first_spans = profile.spans[: len(profile.rows)]
    assert [span.row for span in first_spans] == list(range(len(profile.rows)))
    assert [span.start_ns for span in first_spans] == sorted(span.start_ns for span in first_spans)
    assert sum(span.duration_ns > 0 for span in first_spans) > max_members * 0.9


@pytest.mark.slow
def test_profiled_programs_compute_the_same(native):
    with oc.Context(native.name, threads=2) as context:
        routine, *_ = step(context)
        inputs = {node: context.get(node) for node in routine.inputs}
        routine()
        expected = [context.get(node) for node in routine.outputs]
        for node, array in inputs.items():
            context.set(node, array)
        pieces = partition(routine._program.rebuild())
        context.arrays.allocate(piece.timestamps for piece in pieces if piece.timestamps)
        code = context.backend.compile([piece.proc for piece in pieces])
        for piece in pieces:
            entry, _ = context.bind(code, piece.proc.name, links(piece.proc), piece.proc.arena)
            entry()
        got = [context.get(node) for node in routine.outputs]
        stamped = [context.arrays.download(piece.timestamps) for piece in pieces if piece.timestamps]
    assert [array.tobytes() for array in got] == [array.tobytes() for array in expected]
    assert stamped and all((np.diff(stamps, axis=1) > 0).all() for stamps in stamped)


def test_row_sums_are_fused_into_a_single_nest(native):
    """The loss is summed in the loop of the softmax, while its row is in the cache."""
    x, g = (oc.placeholder(name, batch=[1024], input=[], output=[512]) for name in "xg")
    y = oc.softmax(x)
    loss = (y * g).sum()
    numbers = np.random.default_rng(0)
    with oc.Context(native.name, threads=2) as context:
        for node in (x, g):
            context[node] = numbers.standard_normal((1024, 512)).astype(np.float32)
        routine = context.compile(loss.forward, keep=[y])
        last = str(routine.stages()).rsplit("\n--- ", 1)[1]
        routine()
        expected = (context[y].astype(np.float64) * context[g]).sum()
        np.testing.assert_allclose(context[loss], expected, rtol=1e-4)
    nests = [stmt for stmt in re.split(r"\n  (?=\S)", last) if re.match(r"(parallel\(chunk=\d+\) )?for ", stmt)]
    assert len(nests) == 1 and "loss_parts" in nests[0]
