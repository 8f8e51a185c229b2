"""Configuration of all tests: Hypothesis profiles, the quick sample, golden texts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

from ocannl.ir.tnode import reset_ids

QUICK_CASES = 2  # of each parametrized test
GOLDEN = Path(__file__).parent / "golden"
FAILED_EXPECTATION = re.compile(r"ERROR:|FAILED|Traceback|should have", re.IGNORECASE)

os.environ.setdefault("OCANNL_ON_DEFECT", "raise")  # a defect of a pass must fail a test, not cost time
# equal plans on any machine
os.environ.setdefault("OCANNL_CPU", str(Path(__file__).parent / "machines" / "zen_5.json"))

settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.register_profile(
    "fuzz", deadline=None, max_examples=2000, print_blob=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="run a small sample of the cases and no `slow` tests")
    parser.addoption("--complete", action="store_true", help="run all cases, also of tests marked `sample`")
    parser.addoption("--update-golden", action="store_true", help="write the golden texts anew instead of comparing")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Limits the cases of each test function: with `--quick` to `QUICK_CASES`, or the `n` of a marker `quick(n)`; else
    to the `n` of a marker `sample(n)`.

    The choice depends on the names of the cases alone, so it is the same in every run. `--complete` lifts all limits.
    """
    if config.getoption("--complete"):
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    limit = _quick_limit if config.getoption("--quick") else _sample_limit
    chosen = {item for group in cases.values() for item in sorted(group, key=_digest)[: limit(group[0])]}
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


def _quick_limit(item: pytest.Item) -> int:
    if item.get_closest_marker("slow"):
        return 0
    marker = item.get_closest_marker("quick")
    return QUICK_CASES if marker is None else marker.args[0]


def _sample_limit(item: pytest.Item) -> int | None:
    marker = item.get_closest_marker("sample")
    return None if marker is None else marker.args[0]


def _digest(item: pytest.Item) -> int:
    return crc32(item.nodeid.encode())


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compares a text with the one in `tests/golden` that is called after the test, `printed/mlp-comp.txt` for
    `test_printed[mlp-comp]`. Numbers in names start at zero."""
    reset_ids()
    function, _, case = request.node.name.removeprefix("test_").rstrip("]").partition("[")
    path = GOLDEN / function / f"{case}.txt" if case else GOLDEN / f"{function}.txt"

    def compare(text: str) -> None:
        wrong = FAILED_EXPECTATION.search(text)
        assert not wrong, f"a golden text may not hold a failed expectation: {wrong and wrong[0]!r}"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.exists(), f"there is no {path} yet; write it with --update-golden, and read it"
        assert text == path.read_text(encoding="utf-8"), f"{path} says otherwise; --update-golden writes it anew"

    return compare
