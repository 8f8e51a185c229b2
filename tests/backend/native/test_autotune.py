"""Autotuning does not change results bitwise; inputs are fractions, whose sums depend on the order of summation."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from loop_programs.random_chains import chain
from loop_programs.random_groups import group, with_scheduled_group

from ocannl.ir.affine import Affine, Cond, Sym
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import AccessMode, Apply, Buf, Const, Load, MemorySpace, Proc, Ref, Update, When, loop, row_major
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD, MUL
from ocannl.ir.precision import Family, float32
from ocannl.ir.printer import print_proc
from ocannl.lower.lower import lower
from ocannl.opt import autotune
from ocannl.opt import machine_model as machine
from ocannl.opt.analysis.fusion_group import group_of
from ocannl.opt.memory.allocate_memory import allocate_memory
from ocannl.opt.pipeline import optimize
from ocannl.opt.schedule.loop_generation import build_loops
from ocannl.opt.schedule.plan import candidate_plans
from ocannl.testing.random_programs import generate

BATCH = 20
FIRST, COUNT = (int(os.environ.get(f"OCANNL_TEST_SEARCH_{name}", n)) for name, n in (("FIRST", 0), ("COUNT", 2)))
SEEDS = range(FIRST, FIRST + COUNT)
SHAPES = ((40,), (17, 33), (24, 40), (5, 40), (3, 7, 19), (50, 1), (2, 3, 4, 5))


def with_fractions(random: Random, array: np.ndarray, kind: Family) -> np.ndarray:
    """Replaces small integers, whose sums are exact, by fractions."""
    if kind is not Family.FLOAT:
        return array
    rng = np.random.default_rng(random.randrange(1 << 30))
    return (rng.standard_normal(array.shape) * 2.0 ** rng.integers(-6, 6, array.shape)).astype(array.dtype)


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    """Bitwise equality, except for the payloads of NaN."""
    is_nan = left != left
    return np.array_equal(is_nan, right != right) and left[~is_nan].tobytes() == right[~is_nan].tobytes()


def target(random: Random, native) -> Capabilities:
    size = random.choice((16, 32, 64))
    registers = random.choice((16, 32))
    return replace(
        native.capabilities, vector_bytes=size, vector_registers=registers, wants_precomputed_weights=False
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_candidates_have_equal_results(native, run, seed):
    random = Random(f"rivals {seed}")
    cases = []
    for number in range(BATCH):
        sample = group(random)
        plans = candidate_plans(sample.group, target(random, native), limit=40)
        plans = plans[:1] + tuple(random.sample(plans[1:], min(3, len(plans) - 1)))
        for n, plan in enumerate(plans):
            proc = with_scheduled_group(sample.proc(sample.group.stmt(), f"g{number}_{n}"), sample.group, plan)
            cases.append((number, sample, plan, allocate_memory(proc, 64)))
    code = native.compile([proc for *_, proc in cases])
    expected: dict[int, list[np.ndarray]] = {}
    arrays: dict[int, list[np.ndarray]] = {}
    for number, sample, plan, proc in cases:
        if number not in arrays:
            arrays[number] = [
                with_fractions(random, sample.arrays[buf.node], buf.precision.family) for buf in sample.bufs
            ]
        results = run(proc, *arrays[number], code=code)
        for left, right in zip(expected.setdefault(number, results), results, strict=True):
            assert same_bits(left, right), f"{seed}, {proc.name}, {plan}\n{print_proc(proc)}\n{left}\n{right}"


K, I, J = Sym("k", 0, 6), Sym("i", 0, 18), Sym("j", 0, 18)
A, B, C, Y = (
    Buf(name, float32, shape, row_major(shape), MemorySpace.GLOBAL, access)
    for name, shape, access in (
        ("a", (19, 7), AccessMode.IN),
        ("b", (7,), AccessMode.IN),
        ("c", (30, 19), AccessMode.IN),
        ("y", (19, 19), AccessMode.INOUT),
    )
)  # fmt: skip


def cell(buf: Buf, *at: Sym | Affine) -> Ref:
    return Ref(buf, tuple(map(Affine.of, at)))


TERMS = {
    "several cells have a product in common": Apply(MUL, (Load(cell(A, I, K)), Load(cell(B, K)))),
    "a guard holds in some tiles": When(
        Cond((Affine.of(I) + K - 3, Affine.of(21) - I - K)),
        Apply(MUL, (Load(cell(C, Affine.of(I) + K - 3, J)), Load(cell(B, K)))),
        Const(0.0, float32),
    ),
}


@pytest.mark.parametrize("term", TERMS.values(), ids=TERMS)
def test_plans_with_different_rounding_are_not_candidates(native, run, term, monkeypatch):
    module = sys.modules["ocannl.opt.schedule.plan.candidates"]
    monkeypatch.setattr(machine, "MAX_CANDIDATE_COST_RATIO", 1e3)
    nest = loop(I, (loop(J, (loop(K, (Update(cell(Y, I, J), ADD, term),)),)),))
    bufs = (A, B, C, Y)
    fusion_group = group_of(nest, Namer("abcyijk"))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(buf.shape).astype("float32") for buf in bufs]

    def results() -> set[bytes]:
        plans = candidate_plans(fusion_group, replace(native.capabilities, vector_bytes=32), limit=60)
        procs = [
            Proc(f"by_{n}", bufs, (), (build_loops(fusion_group, plan, Namer("abcyijk")),))
            for n, plan in enumerate(plans)
        ]
        code = native.compile(procs)
        return {run(proc, *arrays, code=code)[-1].tobytes() for proc in procs}

    assert len(results()) == 1
    monkeypatch.setattr(module, "_rounding_syms", lambda group: frozenset())
    assert len(results()) > 1


class RandomBenchmark:
    """A timer with random timings for `opt.autotune`, so that any plan may be the fastest."""

    def __init__(self, random: Random) -> None:
        self.random, self.taken = random, 0

    def lookup(self, nest):
        return None

    def insert(self, nest, chosen, seconds):
        self.taken += sum(map(bool, chosen))

    def check_deadline(self):
        return False

    def seconds(self, candidates):
        return [self.random.random() for _ in candidates]


@pytest.mark.parametrize("seed", SEEDS)
def test_autotuning_does_not_change_results(native, run, seed, monkeypatch):
    monkeypatch.setattr(machine, "MIN_AUTOTUNED_OPS", 0)
    random = Random(f"search {seed}")
    taken = 0
    for number in range(BATCH):
        if random.random() < 0.5:
            chain_program = chain(random, 10, SHAPES)
            code, inputs, symbols, kept_nodes = chain_program.code, chain_program.arrays, {}, chain_program.requested
        else:
            generated = generate(random, random.randint(1, 5))
            code, inputs, symbols, kept_nodes = (
                generated.code,
                generated.arrays | generated.merged,
                generated.symbols,
                {},
            )
        capabilities = target(random, native)
        benchmark = RandomBenchmark(random)
        untuned = optimize(lower(code, f"p{number}"), kept_nodes, capabilities)
        tuned = [
            optimize(
                lower(code, f"p{number}_{n}"), kept_nodes, capabilities,
                choose=lambda proc: autotune.autotune(proc, capabilities, benchmark),  # noqa: B023 - called at once
            )
            for n in range(2)
        ]  # fmt: skip
        taken += benchmark.taken
        compiled = native.compile([untuned, *tuned])
        pools = [buf for buf in untuned.bufs if buf.space is MemorySpace.GLOBAL]
        arrays = [
            with_fractions(random, inputs[buf.node], buf.precision.family) if buf.node in inputs
            else np.zeros(buf.size, buf.precision.numpy) for buf in pools
        ]  # fmt: skip
        want = run(untuned, *arrays, syms=[symbols[s] for s in untuned.syms], code=compiled)
        for proc in tuned:
            results = run(proc, *arrays, syms=[symbols[s] for s in proc.syms], code=compiled)
            for left, right in zip(want, results, strict=True):
                assert same_bits(left, right), f"{seed}, {proc.name}\n{print_proc(untuned)}\n{print_proc(proc)}"
    assert taken > BATCH
