"""Training of random networks agrees with PyTorch and with evaluation of the unoptimized program.

A failure prints the seed and a minimal network with the same defect, as a standalone script.
OCANNL_TEST_FIRST=seed OCANNL_TEST_NETWORKS=1 runs one seed alone.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from random import Random

import pytest

from .choices import Choices
from .compare import (
    MAX_EVALUATED_WORK,
    Expected,
    Failure,
    RunConfig,
    check_network,
    expected_by_evaluation,
    expected_by_torch,
    has_torch,
)
from .generate import generate
from .machine_configs import MACHINES, PLANNING
from .program import Network
from .shrink import shrunk

SECONDS = 120  # for making a network that fails smaller
EVALUATED = 5  # one in so many is evaluated as well where PyTorch judges


def usable(name: str) -> bool:
    module = f"ocannl_backend_{name}"
    return find_spec(module) is not None and import_module(module).ocannl_backend().probe() is None


BACKENDS = [name for name in ("llvm", "c") if usable(name)] or ["numpy"]


def run_config_of(seed: int, network: Network) -> RunConfig:
    """Cycles through backends, threads, types, machines, thresholds and checks. Without PyTorch, networks with
    discontinuous derivatives are compared in float64 only."""
    kind = "float64" if seed % 4 == 3 or not (has_torch() or network.is_smooth) else "float32"
    backend = BACKENDS[seed % len(BACKENDS)]
    machine = list(MACHINES)[seed // 2 % len(MACHINES)] if seed % 3 else "here"
    planning = list(PLANNING)[seed % 7 % len(PLANNING)]
    return RunConfig(kind, backend, 1 + seed // 2 % 2, "every" if seed % 5 == 4 else "ends", machine, planning)


def expected(seed: int, network: Network) -> list[Expected]:
    """The results of all oracles that can compute the network."""
    results = [expected_by_torch(network)] if has_torch() else []
    if network.work <= MAX_EVALUATED_WORK and (not results or seed % EVALUATED == 0):
        kind = run_config_of(seed, network).kind
        if network.is_smooth or kind == "float64":
            results.append(expected_by_evaluation(network))
    return results


def verdict(seed: int, network: Network) -> Failure | None:
    """In float64, PyTorch may be less accurate than the compiled code; the evaluator, adding in 80 bits, decides."""
    run_config = run_config_of(seed, network)
    failure = check_network(network, run_config, expected(seed, network))
    if failure is not None and failure.kind == "disagreement" and run_config.kind == "float64":
        return check_network(network, run_config, [expected_by_evaluation(network)])
    return failure


def test_networks_train_as_they_should(seed: int) -> None:
    choices = Choices(Random(seed))
    network = generate(choices)
    wrong = verdict(seed, network)
    if wrong is None:
        return

    def fails(smaller: Network) -> bool:
        failure = verdict(seed, smaller)
        return failure is not None and failure.kind == wrong.kind

    small = shrunk(choices.drawn, fails, SECONDS)
    run_config, failure = run_config_of(seed, small), verdict(seed, small)
    command = f"OCANNL_TEST_FIRST={seed} OCANNL_TEST_NETWORKS=1 pytest {__file__}"
    pytest.fail(f"seed {seed}, {run_config}: {wrong}\n\n{command}\n\nA smaller network: {failure}\n\n"
                f"{small.script(run_config.kind, run_config.backend, run_config.threads)}", pytrace=False)  # fmt: skip


@pytest.mark.parametrize("seed_of_network", [11359, 11515, 11547])
def test_roundings_of_pytorch_are_no_defects(seed_of_network: int) -> None:
    """Gradients of PyTorch in float64 are off by more than is allowed, those of the compiled networks are not."""
    assert verdict(seed_of_network, generate(Choices(Random(seed_of_network)))) is None


def test_roundings_that_a_network_amplifies_are_allowed() -> None:
    """The variance of two channels of a batch is near zero, and roundings of the data change gradients by a tenth."""
    seed = 10505
    assert verdict(seed, generate(Choices(Random(seed)))) is None
