"""Pauses of the cyclic garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import ocannl as oc
from ocannl.base.gc_pause import gc_paused
from ocannl.train.optimizer import Parameter, optimizer_code


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    """Collection is enabled before and after a test."""
    gc.enable()
    yield
    assert gc.isenabled()


@gc_paused
def is_collecting(fails: bool = False) -> bool:
    if fails:
        raise ValueError("failed")
    return gc.isenabled()


def test_collection_is_paused_during_calls() -> None:
    assert not is_collecting() and gc.isenabled()


def test_collection_resumes_after_an_error() -> None:
    with pytest.raises(ValueError, match="failed"):
        is_collecting(fails=True)
    assert gc.isenabled()


def test_inner_calls_do_not_resume_it() -> None:
    assert gc_paused(lambda: (is_collecting(), gc.isenabled()))() == (False, False)


def test_collection_that_the_user_has_disabled_stays_disabled() -> None:
    gc.disable()
    assert not is_collecting() and not gc.isenabled()
    gc.enable()


def test_optimizers_pause_it_while_they_record_updates() -> None:
    states: list[bool] = []

    def rule(parameter: Parameter) -> None:
        states.append(gc.isenabled())
        parameter.descend(lambda rate, gradient: rate * gradient, parameter.gradient())

    optimizer_code("rule", rule, (oc.param("w", output=[3]) * 2.0).sum(), 0.1, None, (), {})
    assert states == [False]
