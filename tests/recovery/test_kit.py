"""The conformance kit never replaces a program that a backend fails on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ocannl.base.config import ON_DEFECT, settings
from ocannl.testing.kit.backend_tests import Area


@pytest.fixture(autouse=True)
def recovering() -> Iterator[None]:
    """Replaces the fixture of this folder: nothing is set."""
    with settings(on_defect=None):
        yield


class TestArea(Area):
    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def default_setting(cls) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv(ON_DEFECT.variable, raising=False)
            yield

    def test_a_failing_backend_fails_a_test(self) -> None:
        assert ON_DEFECT.default == "recover"
        assert ON_DEFECT.get() == "raise"
