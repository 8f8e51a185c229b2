"""Several devices: transfers, merge buffers, and who waits for whom."""

import threading
import time

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

QUEUES = ["inline", "threaded"]


@pytest.fixture(params=QUEUES)
def contexts(backend, request):
    """Makes contexts on devices 0, 1, ...; all are closed at the end."""
    created = []

    def make(count):
        created.extend(oc.Context(backend, device=n, queue=request.param) for n in range(count))
        return created

    yield make
    for ctx in created:
        ctx.close()


def add_merged(node):
    with oc.cd("merge") as code:
        node += node.merge
    return code


def test_a_node_travels_only_when_the_transfer_is_called(contexts):
    sender, receiver = contexts(2)
    x = oc.placeholder("x", o=[2])
    sender[x] = [1, 2]
    receiver[x] = [9, 9]
    copy = oc.transfer(x, src=sender, dst=receiver, into="node")
    assert receiver[x].tolist() == [9, 9]
    sender[x] = [3, 4]
    copy()
    assert receiver[x].tolist() == [3, 4] and sender[x].tolist() == [3, 4]


def test_what_is_merged_is_added(contexts):
    sender, receiver = contexts(2)
    x = oc.placeholder("x", o=[2])
    sender[x], receiver[x] = [1, 2], [10, 20]
    copy = oc.transfer(x, src=sender, dst=receiver)
    merge = receiver.compile(add_merged(x))
    copy()
    assert receiver[x].tolist() == [10, 20]
    merge()
    merge()
    assert receiver[x].tolist() == [12, 24]
    assert merge.inputs == (x.value,) and merge.outputs == (x.value,)


def test_a_consumer_is_refused_before_there_is_a_transfer(contexts):
    sender, receiver = contexts(2)
    x, y = (oc.placeholder(name, o=[2]) for name in "xy")
    receiver[x] = sender[x] = sender[y] = [1, 2]
    with pytest.raises(oc.MergeBufferError, match=r"merge buffer of `x`.*oc\.transfer\(x, src=\.\.\., dst=\.\.\.\)"):
        receiver.compile(add_merged(x))
    oc.transfer(y, src=sender, dst=receiver)  # of another node
    oc.transfer(x, src=receiver, dst=sender)  # into another context
    with pytest.raises(oc.MergeBufferError, match="merge buffer of `x`"):
        receiver.compile(add_merged(x))
    copy = oc.transfer(x, src=sender, dst=receiver)
    merge = receiver.compile(add_merged(x))
    with pytest.raises(oc.MergeBufferError, match="the transfer into it has not run"):
        merge()
    copy()
    merge()
    assert receiver[x].tolist() == [2, 4]


def test_one_routine_merges_several_nodes(contexts):
    sender, receiver = contexts(2)
    x, y = oc.placeholder("x", o=[2]), oc.placeholder("y", o=[3])
    with oc.cd("both") as code:
        x += x.merge
        y *= y.merge + 1
    for n, ctx in enumerate((sender, receiver), 1):
        ctx[x], ctx[y] = np.full(2, n), np.full(3, 10 * n)
    for node in (x, y):
        oc.transfer(node, src=sender, dst=receiver)()
    receiver.run(code)
    assert receiver[x].tolist() == [3, 3] and receiver[y].tolist() == [220] * 3


def test_a_merge_buffer_is_an_operand_like_any_other(contexts):
    sender, receiver = contexts(2)
    w = oc.param("w", init=[[1.0, 2.0], [3.0, 4.0]])
    total = oc.einsum("...|... => 0", w.merge * w)
    sender[w], receiver[w] = np.eye(2), np.full((2, 2), 5)
    oc.transfer(w, src=sender, dst=receiver)()
    receiver.run(total.forward)
    assert receiver[total].tolist() == [10]


def test_a_transfer_of_what_nobody_wrote_is_refused(contexts):
    sender, receiver = contexts(2)
    x, y = oc.placeholder("x", o=[2]), oc.placeholder("y", o=[2])
    with pytest.raises(oc.UninitializedError, match="`x` is not in the source of this transfer: it was never set"):
        oc.transfer(x, src=sender, dst=receiver)
    with oc.cd("later") as code:
        x[...] = y + 1
    later = sender.compile(code)
    copy = oc.transfer(x, src=sender, dst=receiver, into="node")
    with pytest.raises(oc.UninitializedError, match="`x` holds no value in this context: it was never set"):
        copy()
    sender[y] = 1
    later()
    copy()
    assert receiver[x].tolist() == [2, 2]


