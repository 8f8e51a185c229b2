"""Random networks train as PyTorch has it, and as the program means before any pass.

A failure prints the seed and the smallest network found with the same defect, as a script that runs by itself.
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
    Way,
    Wrong,
    expected_by_evaluation,
    expected_by_torch,
    has_torch,
    judged,
)
from .generate import generate
from .machines import MACHINES, PLANNING
from .program import Network
from .shrink import shrunk

SECONDS = 120  # for making a network that fails smaller
EVALUATED = 5  # one in so many is evaluated as well where PyTorch judges


def usable(name: str) -> bool:
    module = f"ocannl_backend_{name}"
    return find_spec(module) is not None and import_module(module).ocannl_backend().probe() is None


BACKENDS = [name for name in ("llvm", "c") if usable(name)] or ["numpy"]


def way_of(seed: int, network: Network) -> Way:
    """Backends, threads, types, machines, thresholds and checks take turns; without PyTorch, derivatives that jump are
    compared where rounding moves nothing across a jump."""
    kind = "float64" if seed % 4 == 3 or not (has_torch() or network.is_smooth) else "float32"
    backend = BACKENDS[seed % len(BACKENDS)]
    machine = list(MACHINES)[seed // 2 % len(MACHINES)] if seed % 3 else "here"
    planning = list(PLANNING)[seed % 7 % len(PLANNING)]
    return Way(kind, backend, 1 + seed // 2 % 2, "every" if seed % 5 == 4 else "ends", machine, planning)


def expected(seed: int, network: Network) -> list[Expected]:
    """From all judges that can afford the network."""
    made = [expected_by_torch(network)] if has_torch() else []
    if network.work <= MAX_EVALUATED_WORK and (not made or seed % EVALUATED == 0):
        kind = way_of(seed, network).kind
        if network.is_smooth or kind == "float64":
            made.append(expected_by_evaluation(network))
    return made


def verdict(seed: int, network: Network) -> Wrong | None:
    return judged(network, way_of(seed, network), expected(seed, network))


def test_networks_train_as_they_should(seed: int) -> None:
    choices = Choices(Random(seed))
    network = generate(choices)
    wrong = verdict(seed, network)
    if wrong is None:
        return

    def fails(smaller: Network) -> bool:
        said = verdict(seed, smaller)
        return said is not None and said.kind == wrong.kind

    small = shrunk(choices.drawn, fails, SECONDS)
    way, said = way_of(seed, small), verdict(seed, small)
    again = f"OCANNL_TEST_FIRST={seed} OCANNL_TEST_NETWORKS=1 pytest {__file__}"
    pytest.fail(f"seed {seed}, {way}: {wrong}\n\n{again}\n\nA smaller network, of which is said: {said}\n\n"
                f"{small.script(way.kind, way.backend, way.threads)}", pytrace=False)  # fmt: skip
