"""Base class of the areas of the kit: selects the tested backend."""

from __future__ import annotations

from typing import ClassVar

import pytest

from ocannl.backend.api import Backend
from ocannl.backend.registry import resolve
from ocannl.base.config import ON_DEFECT
from ocannl.testing.kit.harness import Bench

OPTION = "--ocannl-backend"


class Area:
    """Tests of one backend: named by the subclass, else by the command line, else the default backend."""

    backend: ClassVar[str | None] = None

    @pytest.fixture(autouse=True)
    def raise_on_defects(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A backend that fails on a program fails the test: the core must not compile a plainer program."""
        monkeypatch.setenv(ON_DEFECT.variable, "raise")

    @pytest.fixture(scope="class")
    @classmethod
    def tested(cls, request: pytest.FixtureRequest) -> Backend:
        named: str | None = getattr(request, "param", None) or cls.backend
        return resolve(named or request.config.getoption(OPTION, None))

    @pytest.fixture(scope="class")
    @classmethod
    def bench(cls, tested: Backend) -> Bench:
        return Bench(tested)
