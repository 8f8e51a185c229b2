"""Trains one network with 4 replicas, divided among however many processes; prints digests of losses and parameters.

The arguments are calls, such as `uninterrupted,on resumed,run.safetensors`.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np

import ocannl as oc
from ocannl import train

REPLICAS = 4
STEPS = 100
BUCKET_BYTES = 4000  # the gradients of all but small networks are exchanged in two parts
CASES = {  # the number of hidden units decides between gathered slabs and windows or messages
    "small": {"hidden": 6},
    "large": {"hidden": 1500},
    "accumulated and scaled": {"hidden": 600, "accumulate": 3, "scaled": True, "queue": "threaded"},
    "incomplete": {"hidden": 6, "left_out": 1, "steps": 6},
}


@oc.op
def net(x, *, hidden):
    w = oc.param()
    b = oc.param(0.0, o=[hidden])
    v = oc.param()
    return v @ oc.relu(w @ x + b)


class Run:
    """A training run, whose next steps `advance` executes."""

    def __init__(self, world, *, hidden, steps=STEPS, accumulate=1, scaled=False, queue="inline", left_out=0):
        self.x, self.t = oc.placeholder("x", b=[4], o=[5]), oc.placeholder("t", b=[4], o=[2])
        self.loss = (((net(hidden=hidden)(self.x) - self.t) ** 2).sum() * 0.25).with_label("loss")
        own = REPLICAS // world.size
        self.contexts = [oc.Context("llvm", device=n, queue=queue) for n in range(own)]
        rng = np.random.default_rng(0)
        if world.rank == 0:  # all others receive these values
            for p in self.loss.params.values():
                self.contexts[0][p] = rng.normal(size=p.value.dims, scale=0.3)
        update = oc.seq(train.clip_grad_norm(self.loss, 0.5), train.adam(self.loss, 0.01))
        scale = train.LossScale(interval=5) if scaled else None
        self.step = train.DataParallel(
            self.contexts, self.loss, update, world=world, scale=scale, accumulate=accumulate, bucket_bytes=BUCKET_BYTES
        )
        rng = np.random.default_rng(1)
        count = steps * REPLICAS - left_out
        self.batches = [{self.x: rng.normal(size=(4, 5)), self.t: rng.normal(size=(4, 2))} for _ in range(count)]
        self.digest = hashlib.sha256()

    def advance(self, steps):
        """Executes all remaining steps up to this number."""
        for losses in self.step.each(self.batches[: steps * REPLICAS]):
            self.digest.update(losses.tobytes())
        del self.batches[: steps * REPLICAS]

    def result(self):
        for p in self.loss.params.values():
            for ctx in self.contexts:
                np.testing.assert_array_equal(ctx[p], self.contexts[0][p])
            self.digest.update(self.contexts[0][p].tobytes())
        return self.digest.hexdigest()


def uninterrupted(world, shared_memory):
    world.shares_memory = shared_memory == "on"
    results = {}
    for name, case in CASES.items():
        run = Run(world, **case)
        run.advance(STEPS)
        results[name] = run.result()
    return results


def saved(world, path):
    run = Run(world, hidden=600, accumulate=2, steps=20)
    run.advance(10)
    run.step.save(path, step=10)
    run.digest = hashlib.sha256()
    run.advance(10)
    return run.result()


def resumed(world, path):
    run = Run(world, hidden=600, accumulate=2, steps=20)
    del run.batches[: 10 * REPLICAS]
    assert run.step.load(path).step == 10
    run.advance(10)
    return run.result()


def killed(world, path, victim, delay_seconds):
    """Trains from the last checkpoint to the end, unless the process of rank `victim` is killed before."""
    run = Run(world, hidden=600, accumulate=2, steps=40)
    done = run.step.load(path).step if Path(path).exists() else 0
    del run.batches[: done * REPLICAS]
    world.barrier()
    timer = threading.Timer(float(delay_seconds), os.kill, (os.getpid(), signal.SIGKILL))
    if world.rank == int(victim):
        timer.start()
    for step in range(done + 4, 41, 4):
        run.advance(4)
        run.step.save(path, step=step)
    timer.cancel()
    run.digest = hashlib.sha256()
    return run.result()


CALLS = {"saved": saved, "resumed": resumed, "uninterrupted": uninterrupted, "killed": killed}

if __name__ == "__main__":
    world = oc.World("mpi")
    results = []
    for call in sys.argv[1:]:
        name, *arguments = call.split(",")
        results.append(CALLS[name](world, *arguments))
    print(json.dumps({"rank": world.rank, "results": results}) + "\n", end="", flush=True)
