"""Nests that share the loop over a batch: as many as can, with equal bits whatever the number of threads."""

import gc
import re

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.runtime.profile import cut
from ocannl.runtime.program import links

BATCH, LENGTH, WIDTH = 16, 32, 48


def step(context):
    """Two layers of attention with more activations than a core's cache holds; their loss, gradients and update."""

    @oc.op
    def layer(x):
        q, k, v = (oc.param(name, o=[WIDTH]) @ x for name in "qkv")
        scores = oc.einsum("...s|d; ...t|d => ...s|t", q, k) * WIDTH**-0.5
        weights = oc.exp(scores - scores.max("...s|t => ...s|0"))
        mixed = oc.einsum("...s|t; ...t|d => ...s|d", weights / weights.sum("...s|t => ...s|0"), v)
        hidden = oc.tanh(oc.param("up", o=[2 * WIDTH]) @ (x + mixed))
        return x + oc.param("down", o=[WIDTH]) @ hidden

    x = oc.placeholder("x", batch=[BATCH, LENGTH], input=[], output=[WIDTH])
    loss = (layer(layer(x)) ** 2).sum() * (1.0 / BATCH)
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


def test_they_compute_the_same(native, wanted):
    results = []
    for threads in (1, 2, 3):
        with oc.Context(native.name, threads=threads) as context:
            results.append(step(context)[1:])
    losses, params = results[0]
    np.testing.assert_allclose(losses, wanted[0], rtol=1e-5)
    for one, other in zip(params, wanted[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    for others in results[1:]:
        assert losses.tobytes() == others[0].tobytes()
        assert [p.tobytes() for p in params] == [p.tobytes() for p in others[1]]


def test_forward_and_backward_meet_in_one_loop(native):
    with oc.Context(native.name, threads=2) as context:
        routine, *_ = step(context)
        last = str(routine.stages()).rsplit("\n--- ", 1)[1]
    outermost = re.split(r"\n  (?=\S)", last)
    batch = [stmt for stmt in outermost if re.match(rf"for \w+ in 0\.\.{BATCH} claimed", stmt)]
    assert any(len(re.findall(r"\n    for ", stmt)) > 20 for stmt in batch)


@pytest.mark.parametrize("queue", ["inline", "threaded"])
def test_a_profile_has_a_row_for_each_part(native, queue):
    with oc.Context(native.name, threads=2, queue=queue) as context:
        routine, *_ = step(context)
        pieces = cut(routine._program.rebuilt())
        parts = max(len(piece.members) for piece in pieces)
        before, held = [context.get(node) for node in routine.outputs], context.arrays.usage()
        profile = routine.profile(calls=3)
        assert [context.get(node).tobytes() for node in routine.outputs] == [array.tobytes() for array in before]
        gc.collect()
        assert context.arrays.usage().held_bytes == held.held_bytes
    assert parts > 20 and len(profile.rows) == sum(len(piece.members) for piece in pieces)
    assert all(row.name and row.calls == 3 for row in profile.rows)
    assert any("inner" not in row.name and row.read_bytes == 0 for row in profile.rows)  # what stays in an iteration
    of_one_run = profile.spans[: len(profile.rows)]
    assert [span.row for span in of_one_run] == list(range(len(profile.rows)))
    assert [span.start_ns for span in of_one_run] == sorted(span.start_ns for span in of_one_run)
    assert sum(span.duration_ns > 0 for span in of_one_run) > parts * 0.9


def test_stamped_parts_compute_what_the_routine_does(native):
    with oc.Context(native.name, threads=2) as context:
        routine, *_ = step(context)
        given = {node: context.get(node) for node in routine.inputs}
        routine()
        wanted = [context.get(node) for node in routine.outputs]
        for node, array in given.items():
            context.set(node, array)
        pieces = cut(routine._program.rebuilt())
        context.arrays.allocate(piece.stamps for piece in pieces if piece.stamps)
        code = context.backend.compile([piece.proc for piece in pieces])
        for piece in pieces:
            entry, _ = context.bind(code, piece.proc.name, links(piece.proc), piece.proc.arena)
            entry()
        got = [context.get(node) for node in routine.outputs]
        stamped = [context.arrays.download(piece.stamps) for piece in pieces if piece.stamps]
    assert [array.tobytes() for array in got] == [array.tobytes() for array in wanted]
    assert stamped and all((np.diff(stamps, axis=1) > 0).all() for stamps in stamped)


def test_a_single_nest_takes_sums_over_its_rows_along(native):
    """There is nothing to share its loop with: the loss is summed while a softmax and its weights are near."""
    x, g = (oc.placeholder(name, batch=[1024], input=[], output=[512]) for name in "xg")
    y = oc.softmax(x)
    loss = (y * g).sum()
    numbers = np.random.default_rng(0)
    with oc.Context(native.name, threads=2) as context:
        for each in (x, g):
            context[each] = numbers.standard_normal((1024, 512)).astype(np.float32)
        routine = context.compile(loss.forward, keep=[y])
        last = str(routine.stages()).rsplit("\n--- ", 1)[1]
        routine()
        wanted = (context[y].astype(np.float64) * context[g]).sum()
        np.testing.assert_allclose(context[loss], wanted, rtol=1e-4)
    nests = [stmt for stmt in re.split(r"\n  (?=\S)", last) if stmt.startswith("for ")]
    assert len(nests) == 1 and "loss_parts" in nests[0]
