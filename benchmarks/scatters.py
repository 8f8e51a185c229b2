"""Cost of the bound on the error of scatters: steps with the terms counted and with plain additions, beside PyTorch.

    python benchmarks/scatters.py [NAME ...] [--rounds 30]

Times are medians over alternating rounds. "plain" adds the terms of a cell one after the other, as PyTorch does.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from statistics import median
from typing import Any
from unittest import mock

import numpy as np
import torch

import ocannl as oc
from ocannl import train
from ocannl.opt.idioms import widen_scatter_accumulators
from ocannl.runtime import compile_cache

Step = Callable[[], Any]
Indices = Callable[[np.random.Generator, int, int], Any]


def uniform(random: np.random.Generator, rows: int, terms: int) -> Any:
    return random.integers(0, rows, terms)


def zipf(random: np.random.Generator, rows: int, terms: int) -> Any:
    """Indices as frequent as the words of a text."""
    weights = 1 / np.arange(1, rows + 1)
    return random.permutation(rows)[random.choice(rows, terms, p=weights / weights.sum())]


OPTIMIZERS = {
    "sgd": (lambda loss: train.sgd(loss, 0.1), lambda w: torch.optim.SGD([w], 0.1)),
    "momentum": (
        lambda loss: train.sgd(loss, 0.1, momentum=0.9), lambda w: torch.optim.SGD([w], 0.1, momentum=0.9)
    ),
    "adam": (lambda loss: train.adam(loss, 0.001), lambda w: torch.optim.Adam([w], 0.001)),
}  # fmt: skip


def embedding(indices: Indices, rows: int, width: int, terms: int, optimizer: str) -> tuple[Callable[[], Step], Step]:
    """A training step of a table whose rows are averaged over bags of 16 and classified."""
    random = np.random.default_rng(0)
    ids = indices(random, rows, terms).reshape(-1, 16)
    labels = random.integers(0, 10, len(ids))
    values = random.normal(size=(rows, width)).astype("float32")
    weights = random.normal(size=(10, width)).astype("float32")
    ours, theirs = OPTIMIZERS[optimizer]

    def compiled() -> Step:
        table = oc.param("table", values, o=[rows, width])
        words = table.take(oc.tensor(ids.astype("int32"), batch_axes=2))
        bags = words.mean("b, t | w => b | w")
        logits = oc.tensor(weights, input_axes=1) @ bags
        loss = oc.cross_entropy(logits, oc.tensor(labels.astype("int32"), batch_axes=1))
        ctx = oc.Context(threads=1)
        ctx.init(loss)
        return ctx.compile(oc.seq(train.grad_update(loss), ours(loss)))

    w = torch.tensor(values, requires_grad=True)
    rule = theirs(w)
    t_ids, t_labels, t_weights = torch.tensor(ids), torch.tensor(labels), torch.tensor(weights)

    def step() -> None:
        rule.zero_grad()
        bags = torch.nn.functional.embedding(t_ids, w).mean(1)
        torch.nn.functional.cross_entropy(bags @ t_weights.T, t_labels).backward()
        rule.step()

    return compiled, step


def segment_sum(indices: Indices, rows: int, width: int, terms: int) -> tuple[Callable[[], Step], Step]:
    """Sums of rows, or of single cells, of segments."""
    random = np.random.default_rng(0)
    ids, shape = indices(random, rows, terms), (terms, width) if width > 1 else (terms,)
    values = random.normal(size=shape).astype("float32")

    def compiled() -> Step:
        result = oc.segment_sum(oc.tensor(values), oc.tensor(ids.astype("int32")), rows)
        return oc.Context(threads=1).compile(result.forward, keep=[result])

    t_ids, t_values = torch.tensor(ids), torch.tensor(values)
    return compiled, lambda: torch.zeros((rows, *shape[1:])).index_add_(0, t_ids, t_values)


EMBEDDINGS = ((10_000, 64, 8192), (50_000, 64, 8192), (1_000_000, 1, 8192))
SEGMENTS = ((50_000, 32, 20_000), (100_000, 4, 20_000), (1_000_000, 1, 100_000), (20_000, 1, 4096))
KINDS = (uniform, zipf)
CASES: dict[str, Callable[[], tuple[Callable[[], Step], Step]]] = {
    **{
        f"embedding {kind.__name__} {rows} x {width}, {terms} terms, {optimizer}": partial(
            embedding, kind, rows, width, terms, optimizer
        )
        for kind, (rows, width, terms), optimizer in product(KINDS, EMBEDDINGS, OPTIMIZERS)
    },
    **{
        f"segment sum {kind.__name__} {rows} x {width}, {terms} terms": partial(segment_sum, kind, rows, width, terms)
        for kind, (rows, width, terms) in product(KINDS, SEGMENTS)
    },
}


def fresh(compiled: Callable[[], Step]) -> Step:
    """The step without the cache of compiled code, which does not distinguish the two."""
    with mock.patch.object(compile_cache, "lookup", return_value=None):
        return compiled()


def plain(compiled: Callable[[], Step]) -> Step:
    with mock.patch.object(widen_scatter_accumulators, "with_wide_frequent_cells", return_value=None):
        return fresh(compiled)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name, case in CASES.items():
        if not all(word in name for word in arguments.names):
            continue
        compiled, torch_step = case()
        steps: dict[str, Step] = {"plain": plain(compiled), "ours": fresh(compiled), "torch": torch_step}
        times: dict[str, list[float]] = {label: [] for label in steps}
        for _ in range(arguments.rounds):
            for label, step in steps.items():
                step()
                start = time.process_time()
                for _ in range(3):
                    step()
                times[label].append((time.process_time() - start) / 3)
        usual = {label: median(values) for label, values in times.items()}
        ratios = [b / a for a, b in zip(times["plain"], times["ours"], strict=True)]
        print(
            f"{name:60} plain {usual['plain'] * 1e6:8.0f} us, ours {usual['ours'] * 1e6:8.0f}, "
            f"ratio {median(ratios):.3f}, torch {usual['torch'] * 1e6:8.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
