"""Sequences of routines: values of symbols are checked before the first routine runs."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc
from ocannl.runtime.routine_sequence import RoutineSequence


@pytest.mark.parametrize(
    ("symbols", "kind", "message"),
    [
        ({"n": 5}, oc.DataError, "must satisfy 0 <= n < 5, but is 5"),
        ({"n": 1.5}, oc.CodeError, "is an integer, not 1.5"),
        ({}, oc.CodeError, "needs the symbol `n`"),
        ({"n": 1, "m": 2}, oc.CodeError, "has no symbol `m`"),
    ],
)
def test_no_routine_runs_if_a_later_one_refuses_a_value(symbols, kind, message) -> None:
    ctx = oc.Context("numpy")
    rows, total = oc.tensor(np.arange(10.0).reshape(5, 2), batch_axes=1), oc.placeholder("total", o=[])
    ctx[total] = 0.0
    with oc.cd("count") as count:
        total += 1
    picked = rows[oc.symbol("n", 0, 5)]
    sequence = RoutineSequence(ctx.compile_all([count, oc.forward(picked)], keep=[picked]))
    for call in sequence.calls({"n": 3}):
        call()
    assert ctx[total] == 1.0
    np.testing.assert_array_equal(ctx[picked], [6.0, 7.0])
    with pytest.raises(kind, match=message):
        sequence.calls(symbols)
    assert ctx[total] == 1.0
