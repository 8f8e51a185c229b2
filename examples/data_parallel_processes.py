"""Trains a small decoder of text with four replicas, in however many processes.

    ocannl run -n 4 examples/data_parallel_processes.py
    ocannl run -n 2 examples/data_parallel_processes.py
    python examples/data_parallel_processes.py

All three divide the replicas differently, as 4 processes with 1 device, 2 with 2, and 1 with 4, and print the same
losses, bit for bit.
"""

from __future__ import annotations

import argparse

import numpy as np

import ocannl as oc
from ocannl import nn, train

REPLICAS = 4
TEXT = "the quick brown fox jumps over the lazy dog and the small cat sleeps under the old tree "


def main(backend: str | None, steps: int, batch: int = 4, context: int = 16) -> list[float]:
    """Returns the mean loss of each step, which is the same in every process."""
    world = oc.World()
    letters = sorted(set(TEXT))
    codes = np.array([letters.index(letter) for letter in TEXT * 20])
    x, t = (oc.placeholder(name, b=[batch, context], o=[], dtype="int32") for name in ("x", "t"))
    model = nn.gpt(vocabulary=len(letters), length=context, width=32, layers=2, heads=2)
    loss = oc.cross_entropy(model(x), t).mean().with_label("loss")
    contexts = [oc.Context(backend, device=n) for n in range(REPLICAS // world.size)]
    step = train.DataParallel(contexts, loss, train.adam(loss, 3e-3), world=world)
    rng = np.random.default_rng(0)  # the same in every process, and so are the batches
    starts = rng.integers(0, len(codes) - context, (steps * REPLICAS, batch))[..., None] + np.arange(context)
    batches = ({x: codes[start], t: codes[start + 1]} for start in starts)
    losses = [float(replica_losses.mean()) for replica_losses in step.each(batches)]
    if world.rank == 0:
        print(f"loss {losses[0]:.6f} -> {losses[-1]:.6f}, digest of all {hash(tuple(losses)):x}")
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend")
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    main(arguments.backend, arguments.steps)