def test_constant_data_travels_without_being_asked_for(contexts):
    sender, receiver = contexts(2)
    x = oc.tensor([1.0, 2.0], label="x")
    oc.transfer(x, src=sender, dst=receiver)()
    y = x.merge + 1
    receiver.run(y.forward)
    assert receiver[y].tolist() == [2, 3]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x, a, b: oc.transfer(x, src=a, dst="llvm"), "`dst` is a Context or a Process, not 'llvm'"),
        (lambda x, a, b: oc.transfer(x, src=a, dst=b, into="grad"), 'must be "merge" or "node", not'),
        (lambda x, a, b: oc.transfer(x, src=a, dst=a, into="node"), "source and destination .* must be different"),
        (lambda x, a, b: oc.transfer(7, src=a, dst=b), "expected a tensor or a node, not 7"),
        (lambda x, a, b: oc.transfer(x.merge, src=a, dst=b), "`x.merge` cannot be read from Python"),
        (lambda x, a, b: a[x.merge], "`x.merge` cannot be read from Python"),
        (lambda x, a, b: x.merge.merge, "`x.merge` has no merge buffer"),
        (lambda x, a, b: oc.tensor(2).merge, "has no merge buffer: it is not a node"),
        (lambda x, a, b: (b.close(), oc.transfer(x, src=a, dst=b)), "this context is closed"),
    ],
)
def test_senseless_transfers_are_refused(contexts, call, says):
    sender, receiver = contexts(2)
    x = oc.placeholder("x", o=[2])
    with pytest.raises(oc.CodeError, match=says):
        call(x, sender, receiver)


def test_a_merge_buffer_is_not_assigned():
    x = oc.placeholder("x", o=[2])
    with oc.cd("wrong"), pytest.raises(oc.CodeError, match=r"`x\.merge` is written by oc\.transfer, and only read"):
        x.merge[...] = x


def test_contexts_of_two_backends_exchange_nodes(contexts, backend):
    (sender,) = contexts(1)
    with oc.Context("numpy") as receiver:
        x = oc.placeholder("x", o=[2])
        sender[x] = [1, 2]
        oc.transfer(x, src=sender, dst=receiver, into="node")()
        assert receiver[x].tolist() == [1, 2]


# ------------------------------------------------------------------------------------------------- who waits for whom


def slow(name, n, k=40):
    """A node that takes a while to write: n * (k + 1) after n was added k times."""
    x = oc.placeholder(name, o=[n, n])
    with oc.cd("grow") as code:
        for _ in range(k):
            x[...] = oc.sin(x) * 0 + x + 1
    return x, code


def test_a_call_does_not_wait_and_a_value_does(backend):
    ctx = oc.Context(backend, queue="threaded")
    x, grow = slow("x", 200)
    ctx[x] = 0
    run = ctx.compile(grow)
    for _ in range(20):
        run()
    assert np.all(ctx[x] == 800)


def test_reads_of_another_queue_see_what_was_written_before_and_not_what_is_written_later(backend):
    sender, receiver = (oc.Context(backend, device=n, queue="threaded") for n in range(2))
    x, grow = slow("x", 200)
    sender[x] = receiver[x] = 0
    with oc.cd("sum") as code:
        x += x.merge
    run, copy = sender.compile(grow), oc.transfer(x, src=sender, dst=receiver)
    merge = receiver.compile(code)
    wanted = 0
    for n in range(1, 15):
        run()  # write, read elsewhere (after the write), write again (after the read)
        copy()
        merge()
        wanted += 40 * n
    assert np.all(receiver[x] == wanted)
    assert np.all(sender[x] == 40 * 14)


def test_setting_a_node_waits_for_its_readers(backend):
    sender, receiver = (oc.Context(backend, device=n, queue="threaded") for n in range(2))
    x, grow = slow("y", 300, k=10)
    z = oc.placeholder("x", o=[500, 500])
    receiver[x] = sender[z] = 0
    busy = receiver.compile(grow)
    copy = oc.transfer(z, src=sender, dst=receiver, into="node")
    for n in range(10):
        sender[z] = n
        busy()
        copy()  # waits in its queue until the work above is done
        sender[z] = -1  # and so does this
        assert np.all(receiver[z] == n)


def test_a_closed_context_waits_for_its_readers(backend):
    sender, receiver = (oc.Context(backend, device=n, queue="threaded") for n in range(2))
    x, grow = slow("y", 300, k=10)
    z = oc.placeholder("x", o=[500, 500])
    receiver[x], sender[z] = 0, 7
    receiver.compile(grow)()
    oc.transfer(z, src=sender, dst=receiver, into="node")()
    sender.close()
    assert np.all(receiver[z] == 7)


