"""The options of the conformance kit, its report header, and known failures; pytest finds it by its entry point.

A file of known failures has a line for each: a test, or several of them by `*`, and why they fail.

    TestOperations::test_an_operation_has_its_numpy_meaning[sin-*]   # wrong beyond 2**20; see the manual

Listed tests must fail, and all that are listed must exist.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import pytest

BACKEND = "--ocannl-backend"
KNOWN = "--ocannl-known-failures"

pytest.register_assert_rewrite("ocannl.testing.kit")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ocannl", "conformance of ocannl backends")
    group.addoption(BACKEND, metavar="NAME", help="the backend that the conformance kit judges")
    group.addoption(KNOWN, metavar="FILE", type=Path, help="lines `test  # reason`: these must fail")


def pytest_report_header(config: pytest.Config) -> list[str]:
    name = config.getoption(BACKEND)
    return [] if name is None else described(name)


def described(name: str) -> list[str]:
    """What is judged, in words."""
    from ocannl.backend.discovery import core_version, discover
    from ocannl.backend.registry import resolve
    from ocannl.base.errors import BackendError

    try:
        backend = resolve(name)
    except BackendError as refusal:
        raise pytest.UsageError(str(refusal)) from None
    found = discover().get(name)
    source = str(found[0]) if found else "no distribution"
    devices, claimed = backend.device_count(), backend.capabilities
    lines = [
        f"ocannl backend: {name} of {source}, on ocannl-core {core_version()}",
        f"  version: {backend.version}",
        f"  devices: {devices}",
    ]
    for field in fields(claimed):
        value = getattr(claimed, field.name)
        shown = ", ".join(sorted(map(str, value))) if isinstance(value, frozenset) else value
        lines.append(f"  {field.name}: {shown}")
    return lines


# ------------------------------------------------------------------------------------------------------ known failures


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    file: Path | None = config.getoption(KNOWN)
    if file is None:
        return
    unmatched = []
    for test, reason in read(file).items():
        pattern = re.compile(".*".join(map(re.escape, test.split("*"))))
        matched = [item for item in items if pattern.fullmatch(item.nodeid.partition("::")[2])]
        for item in matched:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
        if not matched:
            unmatched.append(test)
    if unmatched and not any("::" in argument for argument in config.args):  # else others were asked for
        raise pytest.UsageError(f"{file}: there are no such tests: {', '.join(unmatched)}")


def read(file: Path) -> dict[str, str]:
    """The tests that a file lists, with the reasons."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as wrong:
        raise pytest.UsageError(f"{file}: {wrong.strerror}") from None
    known = {}
    for number, line in enumerate(lines, 1):
        test, _, reason = (part.strip() for part in line.partition("  #"))
        if not line.strip() or line.startswith("#"):
            continue
        if not reason:
            raise pytest.UsageError(f"{file}:{number}: a known failure needs a reason: TEST  # REASON")
        known[test] = reason
    return known
