"""Every backend that is installed and works here, for classes of the kit; and the kit as judge of backends that lie."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import ocannl as oc
from ocannl.backend import Backend, registry
from ocannl.testing import test_conformance
from ocannl.testing.kit import queues
from ocannl.testing.kit.backend_tests import Area

sys.path.append(str(Path(__file__).parents[3] / "packages" / "ocannl-backend-example" / "src"))  # it is not installed

from ocannl_backend_example.backend import ExampleBackend

BACKENDS = [*(row.name for row in oc.backends() if row.usable and row.name != "example"), "example"]


@pytest.fixture(scope="session", autouse=True)
def _example() -> None:
    registry._backends.setdefault("example", ExampleBackend())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.cls is not None and issubclass(metafunc.cls, Area):
        metafunc.parametrize("tested", BACKENDS, indirect=True, scope="class")


@dataclass
class Verdict:
    """How many tests passed, and how many failed."""

    passed: int = 0
    failed: int = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed += report.failed
        self.passed += report.passed and report.when == "call"


# the last two plugins collect garbage at the end of a session, which is slow in a large process
PLUGINS = ("cacheprovider", "faulthandler", "logging", "terminal", "threadexception", "unraisableexception")
SILENT = [f"-pno:{plugin}" for plugin in PLUGINS]


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Backend], Verdict]:
    """What one area of the kit says of a backend that is installed nowhere, up to the first failure."""
    monkeypatch.setattr(queues, "LIMIT", 1)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(area: str, backend: Backend) -> Verdict:
        verdict = Verdict()
        monkeypatch.setitem(registry._backends, backend.name, backend)
        where, chosen = f"{test_conformance.__file__}::Test{area}", f"--ocannl-backend={backend.name}"
        pytest.main([where, chosen, *SILENT, "-pocannl_pytest", "-c/dev/null", "-x", "--capture=no"], [verdict])
        return verdict

    return run
