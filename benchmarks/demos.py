"""The demonstrations beside PyTorch: the same data in the same order, initial values, optimizers and numbers of steps.

    python benchmarks/demos.py [--seed N] [--threads N] [NAME ...]

Scores are those of data that the models were not trained on: accuracy, R2, or nats per character, which are better if
lower. Times are those of a step, in milliseconds of elapsed time; PyTorch is measured in eager mode.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

import ocannl as oc
from ocannl import train
from ocannl.demos import language, tabular

Weights = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Experiment:
    """A model and its twin in PyTorch, a function of the weights by path and of a batch."""

    model: Any
    twin: Callable[[Weights, torch.Tensor], torch.Tensor]
    data: train.Batches
    held_out: train.Batches
    loss: Callable[..., oc.Tensor]
    torch_loss: Callable[..., torch.Tensor]
    score: Callable[[np.ndarray, np.ndarray], float]
    rate: float
    decay: float
    epochs: int


def run_ours(experiment: Experiment, ctx: oc.Context) -> tuple[dict[str, np.ndarray], float, float]:
    """The initial values, the score, and the seconds of a step."""
    inputs, target = experiment.data.placeholders
    output = experiment.model(inputs)
    ctx.init(output)
    initial = {path: ctx[p] for path, p in experiment.model.params.items()}
    fitted = train.fit(
        experiment.model, loss=experiment.loss, data=experiment.data, ctx=ctx, epochs=experiment.epochs, show=False,
        optimizer=lambda loss: train.adamw(loss, experiment.rate, weight_decay=experiment.decay),
    )  # fmt: skip
    predict = ctx.compile(output.forward)
    predicted, targets = [], []
    for feed in experiment.held_out:
        ctx[inputs] = feed[inputs]
        predict()
        predicted.append(ctx[output])
        targets.append(feed[target])
    return initial, experiment.score(np.concatenate(predicted), np.concatenate(targets)), fitted.step_seconds


def run_torch(experiment: Experiment, initial: Mapping[str, np.ndarray]) -> tuple[float, float]:
    weights = {path: torch.tensor(array, requires_grad=True) for path, array in initial.items()}
    optimizer = torch.optim.AdamW(weights.values(), experiment.rate, weight_decay=experiment.decay)
    inputs, target = experiment.data.placeholders
    count, start = 0, perf_counter()
    for _ in range(experiment.epochs):
        for feed in experiment.data:
            optimizer.zero_grad()
            loss = experiment.torch_loss(experiment.twin(weights, tensor(feed[inputs])), tensor(feed[target]))
            loss.backward()
            optimizer.step()
            count += 1
    seconds = (perf_counter() - start) / count
    with torch.no_grad():
        rows = [(experiment.twin(weights, tensor(feed[inputs])).numpy(), feed[target]) for feed in experiment.held_out]
    return experiment.score(*(np.concatenate(column) for column in zip(*rows, strict=True))), seconds


def tensor(array: np.ndarray) -> torch.Tensor:
    t = torch.tensor(array)
    return t if t.is_floating_point() else t.long()


# --- models in PyTorch ---


def dense(w: Weights, path: str, x: torch.Tensor) -> torch.Tensor:
    return F.linear(x, w[f"{path}w"], w[f"{path}b"])


def perceptron_of_rows(w: Weights, x: torch.Tensor) -> torch.Tensor:
    return dense(w, "linear_2.", torch.relu(dense(w, "linear.", x)))


def bigram(w: Weights, tokens: torch.Tensor) -> torch.Tensor:
    return F.embedding(tokens, w["logits.table"])


def perceptron(w: Weights, tokens: torch.Tensor, context: int = 8) -> torch.Tensor:
    embedded = F.pad(F.embedding(tokens, w["characters.table"]), (0, 0, context - 1, 0))
    windows = embedded.unfold(1, context, 1).transpose(-1, -2)
    hidden = torch.tanh(torch.einsum("btkc,okc->bto", windows, w["mlp.linear.w"]) + w["mlp.linear.b"])
    return dense(w, "mlp.linear_2.", hidden)


def recurrent(w: Weights, tokens: torch.Tensor) -> torch.Tensor:
    embedded = F.embedding(tokens, w["characters.table"])
    parameters = [w[f"gru.cell.{name}"] for name in ("w_x", "w_h", "b_x", "b_h")]
    start = torch.zeros(1, len(tokens), parameters[1].shape[1])
    states, _ = torch.gru(embedded, start, parameters, True, 1, 0.0, True, False, True)
    return dense(w, "logits.", states)


def transformer(w: Weights, tokens: torch.Tensor, heads: int = 4) -> torch.Tensor:
    x = F.embedding(tokens, w["token.table"]) + w["position.table"][: tokens.shape[1]]
    batch, length, width = x.shape
    for name in ("layer", "layer_2"):
        at = f"decoder.{name}."
        h = F.layer_norm(x, [width], w[f"{at}norm.gain"], w[f"{at}norm.b"])
        q, k, v = (
            F.linear(h, w[f"{at}attention.w_{part}"], w[f"{at}attention.b_{part}"])
            .view(batch, length, heads, -1)
            .transpose(1, 2)
            for part in "qkv"
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
        x = x + F.linear(mixed, w[f"{at}attention.w_o"], w[f"{at}attention.b_o"])
        h = F.layer_norm(x, [width], w[f"{at}norm_2.gain"], w[f"{at}norm_2.b"])
        hidden = F.gelu(dense(w, f"{at}feed_forward.inner.", h), approximate="tanh")
        x = x + dense(w, f"{at}feed_forward.outer.", hidden)
    x = F.layer_norm(x, [width], w["decoder.norm.gain"], w["decoder.norm.b"])
    return F.linear(x, w["token.table"])


TWINS = {"bigram": bigram, "perceptron": perceptron, "recurrent": recurrent, "transformer": transformer}


# --- experiments ---


def accuracy(logits: np.ndarray, target: np.ndarray) -> float:
    return float(np.mean(logits.argmax(-1) == target))


def r2(predicted: np.ndarray, target: np.ndarray) -> float:
    return float(1 - np.sum((predicted - target) ** 2) / np.sum((target - target.mean()) ** 2))


def nats(logits: np.ndarray, target: np.ndarray) -> float:
    return float(torch_cross_entropy(torch.tensor(logits), torch.tensor(target).long()))


def torch_cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, -2), target.flatten())


def of_table(name: str, epochs: int, seed: int) -> Experiment:
    table = tabular.TABLES[name]
    rows, test = tabular.load(table, seed)
    data = train.batches({"x": rows.inputs, "target": rows.target}, tabular.BATCH, shuffle=seed, partial="drop")
    held_out = data.of({"x": test.inputs, "target": test.target})
    is_classes = table.is_classification
    return Experiment(
        oc.nn.mlp(widths=[tabular.HIDDEN, table.outputs]), perceptron_of_rows, data, held_out, table.loss,
        torch_cross_entropy if is_classes else F.mse_loss, accuracy if is_classes else r2, 3e-3, 0.1, epochs,
    )  # fmt: skip


def of_characters(name: str, task: language.Task, epochs: int, seed: int) -> Experiment:
    corpus = task.corpus()
    model = task.model.build(vocabulary=len(corpus.alphabet), length=task.length)
    data, held_out = language.batches_of(corpus, task, seed)
    return Experiment(
        model, TWINS[name], data, held_out, oc.cross_entropy, torch_cross_entropy, nats, task.model.rate, 0.01, epochs
    )


def experiments() -> dict[str, Callable[[int], Experiment]]:
    tables = {name: partial(of_table, name, 30) for name in tabular.TABLES}
    names = {f"names-{name}": partial(of_characters, name, language.names_task(name), 4) for name in language.MODELS}
    return {**tables, **names, "text": partial(of_characters, "transformer", language.TEXT, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"{'demonstration':<18} {'score':>8} {'PyTorch':>8} {'ms':>8} {'PyTorch':>8} {'ratio':>6}")
    for name, make in experiments().items():
        if arguments.names and name not in arguments.names:
            continue
        initial, score, seconds = run_ours(make(arguments.seed), oc.Context("llvm", threads=arguments.threads))
        torch_score, torch_seconds = run_torch(make(arguments.seed), initial)
        print(
            f"{name:<18} {score:>8.4f} {torch_score:>8.4f} {seconds * 1e3:>8.3f} {torch_seconds * 1e3:>8.3f} "
            f"{torch_seconds / seconds:>6.2f}"
        )


if __name__ == "__main__":
    main()
