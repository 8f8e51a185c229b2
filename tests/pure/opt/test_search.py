"""What a search tries, and what it makes of the times."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from math import inf
from random import Random

import pytest

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import Home, Proc
from ocannl.ir.names import Namer
from ocannl.ir.precision import float32
from ocannl.ir.text import print_proc
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt import machine_model as machine
from ocannl.opt.group import Group
from ocannl.opt.nest import names_of
from ocannl.opt.pipeline import optimize
from ocannl.opt.plan import Plain, plan, rivals
from ocannl.opt.plan.plain import plain
from ocannl.opt.schedule import Choices, groups, planned
from ocannl.opt.search import search
from ocannl.opt.substitute import replace_buffers
from ocannl.testing.generate import generate
from ocannl.testing.groups import group

TARGET = Capabilities(vector_bytes=32)


def test_a_search_sees_the_groups_that_are_scheduled(seeds: range) -> None:
    late = frozenset({"schedule", "number", "prefetch", "stream", "phase", "share", "poll", "memory"})
    inner = 0
    for seed in seeds:
        proc = optimize(lower(generate(Random(f"groups {seed}"), 4).code, "p"), {}, TARGET, without=late)
        scheduled: list[tuple[Group, bool]] = []

        def chosen(group: Group, shared: bool, seen: list[tuple[Group, bool]] = scheduled) -> Plain:
            seen.append((group, shared))
            return plain(group)  # which copies no operands, whose copies are groups as well

        planned(proc, chosen)
        names = Namer(names_of(proc))
        found = [each for stmt in proc.body for each in groups(stmt, names)]
        assert [(each.syms, shared) for each, shared in found] == [(each.syms, shared) for each, shared in scheduled]
        inner += sum(not shared for _, shared in found)
    assert inner


def test_the_plan_of_the_model_is_the_first_of_its_rivals(seeds: range) -> None:
    several = 0
    for seed in seeds:
        made = group(Random(seed)).group
        some = rivals(made, TARGET, most=5)
        assert some[0] == plan(made, TARGET)
        assert len(some) == len(set(some)) <= 5
        assert some == rivals(made, TARGET, most=24)[: len(some)]
        several += len(some) > 1
    assert several > len(seeds) // 5


@dataclass
class Told:
    """Implements `opt.search.Timer`: times are those of a list; remembers, and keeps what it was asked to time."""

    times: list[float] = field(default_factory=list)
    left: int = 100  # times that it may be asked
    known: dict[str, tuple[int, ...]] = field(default_factory=dict)
    tried: list[list[Proc]] = field(default_factory=list)

    def recall(self, nest: Proc) -> tuple[int, ...] | None:
        return self.known.get(print_proc(nest))

    def remember(self, nest: Proc, chosen: tuple[int, ...]) -> None:
        self.known[print_proc(nest)] = chosen

    def is_late(self) -> bool:
        return len(self.tried) == self.left

    def seconds(self, rivals: list[Proc]) -> list[float] | None:
        self.tried.append(rivals)
        return (self.times + [1.0] * len(rivals))[: len(rivals)]


@cache
def lowered(seed: int) -> Proc:
    return lower(generate(Random(seed), 4).code, "step")


def found(told: Told, seed: int) -> tuple[Choices, Proc]:
    """What the search makes of a program, and the program."""
    choices: dict[int, tuple[int, ...]] = {}

    def choose(proc: Proc) -> Choices:
        choices.update(search(proc, TARGET, told))
        return choices

    return choices, optimize(lowered(seed), {}, TARGET, choose=choose)


@pytest.fixture(autouse=True)
def every_nest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MIN_AUTOTUNED_OPS", 0)


@pytest.fixture
def seed() -> int:
    """Of a program with something to search."""
    for seed in range(50):
        told = Told()
        found(told, seed)
        if len(told.tried) > 2:
            return seed
    raise AssertionError("no program has rivals")


def test_another_plan_has_to_be_faster_by_more_than_chance(seed: int) -> None:
    assert found(Told([1.0, 0.98]), seed)[0] == {}
    choices, _ = found(Told([1.0, 0.96]), seed)
    assert choices and all(set(numbers) <= {0, 1} for numbers in choices.values())
    assert found(Told([1.0, inf]), seed)[0] == {}


def test_what_is_known_is_not_timed_again(seed: int) -> None:
    told = Told([1.0, 0.5])
    first, proc = found(told, seed)
    asked = len(told.tried)
    second, again = found(told, seed)
    assert first == second and len(told.tried) == asked
    assert print_proc(proc) == print_proc(again)


def test_what_does_not_fit_is_forgotten(seed: int) -> None:
    told = Told([1.0, 0.5])
    choices, _ = found(told, seed)
    told.known = {nest: (999,) * len(chosen) for nest, chosen in told.known.items()}
    assert found(told, seed)[0] == choices


def test_without_time_nests_stay_as_the_model_has_them(seed: int) -> None:
    told = Told([1.0, 0.5], left=1)
    choices, _ = found(told, seed)
    assert len(choices) <= 1 and len(told.known) <= 1
    more = Told([1.0, 0.5], known=told.known)
    assert len(found(more, seed)[0]) >= len(choices)


def test_long_nests_alone_are_worth_it(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MIN_AUTOTUNED_OPS", 10**9)
    told = Told()
    assert found(told, seed)[0] == {} and not told.tried


def test_nests_that_are_tried_are_programs_of_their_own() -> None:
    for seed in range(30):
        told = Told([1.0, 0.5])
        _, proc = found(told, seed)
        verify(proc, "placed", alignment_bytes=64)
        for tried in told.tried:
            assert len({each.name for each in tried}) == len(tried) <= 24
            homes = [buf for buf in tried[0].bufs if buf.home is Home.POOL]
            for each in tried:
                assert [buf for buf in each.bufs if buf.home is Home.POOL] == homes
                verify(with_nodes(each), "placed", alignment_bytes=64)


def with_nodes(proc: Proc) -> Proc:
    """As if parts of sums were somebody's, too."""
    return replace_buffers(proc, {
        buf: replace(buf, node=TNode(buf.name, Role.RESULT, lambda: (), lambda: float32))
        for buf in proc.bufs if buf.home is Home.POOL and buf.node is None
    })  # fmt: skip
