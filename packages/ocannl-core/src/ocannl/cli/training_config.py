"""Configurations of training runs: TOML files with a model, data, a loss and an optimizer, by their names."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from ocannl import nn, train
from ocannl.base.errors import ConfigError, OcannlError
from ocannl.base.keyword_answers import keyword_answer
from ocannl.cli.imported_function import imported_function
from ocannl.lang.blocks import BlockFunction
from ocannl.lang.ops import functions

OPTIMIZERS = ("adagrad", "adam", "adamw", "lamb", "lion", "muon", "nadam", "rmsprop", "sgd")
SCHEDULES = (
    "constant", "cosine_decay", "exponential_decay", "linear_decay", "one_cycle", "polynomial_decay", "step_decay",
)  # fmt: skip
METRICS = ("accuracy", "f1_score", "precision", "r2_score", "recall", "roc_auc", "top_k_accuracy")
TYPES = {"str": str, "int": int, "list[str]": list, "Mapping[str, Any]": dict}


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """The keys of a configuration.

    `model` is a layer of `ocannl.nn` or `MODULE:FUNCTION`, which is called with the keywords in `settings`; `loss` is
    an operation or `MODULE:FUNCTION`; `data` and `validation` are a file `.npz`, whose last array is the target, or
    `MODULE:FUNCTION`, which returns a mapping of arrays; `optimizer` has a `name`, and options of this optimizer, where
    a rate may be a table with the `name` of a schedule and its arguments.
    """

    model: str
    data: str
    loss: str
    batch: int
    epochs: int
    optimizer: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    validation: str = ""
    metrics: list[str] = field(default_factory=list)
    shuffle: int = 0
    seed: int = 42
    backend: str = ""
    checkpoint: str = ""
    log: str = ""


def read_config(path: Path) -> TrainingConfig:
    """Reads a configuration. Raises: ConfigError, with the name of the file, for anything that is none."""
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    names = [f.name for f in fields(TrainingConfig)]
    for key, value in content.items():
        if key not in names:
            raise ConfigError(f"{path} has an unknown key `{key}`: {keyword_answer(key, names)}")
        expected = TYPES[str(next(f.type for f in fields(TrainingConfig) if f.name == key))]
        if not isinstance(value, expected) or isinstance(value, bool):
            raise ConfigError(f"{path}: `{key}` is of the type {expected.__name__}, and not {value!r}"[:300])
    required = [name for name in names[: names.index("settings")] if name not in content]
    if required:
        raise ConfigError(f"{path} has no {', '.join(f'`{name}`' for name in required)}")
    return TrainingConfig(**content)


def model_of(config: TrainingConfig) -> Any:
    if ":" in config.model:
        build = imported_function(config.model)
    else:
        build = _named(config.model.removeprefix("nn."), nn.__all__, nn, "model")
    label = {"label": "model"} if isinstance(build, BlockFunction) else {}
    return _called(build, {**config.settings, **label}, "settings")


def loss_of(config: TrainingConfig) -> Callable[..., Any]:
    if ":" in config.loss:
        loss: Callable[..., Any] = imported_function(config.loss)
        return loss
    return _named(config.loss, functions.__all__, functions, "loss")


def optimizer_of(config: TrainingConfig) -> Callable[..., Any]:
    options = {key: _schedule(value) if isinstance(value, dict) else value for key, value in config.optimizer.items()}
    if not isinstance(options.get("name"), str):
        raise ConfigError('`optimizer` has the name of an optimizer, as in optimizer = {name = "adam"}')
    optimizer = _named(options.pop("name"), OPTIMIZERS, train, "optimizer")
    return lambda loss: _called(lambda **keywords: optimizer(loss, **keywords), options, "optimizer")


def metrics_of(config: TrainingConfig) -> dict[str, Callable[..., Any]]:
    return {name: _named(name, METRICS, train, "metrics") for name in config.metrics}


def arrays_of(source: str) -> dict[str, Any]:
    """The columns of a file `.npz`, or of what a function returns. Nothing in a file is executed."""
    if ":" in source:
        columns = imported_function(source)()
        if not isinstance(columns, Mapping):
            raise ConfigError(f"{source} returns a mapping from names to arrays, and not {columns!r}"[:300])
        return dict(columns)
    try:
        with np.load(source, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, AttributeError, BadZipFile) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it holds no plain arrays"
        raise ConfigError(f"the data {source!r} are neither a file .npz nor MODULE:FUNCTION: {reason}") from None


def _schedule(options: Mapping[str, Any]) -> Any:
    name = options.get("name")
    schedule = _named(name, SCHEDULES, train, "the name of a schedule")
    return _called(schedule, {key: value for key, value in options.items() if key != "name"}, str(name))


def _named(name: object, names: Iterable[str], module: Any, key: str) -> Callable[..., Any]:
    listed = [candidate for candidate in names if not candidate.startswith("_")]
    if not isinstance(name, str) or name not in listed:
        raise ConfigError(f"`{key}` has no {name!r}: {keyword_answer(str(name), listed).replace('=`', '`')}")
    found: Callable[..., Any] = getattr(module, name)
    return found


def _called(function: Callable[..., Any], keywords: Mapping[str, Any], key: str) -> Any:
    try:
        return function(**keywords)
    except (TypeError, OcannlError) as error:
        raise ConfigError(f"`{key}`: {error}") from None
