"""However a group is planned, it computes the same: random groups, and any legal plan for each."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import For, Mode, Update, When
from ocannl.ir.names import Namer
from ocannl.ir.text import print_proc
from ocannl.ir.verify import verify
from ocannl.ir.walk import walk
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import group_of
from ocannl.opt.schedule.plan import Plan, TilePlan, model_plan
from ocannl.testing.groups import Made, group, plain_plan, realized, tiled_plan

TARGETS = [Capabilities(vector_bytes=size, vector_registers=16 * (1 + size // 64)) for size in (0, 16, 32, 64)]


def plans(random: Random, made: Made) -> list[Plan]:
    chosen = [model_plan(made.group, target) for target in TARGETS]
    tiles = [tiled_plan(random, made.group) for _ in range(3)]
    return [*chosen, plain_plan(random, made.group), *(tile for tile in tiles if tile is not None)]


@pytest.mark.parametrize("short", [0, machine.MAX_UNROLLED_EPILOGUE_OPS])
def test_any_plan_computes_the_same(seeds: range, short: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MAX_UNROLLED_EPILOGUE_OPS", short)
    for seed in seeds:
        random = Random(seed)
        made = group(random)
        plainly = made.proc(made.group.stmt())
        verify(plainly, "optimized")
        wanted = interpret(plainly, made.arrays)
        for how in plans(random, made):
            proc = realized(plainly, made.group, how)
            text = f"group {seed}, {how}\n{print_proc(plainly)}\n"
            try:
                verify(proc, "optimized")
                got = interpret(proc, made.arrays)
            except Exception as wrong:
                raise AssertionError(f"{text}{wrong}") from wrong
            for node, array in wanted.items():
                assert np.array_equal(got[node], array), f"{text}{print_proc(proc)}\n{array}\n{got[node]}"


def test_a_statement_is_the_group_that_it_was_made_from(seeds: range) -> None:
    for seed in seeds:
        made = group(Random(seed)).group
        if made.reductions or len(made.epilogue) > 1 or not isinstance(made.epilogue[0], Update):
            again = group_of(made.stmt(), Namer())
            assert again is not None and again.stmt() == made.stmt()
            assert (again.syms, len(again.reductions), again.epilogue) == (made.syms, len(made.reductions), made.epilogue)


@pytest.fixture(scope="module")
def seen() -> Counter[str]:
    """What there is in some of the groups, and in their plans."""
    found: Counter[str] = Counter()
    for seed in range(150):
        random = Random(seed)
        made = group(random)
        one = made.group
        found.update([f"{len(one.loops)} kept", f"{len(one.epilogue)} in the tail"])
        found.update(f"{len(each.loops)} reduced by {each.update.op}" for each in one.reductions)
        found.update(type(stmt).__name__ for stmt in one.epilogue)
        found.update(["guarded group"] if not one.cond.is_true else [])
        found.update("guarded sum" for each in one.reductions if not each.cond.is_true)
        found.update("choice" for value in one.values for node in walk(value) if isinstance(node, When))
        found.update(["in place"] if {r.buf for r in one.reads} & {r.buf for r in one.writes} else [])
        for how in plans(random, made):
            found.update([type(how).__name__])
            if isinstance(how, TilePlan):
                found.update([f"{len(how.tile_sizes)} tiles", "dot form" if how.vector in how.reduction_syms else "columns"])
                found.update(["panels"] if how.packed_operands else [])
                found.update(["blocks"] if how.k_block else [])
                loops = [s for s in walk(realized(made.proc(one.stmt()), one, how).body) if isinstance(s, For)]
                found.update(loop.mode.value for loop in loops)
                found.update("odd lanes" for s in loops if s.mode is Mode.VECTORIZED and s.sym.extent not in (4, 8, 16))
    return found


@pytest.mark.parametrize("what", [
    *(f"{n} kept" for n in range(4)), "1 reduced by add", "2 reduced by add", "3 reduced by add", "0 reduced by add",
    "1 reduced by max", "1 reduced by mul", "1 in the tail", "2 in the tail", "3 in the tail", "4 in the tail", "Let",
    "Store", "Update", "guarded group", "guarded sum", "choice", "in place", "ScalarPlan", "TilePlan", "1 tiles", "2 tiles",
    "3 tiles", "0 tiles", "dot form", "columns", "panels", "blocks", "lanes", "unrolled", "odd lanes",
])  # fmt: skip
def test_there_is_some_of_everything(seen: Counter[str], what: str) -> None:
    assert seen[what]


def test_a_seed_says_everything() -> None:
    def text(seed: int) -> str:
        made = group(Random(seed))
        return print_proc(made.proc(made.group.stmt())) + str([a.tolist() for a in made.arrays.values()])

    assert [text(seed) for seed in range(20)] == [text(seed) for seed in range(20)]
