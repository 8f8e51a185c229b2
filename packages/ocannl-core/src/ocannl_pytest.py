"""Pytest plugin of ocannl: the options of the conformance kit, its report header, and known failures.

Pytest imports this module in every session of an environment in which ocannl-core is installed, so it stands beside the
package `ocannl` and imports it only if `--ocannl-backend` is given. With `--ocannl-transport`, only the transport is
tested, and without, none is.

A file of known failures has a line per entry: a test or, with `*`, a pattern, and the reason of the failure.

    TestOperations::test_an_operation_has_its_numpy_meaning[sin-*]   # wrong beyond 2**20; see the manual

Listed tests must fail, and each line must match a test.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

BACKEND = "--ocannl-backend"
TRANSPORT = "--ocannl-transport"
KNOWN_FAILURES = "--ocannl-known-failures"

pytest.register_assert_rewrite("ocannl.testing.kit")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ocannl", "conformance of ocannl backends")
    group.addoption(BACKEND, metavar="NAME", help="the backend that the conformance kit tests")
    group.addoption(TRANSPORT, metavar="NAME", help="the transport that the conformance kit tests instead of a backend")
    group.addoption(KNOWN_FAILURES, metavar="FILE", type=Path, help="lines `test  # reason`: these must fail")


def pytest_report_header(config: pytest.Config) -> list[str]:
    name: str | None = config.getoption(BACKEND)
    if name is None:
        return []
    from ocannl.testing.report_header import describe_backend

    return describe_backend(name)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path.parent != Path(__file__).parent / "ocannl" / "testing" or collection_path.suffix != ".py":
        return None
    is_of_transports = collection_path.name == "test_communication.py"
    return True if is_of_transports != (config.getoption(TRANSPORT) is not None) else None


# ------------------------------------------------------------------------------------------------------ known failures


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    file: Path | None = config.getoption(KNOWN_FAILURES)
    if file is None:
        return
    unmatched = []
    for test, reason in read_known_failures(file).items():
        pattern = re.compile(".*".join(map(re.escape, test.split("*"))))
        matched = [item for item in items if pattern.fullmatch(item.nodeid.partition("::")[2])]
        for item in matched:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
        if not matched:
            unmatched.append(test)
    is_selection = any("::" in argument for argument in config.args)
    if unmatched and not is_selection:
        raise pytest.UsageError(f"{file}: there are no such tests: {', '.join(unmatched)}")


def read_known_failures(file: Path) -> dict[str, str]:
    """Returns the reasons by test."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise pytest.UsageError(f"{file}: {error.strerror}") from None
    reasons = {}
    for number, line in enumerate(lines, 1):
        test, _, reason = (part.strip() for part in line.partition("  #"))
        if not line.strip() or line.startswith("#"):
            continue
        if not reason:
            raise pytest.UsageError(f"{file}:{number}: a known failure needs a reason: TEST  # REASON")
        reasons[test] = reason
    return reasons
