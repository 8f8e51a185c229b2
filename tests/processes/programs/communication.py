"""Transfers, sums and collective calls between two or more processes, each compared with NumPy."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.backend.cpu.cpu_description import adopt_cpu
from ocannl.runtime.world_cpu import agree_on_cpu

world = oc.World("mpi")
sharing = world.shares_memory
ctx = oc.Context("llvm", queue="threaded")
successor, predecessor = (world.rank + 1) % world.size, (world.rank - 1) % world.size

# Ranks exchange values in a ring; all send before any receives.
x = oc.placeholder("x", o=[3])
expected = np.arange(world.size)[:, None] + np.array([0.0, 10.0, 20.0])
ctx[x] = expected[world.rank]
send = receive = None
for target in range(world.size):  # all create their halves in the same order
    source = (target - 1) % world.size
    if world.rank == source:
        send = oc.transfer(x, src=ctx, dst=world[target])
    if world.rank == target:
        receive = oc.transfer(x, src=world[source], dst=ctx)
with oc.cd("merge") as merge:
    x += x.merge
add = ctx.compile(merge)
with pytest.raises(oc.MergeBufferError, match="has not run"):
    add()
for _ in range(5):
    send()
    receive()
    add()
    expected = expected + np.roll(expected, 1, axis=0)
    np.testing.assert_array_equal(ctx[x], expected[world.rank].astype("float32"))
assert send.inputs == (x.value,) and send.outputs == receive.outputs == ()

# Rank 0 sets a node of rank 1.
y = oc.placeholder("y", o=[2, 500])
if world.rank == 0:
    ctx[y] = np.arange(1000).reshape(2, 500)
    oc.transfer(y, src=ctx, dst=world[1], into="node")()
if world.rank == 1:
    oc.transfer(y, src=world[0], dst=ctx, into="node")()
    np.testing.assert_array_equal(ctx[y], np.arange(1000).reshape(2, 500))

# Sums of nodes of several types, gathered, in windows and by messages.
for size in (1, 7, 40_000):
    for shares_memory in (True, False):
        types = {"a": "float32", "b": "float64", "c": "bfloat16"}
        a, b, c = (oc.placeholder(name, o=[size], dtype=dtype) for name, dtype in types.items())
        contexts = [oc.Context("llvm", device=n) for n in range(3)]
        world.shares_memory = shares_memory
        steps = train.all_reduce([a, b, c], contexts, mean=True, world=world)
        count = 3 * world.size
        values = np.random.default_rng(size).normal(size=(count, size))
        for n, context in enumerate(contexts, 3 * world.rank):
            for t in (a, b, c):
                context[t] = values[n]
        for step in steps:
            step()
        for t, eps in ((a, 2**-24), (b, 2**-53), (c, 2**-8)):
            bound = 8 * eps * np.abs(values).sum(0) / count
            for context in contexts:
                assert (np.abs(context[t].astype("float64") - values.mean(0)) <= bound).all(), (t, size, shares_memory)
        contexts[0][a] = np.where(np.arange(size) % 2, 3e38, np.inf * (-1) ** world.rank)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of sums that are not finite
            steps[0]()
        assert not np.isfinite(contexts[0][a]).any()

# Other programs and other transfers are shown beside those of this process, and a long call is no failure.
with pytest.raises(oc.ProgramMismatch) as mismatch:
    world.agree("the compiled code", f"first line\nline of rank {min(world.rank, 1)}")
text = "the compiled code differs between rank 0 and rank 1, first in line 2:\n--- rank 0\n+++ rank 1"
assert str(mismatch.value).startswith(text)
assert "-line of rank 0\n+line of rank 1\n" in str(mismatch.value)
if world.rank < 2:
    sends = "sends `x`, float32 of sizes [3], into the merge buffer"
    receives = "receives `y`, float32 of sizes [2, 500], into the merge buffer"
    with pytest.raises(oc.ProgramMismatch) as mismatch:
        oc.transfer(x, src=ctx, dst=world[1]) if world.rank == 0 else oc.transfer(y, src=world[0], dst=ctx)
    ranks = [f"\n  rank 0 {sends}", f"\n  rank 1 {receives}"]
    described = ranks[world.rank] + ranks[1 - world.rank]
    assert str(mismatch.value).startswith(
        f"the halves of a transfer between two processes do not fit together:{described}\n"
    )
if world.rank == 1:
    end = time.monotonic() + 3  # longer than heartbeats may be missing
    while time.monotonic() < end:
        sum(range(10_000))

# All compile for the processor of rank 0, however they have measured theirs.
cpu = ctx.backend.capabilities.cpu
if world.rank:
    adopt_cpu(replace(cpu, megahertz=cpu.megahertz + world.rank))
before = [oc.Context("numpy").backend] if world.rank % 2 else []  # which have no description of a processor
agree_on_cpu(world, [*before, ctx.backend])
assert len(set(world.gather(repr(ctx.backend.capabilities.cpu).encode()))) == 1

assert world.gather(b"x" * world.rank) == [b"x" * n for n in range(world.size)]
assert len(world) == world.size
for rank in (world.size, -1, "0"):
    with pytest.raises(oc.ArgumentError, match=f"ranks 0 to {world.size - 1}"):
        world[rank]
with pytest.raises(oc.CodeError, match="is this process"):
    world[world.rank]

# After the end, arrays in shared memory stay valid, and whatever needs other processes is refused.
world.shares_memory = sharing
z = oc.placeholder("z", o=[40_000])
(step,) = train.all_reduce([z], [ctx], world=world)
ctx[z] = np.arange(40_000)
step()
world.close()
world.close()
np.testing.assert_array_equal(ctx[z], world.size * np.arange(40_000))
ctx[z] = np.ones(40_000)
assert ctx[z].sum() == 40_000
reduce = partial(train.all_reduce, [z], [ctx], world=world)
for call in (step, send, receive, reduce, world.barrier, partial(world.gather, b"")):
    with pytest.raises(oc.CodeError, match="this world is closed"):
        call()
with pytest.raises(oc.CodeError, match="this world is closed"):
    oc.transfer(x, src=ctx, dst=world[successor])
print(f"rank {world.rank} agrees\n", end="", flush=True)
