"""Whatever is fused, results stay the same: random programs of many small statements, compared exactly."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import AccessMode, Apply, Cast, IndexValue, Const, Proc, Var, When
from ocannl.ir.text import print_proc
from ocannl.ir.verify import verify
from ocannl.ir.walk import walk
from ocannl.lower.lower import lower
from ocannl.opt.fusion.fuse_epilogues import fuse_epilogues
from ocannl.opt.memory.decide_placement import decide_placement
from ocannl.opt.parallel.insert_polls import insert_polls
from ocannl.opt.parallel.parallelize import parallelize
from ocannl.opt.pipeline import optimize, passes
from ocannl.testing.chains import Chain, chain
from ocannl.testing.claims import Claims
from ocannl.testing.evaluate import evaluate

TARGETS = [Capabilities(vector_bytes=size) for size in (0, 16, 32, 64)]
OTHERS = [each.name for each in passes({}, TARGETS[0]) if each.name not in ("decide_placement", "fuse_epilogues")]


def procs(made: Chain, random: Random) -> tuple[Proc, dict[str, Proc]]:
    """A program as it is, and what becomes of it."""
    lowered = lower(made.code, "step")
    before = decide_placement(lowered, made.asked)
    some = frozenset(name for name in OTHERS if random.random() < 0.4)
    after = {
        "fused": fuse_epilogues(before),
        "whole": optimize(lowered, made.asked, random.choice(TARGETS)),
        "divided": divided(lowered, made, random),
        f"without {sorted(some)}": optimize(lowered, made.asked, random.choice(TARGETS), without=some),
    }
    return before, after


def divided(lowered: Proc, made: Chain, random: Random) -> Proc:
    """Threads share what they can, and look for signals everywhere."""
    late = frozenset({"parallelize", "insert_polls", "allocate_memory"})
    proc = optimize(lowered, made.asked, random.choice(TARGETS), without=late)
    return insert_polls(parallelize(proc, 1, random.choice((1, 10, 100))), random.choice((1, 20, 10**6)))


def test_all_that_is_computed_is_exact(seeds: range) -> None:
    """Integers of any size would be rounded in floats."""
    for seed in seeds:
        proc = lower(chain(Random(seed)).code, "step")
        kinds = {node.precision for node in walk(proc.body) if isinstance(node, Const | IndexValue | Var | Apply | When | Cast)}
        assert not any(kind.is_float for kind in kinds), f"chain {seed}\n{print_proc(proc)}"


def test_fused_programs_compute_the_same(seeds: range) -> None:
    for seed in seeds:
        random = Random(seed)
        made = chain(random)
        wanted = evaluate(made.code, made.arrays, {}, {})
        before, after = procs(made, random)
        for name, proc in after.items():
            text = f"chain {seed}, {name}\n{print_proc(before)}\n{print_proc(proc)}\n"
            try:
                verify(proc, "placed" if name == "whole" else "optimized", alignment_bytes=64)
                claims = Claims(seed)
                got = interpret(proc, made.arrays, on_write=claims.watch, claims=claims)
                assert not claims.races, claims.races[0]
            except Exception as wrong:
                raise AssertionError(f"{text}{wrong}") from wrong
            for node, array in got.items():
                want = wanted.get(node, made.arrays[node])
                assert np.array_equal(array, want), f"{text}{node}\n{want}\n{array}"


def test_there_is_something_to_fuse() -> None:
    seen: Counter[str] = Counter()
    for seed in range(60):
        random = Random(seed)
        one, after = procs(chain(random), random)
        two = after["fused"]
        seen["before"] += len(one.body)
        seen["after"] += len(two.body)
        seen["gone"] += sum(b.access is AccessMode.TEMP for b in one.bufs) - sum(b.access is AccessMode.TEMP for b in two.bufs)
    assert seen["after"] < 0.7 * seen["before"] and seen["gone"] > 10