def test_an_error_in_the_queue_leaves_what_was_to_be_written_uninitialized():
    ctx = oc.Context("numpy", queue="threaded")
    x, y = oc.placeholder("x", o=[2]), oc.placeholder("y", o=[2])
    ctx[x] = ctx[y] = 1
    with oc.cd("inc") as code:
        x += 1
    run = ctx.compile(code)
    run()
    assert ctx[x].tolist() == [2, 2]
    ctx.queue.submit(lambda: 1 / 0)
    time.sleep(0.05)
    with pytest.raises(ZeroDivisionError):
        run()
        ctx.synchronize()
    with pytest.raises(oc.UninitializedError, match="`x`"):
        ctx[x]
    assert ctx[y].tolist() == [1, 1]
    ctx[x] = 5
    run()
    assert ctx[x].tolist() == [6, 6]


def test_memory_is_counted_and_given_back(backend):
    with oc.Context(backend, device=3) as ctx:
        before = ctx.memory.device_bytes
        x = oc.placeholder("x", o=[256])
        ctx[x] = 1
        y = (x * 2).with_label("y")
        ctx.run(y.forward)
        assert ctx.memory.held_bytes >= 2 * 1024
        assert ctx.memory.device_bytes - before == ctx.memory.held_bytes
        oc.transfer(x, src=ctx, dst=ctx)
        assert ctx.memory.merge_bytes == 1024
    assert oc.Context(backend, device=3).memory.device_bytes == before


def test_training_is_the_same_with_a_thread(backend):
    def losses(queue):
        oc.reset_ids()
        rng = np.random.default_rng(0)
        x, t = oc.tensor(rng.normal(size=(8, 5)), batch_axes=1), oc.tensor(rng.normal(size=(8, 2)), batch_axes=1)
        y = oc.param("v", o=[2]) @ oc.relu(oc.param("w", o=[6]) @ x)
        loss = ((y - t) ** 2).sum()
        ctx = oc.Context(backend, queue=queue)
        ctx.init(loss)
        step = ctx.compile(oc.seq(train.grad_update(loss), train.sgd(loss, 0.01)))
        return [(step(), ctx[loss].item())[1] for _ in range(5)]

    assert losses("threaded") == losses("inline")


@pytest.mark.parametrize("find", ["set", "call", "transfer", "read"])
def test_whoever_finds_a_broken_queue_everything_that_waited_in_it_is_uninitialized(find):
    ctx, second = oc.Context("numpy", queue="threaded"), oc.Context("numpy", device=1)
    x, y, z = (oc.placeholder(name, o=[2]) for name in "xyz")
    ctx[x] = ctx[y] = ctx[z] = 1
    ctx.synchronize()
    with oc.cd("inc") as code:
        x += 1
    run = ctx.compile(code)
    go = threading.Event()
    ctx.queue.submit(lambda: go.wait() and None)
    ctx.queue.submit(lambda: 1 / 0)
    run()
    second[y] = 7
    copy = oc.transfer(y, src=second, dst=ctx, into="node")
    go.set()
    time.sleep(0.05)  # now it is broken, and nobody knows
    actions = {"set": lambda: ctx.set(y.value, 5), "call": run, "transfer": copy, "read": lambda: ctx[z]}
    with pytest.raises(ZeroDivisionError):
        actions[find]()
    with pytest.raises(oc.UninitializedError, match="`x`"):
        ctx[x]
    assert ctx[z].tolist() == [1, 1]
    for again in (lambda: ctx.set(x.value, 5), run, copy):
        again()
    assert ctx[x].tolist() == [6, 6] and ctx[y].tolist() == [7, 7]


def test_a_transfer_has_what_a_routine_has(contexts):
    sender, receiver = contexts(2)
    x = oc.placeholder("x", o=[1000])
    sender[x] = 1
    copy = oc.transfer(x, src=sender, dst=receiver, into="node")
    assert copy.inputs == copy.outputs == (x.value,) and copy.placements == {} and dict(copy.stages()) == {}
    assert copy.name == copy.source() == f"transfer of x from {sender} into node of {receiver}"
    (row,) = copy.profile(calls=3).rows
    assert (row.name, row.calls, row.read_bytes, row.written_bytes) == ("x", 3, 4000, 4000)
    assert receiver[x].sum() == 1000


@pytest.mark.parametrize("queue", QUEUES)
def test_a_reader_that_fails_does_not_break_who_writes_next(queue):
    sender, receiver = oc.Context("numpy", queue=queue), oc.Context("numpy", device=1, queue="threaded")
    x = oc.placeholder("x", o=[2])
    sender[x] = receiver[x] = 1
    receiver.synchronize()
    with oc.cd("inc") as code:
        x += 1
    run, copy = sender.compile(code), oc.transfer(x, src=sender, dst=receiver, into="node")
    go = threading.Event()
    receiver.queue.submit(lambda: go.wait() and None)
    receiver.queue.submit(lambda: 1 / 0)
    copy()
    threading.Timer(0.05, go.set).start()
    run()
    run()
    assert sender[x].tolist() == [3, 3]
    with pytest.raises(ZeroDivisionError):
        receiver.synchronize()
    copy()
    assert receiver[x].tolist() == [3, 3]
