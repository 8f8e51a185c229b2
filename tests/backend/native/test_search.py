"""Whatever plans a search prefers, results have the same bits: fractions of all sizes, whose sums show their order."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from ocannl.ir.capabilities import Capabilities
from ocannl.ir.index import Affine, Cond, Sym
from ocannl.ir.loops import Access, Apply, Buf, Home, Load, Num, Proc, Ref, Update, When, loop, row_major
from ocannl.ir.names import Namer
from ocannl.ir.ops import ADD, MUL
from ocannl.ir.precision import Family, float32
from ocannl.ir.text import print_proc
from ocannl.lower.lower import lower
from ocannl.opt import machine_model as machine
from ocannl.opt import search
from ocannl.opt.group import group_of
from ocannl.opt.memory import memory
from ocannl.opt.pipeline import optimize
from ocannl.opt.plan import rivals
from ocannl.opt.realize import realize
from ocannl.testing.chains import chain
from ocannl.testing.generate import generate
from ocannl.testing.groups import group, realized

BATCH = 20
FIRST, COUNT = (int(os.environ.get(f"OCANNL_TEST_SEARCH_{name}", n)) for name, n in (("FIRST", 0), ("COUNT", 2)))
SEEDS = range(FIRST, FIRST + COUNT)
SHAPES = ((40,), (17, 33), (24, 40), (5, 40), (3, 7, 19), (50, 1), (2, 3, 4, 5))


def rough(random: Random, array: np.ndarray, kind: Family) -> np.ndarray:
    """Fractions in place of small numbers that sum up exactly."""
    if kind is not Family.FLOAT:
        return array
    rng = np.random.default_rng(random.randrange(1 << 30))
    return (rng.standard_normal(array.shape) * 2.0 ** rng.integers(-6, 6, array.shape)).astype(array.dtype)


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """But for what a NaN carries, which processors do not promise."""
    lost = one != one
    return np.array_equal(lost, other != other) and one[~lost].tobytes() == other[~lost].tobytes()


def target(random: Random, native) -> Capabilities:
    size = random.choice((16, 32, 64))
    return replace(native.capabilities, vector_bytes=size, vector_registers=random.choice((16, 32)))


@pytest.mark.parametrize("seed", SEEDS)
def test_rivals_of_a_group_round_alike(native, run, seed):
    random = Random(f"rivals {seed}")
    cases = []
    for number in range(BATCH):
        made = group(random)
        some = rivals(made.group, target(random, native), most=40)
        some = some[:1] + tuple(random.sample(some[1:], min(3, len(some) - 1)))
        for n, plan in enumerate(some):
            proc = realized(made.proc(made.group.stmt(), f"g{number}_{n}"), made.group, plan)
            cases.append((number, made, plan, memory(proc, 64)))
    code = native.compile([proc for *_, proc in cases])
    wanted: dict[int, list[np.ndarray]] = {}
    arrays: dict[int, list[np.ndarray]] = {}
    for number, made, plan, proc in cases:
        if number not in arrays:
            arrays[number] = [rough(random, made.arrays[buf.node], buf.precision.family) for buf in made.bufs]
        after = run(proc, *arrays[number], code=code)
        for first, again in zip(wanted.setdefault(number, after), after, strict=True):
            assert same_bits(first, again), f"{seed}, {proc.name}, {plan}\n{print_proc(proc)}\n{first}\n{again}"


K, I, J = Sym("k", 0, 6), Sym("i", 0, 18), Sym("j", 0, 18)
A, B, C, Y = (
    Buf(name, float32, shape, row_major(shape), Home.POOL, access)
    for name, shape, access in (
        ("a", (19, 7), Access.IN), ("b", (7,), Access.IN), ("c", (30, 19), Access.IN), ("y", (19, 19), Access.INOUT)
    )
)  # fmt: skip


def cell(buf: Buf, *at: Sym | Affine) -> Ref:
    return Ref(buf, tuple(map(Affine.of, at)))


TERMS = {
    "several cells have a product in common": Apply(MUL, (Load(cell(A, I, K)), Load(cell(B, K)))),
    "a guard holds in some tiles": When(
        Cond((Affine.of(I) + K - 3, Affine.of(21) - I - K)),
        Apply(MUL, (Load(cell(C, Affine.of(I) + K - 3, J)), Load(cell(B, K)))),
        Num(0.0, float32),
    ),
}


@pytest.mark.parametrize("term", TERMS.values(), ids=TERMS)
def test_plans_that_round_otherwise_are_no_rivals(native, run, term, monkeypatch):
    module = sys.modules["ocannl.opt.plan.rivals"]
    monkeypatch.setattr(machine, "MAX_CANDIDATE_COST_RATIO", 1e3)
    nest = loop(I, (loop(J, (loop(K, (Update(cell(Y, I, J), ADD, term),)),)),))
    bufs = (A, B, C, Y)
    made = group_of(nest, Namer("abcyijk"))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(buf.shape).astype("float32") for buf in bufs]

    def results() -> set[bytes]:
        plans = rivals(made, replace(native.capabilities, vector_bytes=32), most=60)
        procs = [
            Proc(f"by_{n}", bufs, (), (realize(made, plan, Namer("abcyijk")),)) for n, plan in enumerate(plans)
        ]
        code = native.compile(procs)
        return {run(proc, *arrays, code=code)[-1].tobytes() for proc in procs}

    assert len(results()) == 1
    monkeypatch.setattr(module, "_telling", lambda group: frozenset())
    assert len(results()) > 1


class Chance:
    """Implements `opt.search.Timer`: any plan may be the fastest."""

    def __init__(self, random: Random) -> None:
        self.random, self.taken = random, 0

    def recall(self, nest):
        return None

    def remember(self, nest, chosen):
        self.taken += sum(map(bool, chosen))

    def is_late(self):
        return False

    def seconds(self, rivals):
        return [self.random.random() for _ in rivals]


@pytest.mark.parametrize("seed", SEEDS)
def test_any_choice_gives_the_same_bits(native, run, seed, monkeypatch):
    monkeypatch.setattr(machine, "MIN_AUTOTUNED_OPS", 0)
    random = Random(f"search {seed}")
    taken = 0
    for number in range(BATCH):
        if random.random() < 0.5:
            made = chain(random, 10, SHAPES)
            code, given, symbols, asked = made.code, made.arrays, {}, made.asked
        else:
            other = generate(random, random.randint(1, 5))
            code, given, symbols, asked = other.code, other.arrays | other.merged, other.symbols, {}
        capabilities = target(random, native)
        chance = Chance(random)
        plain = optimize(lower(code, f"p{number}"), asked, capabilities)
        tried = [
            optimize(
                lower(code, f"p{number}_{n}"), asked, capabilities,
                choose=lambda proc: search.search(proc, capabilities, chance),  # noqa: B023 - called at once
            )
            for n in range(2)
        ]  # fmt: skip
        taken += chance.taken
        made_code = native.compile([plain, *tried])
        pools = [buf for buf in plain.bufs if buf.home is Home.POOL]
        arrays = [
            rough(random, given[buf.node], buf.precision.family) if buf.node in given
            else np.zeros(buf.size, buf.precision.numpy) for buf in pools
        ]  # fmt: skip
        want = run(plain, *arrays, syms=[symbols[s] for s in plain.syms], code=made_code)
        for proc in tried:
            after = run(proc, *arrays, syms=[symbols[s] for s in proc.syms], code=made_code)
            for first, again in zip(want, after, strict=True):
                assert same_bits(first, again), f"{seed}, {proc.name}\n{print_proc(plain)}\n{print_proc(proc)}"
    assert taken > BATCH
