"""Small programs, each with what NumPy makes of it. The number decides the code; other numbers make other code."""

from __future__ import annotations

import logging

import numpy as np

import ocannl as oc


def inputs(n: int) -> tuple[np.ndarray, np.ndarray]:
    rows, inner, columns = 2 + n % 3, 3 + n % 5, 4 + n % 7
    random = np.random.default_rng(n)
    return random.integers(-4, 5, (rows, inner)).astype("f4"), random.integers(-4, 5, (columns, inner)).astype("f4")


def wanted(n: int) -> np.ndarray:
    x, w = inputs(n)
    return np.maximum(x @ w.T + n, 0) * 2


def build(n: int) -> tuple[oc.Tensor, oc.Tensor, oc.Tensor]:
    """The result, and its inputs `x` and `w`."""
    a, b = inputs(n)
    x = oc.placeholder("x", batch=[a.shape[0]], output=[a.shape[1]])
    w = oc.placeholder("w", batch=[], input=[b.shape[1]], output=[b.shape[0]])
    return oc.relu(w @ x + float(n)) * 2.0, x, w


def check(n: int, context: oc.Context) -> None:
    """Compiles the program, runs it, and compares: small integers, so that nothing is rounded."""
    y, x, w = build(n)
    routine = context.compile(y.forward, name="program", keep=[y])
    context[x], context[w] = inputs(n)
    routine()
    assert np.array_equal(context[y], wanted(n)), f"program {n}: {context[y]} instead of {wanted(n)}"


class Warnings(logging.Handler):
    """Counts the warnings of the core; they are no failures."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []
        logger = logging.getLogger("ocannl")
        logger.addHandler(self)
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
