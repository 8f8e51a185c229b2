"""Python without an interpreter of its own: frozen and embedded applications, and processes that cannot be started."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from ocannl.backend import plugin_check, sandbox
from ocannl.backend.python_interpreter import python_interpreter
from ocannl.backend.registry import backends, resolve
from ocannl.base import config


@pytest.fixture
def application(tmp_path):
    """An executable that writes down that it was started."""
    path = tmp_path / "application"
    path.write_text(f"#!/bin/sh\necho started >> '{tmp_path / 'started'}'\n")
    path.chmod(0o755)
    yield path
    assert not (tmp_path / "started").exists(), "the application was started"


@pytest.mark.parametrize("value", ["application", "", None, "/no/such/python3"])
def test_the_application_is_never_started(site, application, monkeypatch, value):
    monkeypatch.setattr(sys, "executable", str(application) if value == "application" else value)
    monkeypatch.setattr(sys, "_base_executable", "")
    site.plugin("good")
    assert Path(python_interpreter()).name.startswith("python")  # that of `sys.exec_prefix`
    assert resolve().name == "numpy" and {row.name: row.usable for row in backends()}["good"]


def assert_unchecked(site, caplog):
    module = site.plugin("good", dist="good-dist")
    with caplog.at_level(logging.WARNING, "ocannl"):
        assert type(resolve()).__name__ == "ReferenceBackend"
        assert resolve() is resolve()
    (listed,) = [row for row in backends() if row.name == "good"]
    assert not listed.usable and "it cannot be checked" in listed.reason
    assert module not in sys.modules
    (record,) = caplog.records
    assert "good-dist 1.0" in record.getMessage() and "OCANNL_BACKEND=good" in record.getMessage()
    assert resolve("good") and module in sys.modules  # it is named


def test_frozen_application(site, application, monkeypatch, caplog):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", str(application))
    assert_unchecked(site, caplog)


def test_no_interpreter_is_installed(site, application, monkeypatch, caplog):
    monkeypatch.setattr(sys, "executable", str(application))
    monkeypatch.setattr(sys, "_base_executable", None)
    monkeypatch.setattr(sys, "exec_prefix", "/nowhere")
    monkeypatch.setattr(sys, "base_exec_prefix", "/nowhere")
    assert_unchecked(site, caplog)


def test_application_that_is_called_python(site, tmp_path, monkeypatch, caplog):
    """It ignores the command line, and does not answer."""
    path = tmp_path / "python3"
    path.write_text("#!/bin/sh\nexit 3\n")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(path))
    assert_unchecked(site, caplog)
    assert "Python did not start its work and ended with status 3" in caplog.text


def test_application_that_does_not_end(site, tmp_path, monkeypatch, caplog):
    path = tmp_path / "python3"
    path.write_text("#!/bin/sh\nexec sleep 1000\n")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(path))
    monkeypatch.setattr(sandbox, "STARTUP_SECONDS", 1.0)
    assert_unchecked(site, caplog)


def test_isolated_processes_start_none(site, monkeypatch, caplog):
    """An application that is started all the same does not start itself again."""
    monkeypatch.setattr(config, "_is_isolated", True)
    site.plugin("good")
    assert type(resolve()).__name__ == "ReferenceBackend"
    assert not caplog.records


@pytest.mark.slow
def test_verdicts_on_hangs_are_cached(site, monkeypatch):
    monkeypatch.setattr(plugin_check, "TIMEOUT_SECONDS", 2.0)
    site.plugin("slow", probe="__import__('time').sleep(1000)", dist="slow-dist")
    (first,) = [row for row in backends() if row.name == "slow"]
    assert "did not respond within 2 seconds" in first.reason and "pip uninstall slow-dist" in first.reason
    monkeypatch.setattr(plugin_check, "_verdicts", {})
    monkeypatch.setattr(plugin_check, "run_isolated", lambda _, plugins, __: [pytest.fail("checked") for _ in plugins])
    assert first in backends()


def test_code_that_prints_when_python_starts(site):
    """As a line of a `.pth` file may do."""
    (site.folder / "sitecustomize.py").write_text("print('noise\\n{}\\n' * 999)")
    site.plugin("good")
    assert {row.name: row.usable for row in backends()} == {"good": True, "numpy": True}


def test_code_that_ends_python_when_it_starts(site, caplog):
    (site.folder / "sitecustomize.py").write_text("import os; os._exit(0)")
    assert_unchecked(site, caplog)
