"""Lowered programs do what the computation means, and keep every rule: on random small computations."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ocannl.ir.interpret import interpret
from ocannl.ir.loops import AccessMode
from ocannl.ir.printer import print_comp, print_proc
from ocannl.ir.tnode import TNode
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.testing.evaluate import evaluate
from ocannl.testing.random_programs import Program, difference, generate


def check(program: Program, want: dict[TNode, np.ndarray]) -> None:
    proc = lower(program.code, "routine")
    verify(proc, "lowered")
    got = interpret(proc, program.arrays, program.symbols, program.merged)
    wrong = difference(want, got, program.tolerance)
    assert not wrong, f"{wrong}\n{print_comp(program.code)}\n{print_proc(proc)}"


def test_lowering_is_faithful(seeds: range, judged: Any) -> None:
    for seed in seeds:
        check(*judged.program(seed))


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_lowering_is_faithful_for_hypothesis(random: Random) -> None:
    program = generate(random)
    check(program, evaluate(program.code, program.arrays, program.symbols, program.merged))


def test_lowering_is_deterministic() -> None:
    for seed in range(100):
        code = generate(Random(seed)).code
        assert print_proc(lower(code, "a"), origins=True) == print_proc(lower(code, "a"), origins=True)


def test_outputs_contain_no_stale_values(judged: Any) -> None:
    """What is `out` does not depend on what was there before; `in` and `const` stay as they were."""
    for seed in range(300):
        program, _ = judged.program(seed)
        proc = lower(program.code, "routine")
        written = [b.node for b in proc.bufs if b.access is AccessMode.OUT]
        kept = {n: a for n, a in program.arrays.items() if n not in written}
        want = interpret(proc, program.arrays, program.symbols, program.merged)
        got = interpret(proc, kept, program.symbols, program.merged)
        assert not difference(want, got, dict.fromkeys(want, 0.0))
        for buf in proc.bufs:
            if buf.access in (AccessMode.IN, AccessMode.CONST):
                assert not difference({buf.node: program.arrays[buf.node]}, {buf.node: got[buf.node]}, {buf.node: 0.0})
