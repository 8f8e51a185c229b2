"""Networks in `ocannl.nn` and in PyTorch: equal values, gradients and training steps, and about as many lines.

Each file `pairs_of_*.py` adds a table of pairs.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from compare_layers import compare
from network_pair import Pair
from usable_backends import usable_backends

TABLES = [import_module(path.stem) for path in sorted(Path(__file__).parent.glob("pairs_of_*.py"))]
PAIRS: list[Pair] = [pair for table in TABLES for pair in table.PAIRS]
MOST = 1.2  # times the lines of PyTorch


def test_number_of_pairs() -> None:
    assert len({pair.name for pair in PAIRS}) == len(PAIRS) >= 28


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_lines(pair: Pair) -> None:
    ours, theirs = pair.lines()
    assert ours <= MOST * theirs, f"{ours} lines in ocannl, {theirs} in PyTorch"


@pytest.mark.slow
@pytest.mark.sample(covering=("pair",))
@pytest.mark.parametrize("backend", usable_backends())
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_values_gradients_and_steps(pair: Pair, backend: str) -> None:
    compare(pair.row(), pair.sizes, backend)
