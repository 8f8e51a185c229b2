"""Networks of papers at their sizes, beside PyTorch.

By default only the cheapest are compared, which take less than a minute together. `OCANNL_TEST_PAPERS=all` compares all
of them, and `OCANNL_TEST_PAPERS=lenet_5,dqn` those named. Skipped without PyTorch.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

import pytest

pytest.importorskip("torch")

from . import (  # noqa: F401
    audio,
    capsules,
    classifiers,
    contrastive,
    control,
    deep,
    embeddings,
    flows,
    generative,
    graphs,
    language,
    memory,
    mixer,
    modules,
    rendering,
    residual,
    text,
    transformers,
)
from .compare import check_gradients, check_steps
from .network import selection

BUDGET = 60.0  # seconds
BACKENDS = "llvm", "c"
NAMES = selection(os.environ.get("OCANNL_TEST_PAPERS", ""), BUDGET)


def for_each_network(test: Callable[..., None]) -> Callable[..., None]:
    """Networks vary slowest, since the reference of only one is kept."""
    for name, values in ("threads", [1, 2]), ("backend", BACKENDS), ("name", NAMES):
        test = pytest.mark.parametrize(name, values, scope="module")(test)
    return pytest.mark.sample(covering=("name backend", "name threads", "backend threads"))(test)


@for_each_network
def test_gradients(name: str, backend: str, threads: int) -> None:
    skip_unless_usable(backend)
    check_gradients(name, backend, threads)


@for_each_network
def test_steps(name: str, backend: str, threads: int) -> None:
    skip_unless_usable(backend)
    check_steps(name, backend, threads)


def skip_unless_usable(backend: str) -> None:
    module = f"ocannl_backend_{backend}"
    if find_spec(module) is None or (reason := import_module(module).ocannl_backend().probe()):
        pytest.skip(reason if find_spec(module) else f"{module} is not installed")
