"""Defects seeded into every pass: the routine computes correct values, and a file reproduces the defect."""

from __future__ import annotations

from itertools import cycle

import pytest

import ocannl as oc
from ocannl.backend.discovery import core_version
from ocannl.cli.replay import failures_of
from ocannl.ir.capabilities import Capabilities
from ocannl.opt.pipeline import passes
from ocannl.runtime import reproducer

from .corruptions import CORRUPTIONS
from .programs import reproducer_of, seed, training_step, usable

PASSES = [step.name for step in passes({}, Capabilities(vector_bytes=32)) if step.when]
LATE = {  # in the result of an earlier pass, a later one may remove them
    "a temporary is read first": "parallelize",
    "a loop is bound twice": "prefetch",
    "dependent iterations are parallel": "insert_polls",
    "an inner loop is parallel": "insert_polls",
    "a scalar store bypasses the caches": "fuse_parallel_loops",
    "a placement is wrong": "allocate_memory",
    "strides are lost": "schedule",
    "an array is not declared": "schedule",
    "a read is out of bounds": "fuse_outer_loops",
    "a name is defined twice": "eliminate_common_subexpressions",
    "a name is no identifier": "eliminate_common_subexpressions",
    "an undeclared array is read": "schedule",
    "an operand is lost": "schedule",
    "an array leaves the arena": "allocate_memory",
    "an array is misaligned": "allocate_memory",
    "arrays overlap": "allocate_memory",
    "an array has no offset": "allocate_memory",
}
GENERAL = [name for name in CORRUPTIONS if name not in LATE]
SEEDS = [
    *((pass_name, GENERAL[n % len(GENERAL)]) for n, pass_name in enumerate(PASSES)),
    *((pass_name, GENERAL[(n + 6) % len(GENERAL)]) for n, pass_name in enumerate(PASSES)),
    *((pass_name, corruption) for corruption, pass_name in LATE.items()),
]
OF_OTHER_BACKENDS = [
    *(("c", *case) for case in SEEDS[::12]),
    *(("numpy", *case) for case in SEEDS if case[0] in ("inline_producers", "simplify", "allocate_memory")),
]


def test_number_of_defects() -> None:
    assert len(SEEDS) >= 40 and len(set(SEEDS)) == len(SEEDS)
    assert len({pass_name for pass_name, _ in SEEDS}) == len(PASSES) >= 15
    assert {name for _, name in SEEDS} == set(CORRUPTIONS)


@pytest.mark.parametrize(("backend", "pass_name", "corruption"), [*(("llvm", *s) for s in SEEDS), *OF_OTHER_BACKENDS])
def test_routine_is_correct_and_defect_is_reproduced(
    backend: str, pass_name: str, corruption: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not usable(backend):
        pytest.skip(f"`{backend}` is not usable here")
    step = training_step(backend)
    with monkeypatch.context() as patch:
        seed(patch, pass_name, CORRUPTIONS[corruption])
        with pytest.warns(oc.DefectWarning) as caught:
            routine = step.compile()
        step.check(routine)
        assert len(caught) == 1
        message = str(caught[0].message)
        for part in (f"the compiler pass `{pass_name}` failed", f"a defect of ocannl {core_version()}, not of your"):
            assert part in message
        assert caught[0].filename.endswith("programs.py"), "the warning points at the call of `compile`"
        case = reproducer.read(reproducer_of(message))
        assert case.failed == pass_name
        assert pass_name in [failure.pass_name for failure in failures_of(case)]
    assert failures_of(case) == (), "the file reproduces a defect that no longer exists"


def test_all_passes_may_fail_together(monkeypatch: pytest.MonkeyPatch) -> None:
    step = training_step()
    corruptions = ("it raises KeyError", "an index is too large", "stores of an output are lost", "it returns nothing")
    for pass_name, corruption in zip(PASSES, cycle(corruptions), strict=False):
        seed(monkeypatch, pass_name, CORRUPTIONS[corruption])
    with pytest.warns(oc.DefectWarning, match="the compiler pass `decide_placement` failed"):
        routine = step.compile()
    step.check(routine)
