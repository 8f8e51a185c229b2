"""What the areas of the kit have in common: the backend that is tested."""

from __future__ import annotations

from typing import ClassVar

import pytest

from ocannl.backend.api import Backend
from ocannl.backend.registry import resolve
from ocannl.testing.kit.bench import Bench

OPTION = "--ocannl-backend"


class Area:
    """Tests of one backend: the one that a subclass names, else the one of the command line, else the default one."""

    backend: ClassVar[str | None] = None

    @pytest.fixture(scope="class")
    @classmethod
    def tested(cls, request: pytest.FixtureRequest) -> Backend:
        named: str | None = getattr(request, "param", None) or cls.backend
        return resolve(named or request.config.getoption(OPTION, None))

    @pytest.fixture(scope="class")
    @classmethod
    def bench(cls, tested: Backend) -> Bench:
        return Bench(tested)
