"""Programs with typical user errors: the output equals `programs.txt`, and the state stays usable."""

from __future__ import annotations

import asyncio
import copy
import functools
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

TEXT = (Path(__file__).parent / "programs.txt").read_text(encoding="utf-8")
PROGRAMS = [part.partition("\n") for part in TEXT.split("=== ")[1:]]


def attempt(call: Callable[[], object]) -> None:
    """Prints the value of a call, or the type of its error and the first line of the message."""
    with printed_errors():
        print(call())


@contextmanager
def printed_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        print(f"{type(error).__name__}: {str(error).splitlines()[0]}")


def names() -> dict[str, Any]:
    return {
        "asyncio": asyncio, "attempt": attempt, "copy": copy, "functools": functools, "np": np, "oc": oc,
        "pickle": pickle, "threading": threading, "train": train, "__name__": "program",
        "vector": oc.tensor([1.0, -2.0], label="vector"), "w": oc.param("w", [3.0, 4.0]),
    }  # fmt: skip


@pytest.mark.parametrize("title", [title for title, _, _ in PROGRAMS])
def test_program(title: str, capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = (text for name, _, text in PROGRAMS if name == title)
    program, _, printed = text.partition("---\n")
    with oc.use_backend("numpy"), printed_errors():
        exec(compile(program, f"<{title}>", "exec"), names())
    assert capsys.readouterr().out.rstrip().splitlines() == printed.rstrip().splitlines()
    y = oc.param() * oc.tensor([1.0, 2.0])
    assert (y.label, y.dims, y.grad is not None) == ("y", (2,), True)
