"""The demonstrations beside PyTorch and JAX: the same data in the same order, initial values, optimizers and steps.

    python benchmarks/demos.py [--seed N] [--threads N] [--times] [NAME ...]

Scores are those of data that the models were not trained on: accuracy, R2, nats per character, nats per image, or the
distance of mean images; the last three are better if lower. There is no dropout, and noise is part of the data.

With `--times`, the table has the times of a training step in milliseconds, for PyTorch also by `torch.compile`: the
smallest mean of several rounds of steps, in which the systems take turns. The last columns are the least time of the
others, relative to ocannl, and the largest relative difference of a loss in the first steps from that of PyTorch.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from twins import models
from twins.objectives import Adam, Objective, Training

import ocannl as oc
from ocannl import nn, train
from ocannl.demos import addition, digits, generative, language, pictures, tabular

Array = np.ndarray[Any, Any]
Batch = Mapping[str, Array]
FIRST_STEPS, ROUNDS, ROUND_SECONDS = 3, 7, 0.1


class Trainer(Protocol):
    def step(self, batch: Batch) -> list[float]: ...


@dataclass(frozen=True)
class Task:
    """An objective in ocannl, and the same in its twin."""

    loss: oc.Tensor
    twin: Callable[..., Any]
    params: str = ""


@dataclass(frozen=True)
class Experiment:
    """`blocks` are the trained ones, by the beginning of the paths of their twin's weights. `score` compares
    predictions with the column `target` of the data."""

    data: train.Batches
    test_data: train.Batches
    blocks: Mapping[str, Any]
    tasks: Sequence[Task]
    output: oc.Tensor
    predict: Callable[..., Any]
    score: Callable[[Array, Array], float]
    target: str
    optimizer: Adam
    epochs: int


def batches_of(data: train.Batches) -> Iterator[Batch]:
    """An epoch, by the names of columns."""
    for feed in data:
        yield {str(t.label): array for t, array in feed.items()}


class Ours:
    def __init__(self, experiment: Experiment, threads: int) -> None:
        self.experiment = experiment
        self.ctx = ctx = oc.Context("llvm", threads=threads)
        losses = [task.loss for task in experiment.tasks]
        for t in (*losses, experiment.output):
            ctx.init(t)
        codes = [self._update(task) for task in experiment.tasks]
        self._step = ctx.compile(oc.seq(*codes), keep=losses)
        self._predict = ctx.compile(experiment.output.forward)
        self._inputs = {t.label: t for t in experiment.data.placeholders}

    def _update(self, task: Task) -> oc.Code:
        adam = self.experiment.optimizer
        rate: Any = adam.rate if adam.steps is None else train.cosine_decay(adam.rate, adam.steps)
        params = self.experiment.blocks[task.params] if task.params else None
        update = train.adamw(task.loss, rate, weight_decay=adam.decay, betas=adam.betas, eps=adam.eps, params=params)
        return oc.seq(train.grad_update(task.loss), update)

    def weights(self) -> tuple[dict[str, Array], frozenset[str]]:
        """All weights by path, and the paths of those that are no parameters."""
        blocks = self.experiment.blocks.items()
        params = {f"{prefix}{path}": self.ctx[p] for prefix, block in blocks for path, p in block.params.items()}
        states = {f"{prefix}{path}": self.ctx[s] for prefix, block in blocks for path, s in block.states.items()}
        return params | states, frozenset(states)

    def _feed(self, batch: Batch) -> None:
        for name, array in batch.items():
            if name in self._inputs:
                self.ctx[self._inputs[name]] = array

    def step(self, batch: Batch) -> list[float]:
        self._feed(batch)
        self._step()
        return [float(self.ctx[task.loss]) for task in self.experiment.tasks]

    def predict(self, batch: Batch) -> Array:
        self._feed(batch)
        self._predict()
        return np.array(self.ctx[self.experiment.output])


# --- experiments ------------------------------------------------------------------------------------------------------


def accuracy(logits: Array, target: Array) -> float:
    return float(np.mean(logits.argmax(-1) == target))


def exact(logits: Array, target: Array) -> float:
    return float(np.mean((logits.argmax(-1) == target).all(-1)))


def r2(predicted: Array, target: Array) -> float:
    return float(1 - np.sum((predicted - target) ** 2) / np.sum((target - target.mean()) ** 2))


def nats(logits: Array, target: Array) -> float:
    logits = logits.astype("float64")
    largest = logits.max(-1, keepdims=True)
    log_sum = np.log(np.exp(logits - largest).sum(-1)) + largest[..., 0]
    return float(np.mean(log_sum - np.take_along_axis(logits, target[..., None], -1)[..., 0]))


def mean(losses: Array, target: Array) -> float:
    return float(losses.mean())


def distance(drawn: Array, target: Array) -> float:
    return float(np.abs(drawn.mean(0) - target.mean(0)).max())


def supervised(
    model: Any, twin: Callable[..., Any], data: train.Batches, test_data: train.Batches, loss: str, **settings: Any
) -> Experiment:
    """A model whose target is the last column; `loss` is the name of a function in ocannl and in the libraries."""
    *inputs, target = data.placeholders
    names = [str(t.label) for t in inputs]
    output = model(*inputs)

    def predict(lib: Any, w: Any, batch: Any, **mode: bool) -> Any:
        return twin(lib, w, *(batch[name] for name in names), **mode)

    training_mode = {"is_training": True} if model.states else {}
    inference_mode = {"is_training": False} if model.states else {}

    def twin_loss(lib: Any, w: Any, batch: Any) -> Any:
        return getattr(lib, loss)(predict(lib, w, batch, **training_mode), batch[target.label])

    task = Task(getattr(oc, loss)(output, target).mean(), twin_loss)
    return Experiment(
        data, test_data, {"": model}, [task], output, partial(predict, **inference_mode), target=str(target.label),
        **settings,
    )  # fmt: skip


def of_table(name: str, seed: int) -> Experiment:
    table = tabular.TABLES[name]
    rows, test = tabular.load(table, seed)
    data = train.batches({"x": rows.inputs, "target": rows.target}, tabular.BATCH, shuffle=seed, partial="drop")
    test_data = data.of({"x": test.inputs, "target": test.target})
    model = nn.mlp(widths=[tabular.HIDDEN, table.outputs])
    twin = partial(models.mlp, path="")
    loss, score = ("cross_entropy", accuracy) if table.is_classification else ("squared_error", r2)
    return supervised(
        model, lambda lib, w, x: twin(lib, w, x=x), data, test_data, loss, score=score,
        optimizer=Adam(3e-3, decay=0.1), epochs=30,
    )  # fmt: skip


def of_characters(name: str, task: language.Task, epochs: int, seed: int) -> Experiment:
    corpus = task.corpus()
    model = task.model.build(vocabulary=len(corpus.alphabet), length=task.length)
    data, test_data = language.batches_of(corpus, task, seed)
    return supervised(
        model, getattr(models, name), data, test_data, "cross_entropy", score=nats,
        optimizer=Adam(task.model.rate, decay=0.01), epochs=epochs,
    )  # fmt: skip


def of_sums(seed: int, epochs: int = 10) -> Experiment:
    data, test_data = addition.batches_of(*addition.load(seed), seed)
    optimizer = Adam(addition.RATE, steps=epochs * len(data))
    return supervised(
        addition.adder(label="adder"), models.adder, data, test_data, "cross_entropy", score=exact, optimizer=optimizer,
        epochs=epochs,
    )  # fmt: skip


def of_pictures(name: str, epochs: int, seed: int) -> Experiment:
    classifier, samples = pictures.CLASSIFIERS[name], digits.load(seed)
    data = train.batches(pictures.columns(samples.train), pictures.BATCH, shuffle=seed, partial="drop")
    test_data = data.of(pictures.columns(samples.test))
    return supervised(
        classifier.build(), getattr(models, name), data, test_data, "cross_entropy", score=accuracy,
        optimizer=Adam(classifier.rate), epochs=epochs,
    )  # fmt: skip


def with_noise(size: int, scale: float) -> Callable[..., Any]:
    """Adds a column of normal numbers to a batch."""

    def columns(batch: Any, rng: np.random.Generator) -> Any:
        noise = scale * rng.normal(size=(len(batch["image"]), size))
        return {**batch, "noise": noise.astype("float32")}

    return columns


def noisy_images(seed: int, size: int, test_scale: float) -> tuple[train.Batches, train.Batches]:
    samples, batch = digits.load(seed), generative.BATCH
    image = oc.placeholder("image", batch=[batch], output=[generative.PIXELS])
    inputs = {image: "image", oc.placeholder("noise", batch=[batch], output=[size]): "noise"}
    return tuple(  # type: ignore[return-value]
        train.batches(
            {"image": split.images}, batch, inputs=inputs, shuffle=seed, map=with_noise(size, scale), partial="drop"
        )
        for split, scale in ((samples.train, 1.0), (samples.test, test_scale))
    )


def of_vae(seed: int, epochs: int = 60) -> Experiment:
    data, test_data = noisy_images(seed, generative.LATENT, test_scale=0.0)
    image, noise = data.placeholders
    decoder = nn.mlp(widths=[generative.HIDDEN, generative.PIXELS], label="decoder")
    encoder = nn.mlp(widths=[generative.HIDDEN], label="encoder")
    model = nn.vae(latent=generative.LATENT, encoder=encoder, decoder=decoder, label="vae")
    losses = generative.negative_elbo(model(image, noise), image)

    def twin(lib: Any, w: Any, batch: Any) -> Any:
        return models.negative_elbo(lib, w, batch["image"], batch["noise"])

    tasks = [Task(losses.mean(), lambda lib, w, batch: twin(lib, w, batch).mean())]
    return Experiment(
        data, test_data, {"": model}, tasks, losses, twin, mean, "image", Adam(generative.VAE_RATE), epochs
    )


def of_gan(seed: int, epochs: int = 150) -> Experiment:
    data, test_data = noisy_images(seed, generative.NOISE, test_scale=1.0)
    image, noise = data.placeholders
    generate = generative.generator(label="generator")
    judge = nn.mlp(widths=[generative.HIDDEN, 1], label="judge")
    drawn = generate(noise)
    judged, fooled = generative.adversarial_losses(judge, image, drawn)
    tasks = [
        Task(judged, lambda lib, w, batch: models.judged(lib, w, batch["image"], batch["noise"]), "judge."),
        Task(fooled, lambda lib, w, batch: models.fooled(lib, w, batch["noise"]), "generator."),
    ]
    return Experiment(
        data, test_data, {"generator.": generate, "judge.": judge}, tasks, drawn,
        lambda lib, w, batch: models.generator(lib, w, batch["noise"]), distance, "image",
        Adam(generative.GAN_RATE, betas=generative.GAN_BETAS), epochs,
    )  # fmt: skip


EXPERIMENTS: Mapping[str, Callable[[int], Experiment]] = {
    **{name: partial(of_table, name) for name in tabular.TABLES},
    **{f"names-{name}": partial(of_characters, name, language.names_task(name), 4) for name in language.MODELS},
    "text": partial(of_characters, "transformer", language.TEXT, 1),
    "addition": of_sums,
    **{name: partial(of_pictures, name, epochs) for name, epochs in (("lenet", 10), ("resnet", 5), ("vit", 10))},
    "vae": of_vae,
    "gan": of_gan,
}


# --- tables -----------------------------------------------------------------------------------------------------------


def training_of(ours: Ours) -> Training:
    """The twin of a model that is not trained yet."""
    experiment, (weights, states) = ours.experiment, ours.weights()
    objectives = [Objective(task.twin, task.params) for task in experiment.tasks]
    return Training(objectives, experiment.predict, experiment.optimizer, weights, states)


def score_of(trainer: Any, experiment: Experiment) -> float:
    """Trains, and predicts the rows that were held out."""
    for _ in range(experiment.epochs):
        for batch in batches_of(experiment.data):
            trainer.step(batch)
    rows = [(trainer.predict(batch), batch[experiment.target]) for batch in batches_of(experiment.test_data)]
    return experiment.score(*(np.concatenate(column) for column in zip(*rows, strict=True)))


def print_scores(make: Callable[[int], Experiment], name: str, seed: int, threads: int) -> None:
    from twins import by_torch

    ours = Ours(make(seed), threads)
    twin = by_torch.Trainer(training_of(ours))
    score, peer = (score_of(trainer, make(seed)) for trainer in (ours, twin))
    print(f"{name:<18} {score:>9.4f} {peer:>9.4f}", flush=True)


def print_times(make: Callable[[int], Experiment], name: str, seed: int, threads: int) -> None:
    import torch
    from twins import by_jax, by_torch

    torch.compiler.reset()  # its limit of recompilations counts those of other demonstrations
    ours = Ours(make(seed), threads)
    training = training_of(ours)
    eager, compiled = (by_torch.Trainer(training, compiled) for compiled in (False, True))
    trainers: list[Trainer] = [ours, eager, compiled, by_jax.Trainer(training)]
    batches = list(islice(batches_of(make(seed).data), FIRST_STEPS))
    losses = np.array([[trainer.step(batch) for batch in batches] for trainer in trainers])
    difference = np.max(np.abs(losses / losses[1] - 1))
    seconds = shortest_times(trainers, batches)
    columns = " ".join(f"{1e3 * time:>9.3f}" for time in seconds)
    print(f"{name:<18} {columns} {min(seconds[1:]) / seconds[0]:>6.2f} {difference:>10.1e}", flush=True)


def shortest_times(trainers: Sequence[Trainer], batches: Sequence[Batch]) -> list[float]:
    """The time of a step of each, in seconds."""
    times: list[list[float]] = [[] for _ in trainers]
    for _ in range(ROUNDS):
        for trainer, samples in zip(trainers, times, strict=True):
            start, count = perf_counter(), 0
            while (passed := perf_counter() - start) < ROUND_SECONDS:
                trainer.step(batches[count % len(batches)])
                count += 1
            samples.append(passed / count)
    return list(map(min, times))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help=", ".join(EXPERIMENTS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--times", action="store_true", help="measure steps instead of training")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.threads])  # JAX starts a thread for each
    import torch

    torch.set_num_threads(arguments.threads)
    peers = "  compiled       JAX  ratio difference" if arguments.times else ""
    print(f"{'demonstration':<18}    ocannl   PyTorch{peers}")
    show = print_times if arguments.times else print_scores
    for name in arguments.names or EXPERIMENTS:
        show(EXPERIMENTS[name], name, arguments.seed, arguments.threads)


if __name__ == "__main__":
    main()
