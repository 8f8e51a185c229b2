"""Nonsense that backends return is an error that names backend, distribution and call."""

from __future__ import annotations

import re
import sys
import threading
import time

import pytest

import ocannl as oc
from ocannl.backend import registry
from ocannl.backend.registry import resolve
from ocannl.base.errors import BackendImportError, BackendUnavailable

LYING = """
from ocannl.backend.reference.backend import ReferenceBackend

class Lying(ReferenceBackend):
    {member}
"""


def install(site, member, **details):
    before = LYING.format(member=member)
    site.plugin("lying", before=before, load="Lying", dist="lying-dist", **details)


@pytest.mark.parametrize(
    ("call", "member"),
    [
        ("version", "version = None"),
        ("version", "version = ' '"),
        ("version", "version = b'1'"),
        ("capabilities", "capabilities = None"),
        ("capabilities", "capabilities = {'precisions': ['float32']}"),
        ("device_count", "device_count = lambda self: None"),
        ("device_count", "device_count = lambda self: '1'"),
        ("device_count", "device_count = lambda self: -1"),
        ("device_count", "device_count = lambda self: True"),
        ("device", "device = lambda self, ordinal: None"),
        ("device", "device = lambda self, ordinal: 'cpu'"),
        ("compile", "compile = lambda self, procs: None"),
        ("compile", "compile = lambda self, procs: 'text'"),
        ("link", "link = lambda self, code, name, queue, locations: None"),
        ("link", "link = lambda self, code, name, queue, locations: 3"),
    ],
)
def test_nonsense_names_backend_distribution_and_call(site, call, member):
    install(site, member)
    with pytest.raises(BackendImportError) as caught:
        (oc.tensor([1.0, 2.0]) * 2).numpy(oc.Context("lying"))
    pattern = rf"`lying` of lying-dist 1.0 is broken: its `{call}` gives .*pip uninstall lying-dist"
    assert re.search(pattern, str(caught.value))


@pytest.mark.slow
@pytest.mark.parametrize("member", ["version = None", "device_count = lambda self: None", "capabilities = None"])
def test_another_backend_is_chosen_instead(site, member, caplog):
    install(site, member)
    assert type(resolve()).__name__ == "ReferenceBackend"
    assert "lying-dist" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("action", ["__import__('os')._exit(42)", "__import__('os').abort()", "exit()", "None"])
def test_load_counts(site, action, caplog):
    site.plugin("late", load=f"lambda: {action}", dist="late-dist", priority=99)
    assert type(resolve()).__name__ == "ReferenceBackend"
    assert "late-dist" in caplog.text and "pip uninstall late-dist" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["inside", "load"])
def test_unavailable_names_the_distribution(site, stage):
    error = "(_ for _ in ()).throw(__import__('ocannl').BackendUnavailable('no such device'))"
    details = {"load": f"lambda: {error}"} if stage == "load" else {"inside": error}
    site.plugin("far", dist="far-dist", **details)
    with pytest.raises(BackendUnavailable, match="`far` of far-dist 1.0 does not work here: no such device"):
        resolve("far")


@pytest.mark.slow
def test_a_named_backend_has_a_time_limit(site, monkeypatch):
    monkeypatch.setattr(registry, "LOAD_SECONDS", 1.0)
    site.plugin("slow", inside="import time; time.sleep(1000)", dist="slow-dist")
    start = time.monotonic()
    with pytest.raises(BackendImportError, match="slow-dist 1.0 .*did not respond within 1 seconds; .* slow-dist"):
        resolve("slow")
    assert time.monotonic() - start < 60


def test_the_time_limit_leaves_the_timer_of_an_application(site, monkeypatch):
    import signal

    monkeypatch.setattr(registry, "LOAD_SECONDS", 0.5)
    site.plugin("slow", inside="import time; time.sleep(1)")
    previous = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    try:
        assert resolve("slow")
        assert signal.getsignal(signal.SIGALRM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGALRM, previous)


def test_a_backend_is_loaded_in_any_thread(site):
    site.plugin("good")
    loaded = []
    thread = threading.Thread(target=lambda: loaded.append(resolve("good")))
    thread.start()
    thread.join()
    assert loaded


def test_foreign_backend_with_a_name_of_ocannl(site, caplog):
    module = site.plugin("llvm", dist="imposter", priority=99)
    assert type(resolve()).__name__ == "ReferenceBackend"
    assert "belongs to ocannl-backend-llvm" in caplog.text and "pip uninstall imposter" in caplog.text
    assert module not in sys.modules


def test_texts_are_printed_without_control_characters(site, caplog):
    text = r"\x1b[31m red\x07\n\u202e reversed\u2028"
    site.plugin("odd", inside=f"raise ValueError('{text}')")
    with pytest.raises(BackendImportError) as caught:
        resolve("odd")
    assert str(caught.value).isprintable() and "red" in str(caught.value)
    resolve()
    assert caplog.text.replace("\n", "").isprintable()
