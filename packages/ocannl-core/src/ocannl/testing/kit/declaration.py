"""The declaration of a backend: description, devices, capabilities."""

from __future__ import annotations

import time

import pytest

from ocannl.backend.api import API_VERSION, Backend
from ocannl.backend.discovery import discover
from ocannl.backend.plugin_loader import describe, probe
from ocannl.ir.name_mangling import identifier
from ocannl.ir.precision import PRECISIONS
from ocannl.testing.kit.backend_tests import Area
from ocannl.testing.kit.harness import Bench


class Declaration(Area):
    """The description is valid and matches the backend; properties are constant."""

    def test_the_description(self, tested: Backend) -> None:
        candidates = discover().get(tested.name, ())
        if not candidates:
            pytest.skip("the backend comes from no distribution")
        info = describe(candidates[0])
        assert len(candidates) == 1, "several distributions claim the name"
        assert info.name == tested.name
        assert info.api_version == API_VERSION
        assert info.description.strip() and "\n" not in info.description
        assert probe(candidates[0], info) is None

    def test_asking_whether_it_works_is_cheap(self, tested: Backend) -> None:
        candidates = discover().get(tested.name, ())
        if not candidates:
            pytest.skip("the backend comes from no distribution")
        info = describe(candidates[0])
        start = time.perf_counter()
        for _ in range(3):
            assert probe(candidates[0], info) is None
        assert time.perf_counter() - start < 5

    def test_its_name_is_a_plain_word(self, tested: Backend) -> None:
        assert identifier(tested.name.replace("-", "_")) == tested.name.replace("-", "_")

    def test_its_version_stays(self, tested: Backend) -> None:
        """The version is part of the keys of the compile cache."""
        assert tested.version.strip()
        assert tested.version == tested.version

    def test_its_capabilities_stay(self, tested: Backend) -> None:
        claimed = tested.capabilities
        assert claimed == tested.capabilities
        assert claimed.precisions, "a backend that claims no precision computes nothing"
        assert claimed.precisions <= {p.name for p in PRECISIONS}, "there are no such precisions"

    def test_its_devices(self, tested: Backend) -> None:
        count = tested.device_count()
        assert count >= 1 and count == tested.device_count()
        for n in range(min(count, 16)):
            assert tested.device(n).ordinal == n
            assert tested.device(n).bytes_in_use >= 0
            assert tested.device(n).reaches(tested.device(n))

    def test_asking_again_gives_the_same_device(self, bench: Bench) -> None:
        """A device is one object, or several that share the memory count."""
        first, again = bench.backend.device(0), bench.backend.device(0)
        before = again.bytes_in_use
        pool = first.alloc_pool(100)
        assert again.bytes_in_use >= before + 100
        again.free_pool(pool)
        assert first.bytes_in_use == before
