"""Configuration of all tests: Hypothesis profiles, the quick sample, golden texts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

from ocannl.base import disk_cache, settings_files
from ocannl.ir.tnode import reset_ids

QUICK_CASES = 1  # of each parametrized test
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


def pytest_runtest_setup() -> None:
    """Lets every test log the warnings that a process logs once."""
    disk_cache._warned.clear()
    settings_files._warned.clear()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="run a small sample of the cases and no `slow` tests")
    parser.addoption("--complete", action="store_true", help="run all cases, also of tests marked `sample`")
    parser.addoption("--update-golden", action="store_true", help="write the golden texts anew instead of comparing")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Limits the cases of each test function: with `--quick` to `QUICK_CASES`, or the `n` of a marker `quick(n)`; else
    to those that a marker `sample` chooses.

    The choice depends on the names of the cases alone, so it is the same in every run. `--complete` lifts all limits.
    """
    if config.getoption("--complete"):
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    sample = _quick_sample if config.getoption("--quick") else _sample
    chosen = {item for group in cases.values() for item in sample(sorted(group, key=_digest))}
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


def _quick_sample(cases: list[pytest.Item]) -> list[pytest.Item]:
    if cases[0].get_closest_marker("slow"):
        return []
    marker = cases[0].get_closest_marker("quick")
    return cases[: QUICK_CASES if marker is None else marker.args[0]]


def _sample(cases: list[pytest.Item]) -> list[pytest.Item]:
    """The first `n` cases with `sample(n)`. With `sample(covering=("row backend", "row kind"))`, so many that each row
    is tried on each backend and in each type, as far as such cases exist: first those that are new in both ways, then
    those that are new in one."""
    marker = cases[0].get_closest_marker("sample")
    if marker is None:
        return cases
    if marker.args:
        return cases[: marker.args[0]]
    tried: set[object] = set()
    chosen = []
    for is_new in (all, any):
        for case in cases:
            values = case.callspec.params  # type: ignore[attr-defined]
            combinations = {
                (names, *(repr(values[name]) for name in names.split())) for names in marker.kwargs["covering"]
            }
            if is_new(combination not in tried for combination in combinations):
                tried |= combinations
                chosen.append(case)
    return chosen


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
