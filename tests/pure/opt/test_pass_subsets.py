"""Kept nodes have equal values whichever passes run: random small computations with aliases, windows, slices,
concatenations, masks and copies."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from random import Random

import numpy as np
import pytest

from ocannl.ir import precision as P
from ocannl.ir.affine import TRUE, Affine, Cond, Sym, SymKind
from ocannl.ir.assign import Assign, Call, Comp, Convert, Index, Number, Origin, Piece, Read, Seq, Value, nodes
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import AccessMode, MemorySpace, Proc
from ocannl.ir.ops import ADD, AND, BY_NAME, MAX, MIN, MUL, OR, SUB, Op
from ocannl.ir.precision import Precision
from ocannl.ir.printer import print_proc
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.verify import verify
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize, passes
from ocannl.testing.evaluate import evaluate
from ocannl.testing.random_programs import difference, generate

TARGET = Capabilities()
NAMES = [step.name for step in passes({}, TARGET)]
VECTORS = [Capabilities(vector_bytes=size) for size in (16, 32, 64)]
POINTWISE = ("add", "sub", "mul", "max", "min", "neg", "relu", "lt", "ge", "eq", "where", "fma", "abs", "fst", "and")
ROUGH = ("tanh", "div", "exp", "pow")


def node(label: str, dims: tuple[int, ...], role: Role = Role.RESULT, kind: Precision = P.float32) -> TNode:
    return TNode(label, role, lambda: dims, lambda: kind)


def at(*indices: Affine | Sym | int) -> tuple[Affine, ...]:
    return tuple(map(Affine.of, indices))


@dataclass
class Program:
    """A computation with values for everything it reads."""

    code: Comp
    arrays: dict[TNode, np.ndarray]
    symbols: dict[Sym, int]
    keep_reasons: dict[TNode, str]


@dataclass
class Maker:
    random: Random
    static: Sym = field(default_factory=lambda: Sym("n", 0, 2, SymKind.STATIC))
    nodes: list[TNode] = field(default_factory=list)
    count: int = 0

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def sym(self, size: int) -> Sym:
        return Sym(self.name("s"), 0, size - 1)

    def new(self, dims: tuple[int, ...], role: Role = Role.RESULT) -> TNode:
        kind = self.random.choice([P.float32] * 6 + [P.float16, P.int32, P.float64])
        result = node(self.name("t"), dims, role, kind)
        self.nodes.append(result)
        return result

    def index(self, size: int, loops: list[Sym]) -> tuple[Affine, bool]:
        """Some index into an axis, and whether it may leave it."""
        r = self.random
        fitting = [s for s in loops if s.extent == size]
        if fitting and r.random() < 0.7:
            sym = r.choice(fitting)
            return (Affine.of(size - 1) - sym if r.random() < 0.1 else Affine.of(sym)), False
        if size == 1 or not loops or r.random() < 0.2:
            if size > self.static.hi and r.random() < 0.4:
                return Affine.of(self.static), False
            return Affine.of(r.randrange(size)), False
        index = sum((Affine.of(s) * r.choice([1, 1, 2]) for s in r.sample(loops, min(2, len(loops)))), Affine())
        index = index - r.randrange(3)
        low, high = index.range()
        return index, low < 0 or high >= size

    def read(self, loops: list[Sym]) -> Read:
        source = self.random.choice(self.nodes)
        picked = [self.index(n, loops) for n in source.dims]
        outside = float(self.random.randrange(2)) if any(leaves for _, leaves in picked) else None
        return Read(source, tuple(i for i, _ in picked), outside)

    def value(self, loops: list[Sym], depth: int) -> Value:
        r = self.random
        if depth == 0 or r.random() < 0.2:
            if r.random() < 0.1:
                return Number(r.choice([0, 1, 2, -1, 0.5]))
            if loops and r.random() < 0.15:
                return Index(Affine.of(r.choice(loops)) + r.randrange(-1, 2))
            return self.read(loops)
        if loops and r.random() < 0.15:
            i, j = r.choice(loops), r.choice(loops)
            mask = Call(BY_NAME[r.choice(["le", "eq", "lt", "ne"])], (Index(Affine.of(i)), Index(Affine.of(j))))
            return Call(BY_NAME["where"], (mask, self.value(loops, depth - 1), self.value(loops, depth - 1)))
        if r.random() < 0.05:
            return Convert(self.value(loops, depth - 1), r.choice([P.float32, P.float16]))
        op = BY_NAME[r.choice(POINTWISE * 3 + ROUGH)]
        if op.name == "pow":
            return Call(op, (self.value(loops, 0), Number(2)))
        return Call(op, tuple(self.value(loops, depth - 1) for _ in range(op.arity)))

    def statement(self) -> Assign:
        r = self.random
        kind = r.random()
        if kind < 0.1:
            return self.concatenation()
        if kind < 0.3 and self.nodes:
            lhs = r.choice(self.nodes)  # again, perhaps in indices
        else:
            lhs = self.new(tuple(r.choice([1, 2, 3, 4]) for _ in range(r.randrange(3))))
        loops = [self.sym(n) for n in lhs.dims]
        if len(loops) == 2 and r.random() < 0.15:
            loops.reverse()
        indices = at(*sorted(loops, key=lambda s: int(s.name[1:])))
        reduced = [self.sym(r.choice([2, 3, 9])) for _ in range(r.choice([0, 0, 0, 1, 1, 2]))]
        if reduced or r.random() < 0.2:
            accum: Op | None = r.choice([ADD, ADD, ADD, MAX, MIN, MUL, SUB, AND, OR])
        else:
            accum = None
        when = TRUE
        if loops and r.random() < 0.1:
            when = Cond((Affine.of(r.choice(loops)) - 1,))
        value = self.value(loops + reduced, r.choice([0, 1, 1, 2]))
        order = loops + reduced
        if accum is not None and r.random() < 0.3:
            order.reverse()
        clear = lhs.dims == () or r.random() < 0.7
        return Assign(lhs, accum, clear, (Piece(tuple(order), indices, value, when),), Origin(lhs.label))

    def concatenation(self) -> Assign:
        a, b = self.random.choice([1, 2]), self.random.choice([1, 3])
        i, j = self.sym(a), self.sym(b)
        first, second = self.value([i], 1), self.value([j], 1)
        lhs = self.new((a + b,))
        return Assign(lhs, None, True, (Piece((i,), at(i), first), Piece((j,), at(Affine.of(j) + a), second)))


    def parts(self) -> list[Assign]:
        """All cells of a matrix, and then some of them again."""
        r = self.random
        rows, columns = r.choice([3, 4]), r.choice([3, 4])
        lhs = self.new((rows, columns))
        loops = [self.sym(rows), self.sym(columns)]
        fill = Number(r.choice([0, 0, 2])) if r.random() < 0.7 else self.value(loops, 1)
        code = [Assign(lhs, None, True, (Piece(tuple(loops), at(*loops), fill),), Origin(lhs.label))]
        for _ in range(r.choice([1, 1, 2, 3])):
            i, j = self.sym(min(rows, columns) - r.randrange(2)), self.sym(columns - 1)
            used, indices = r.choice([
                ((i,), at(i, i)), ((i, j), at(i, i)), ((i,), at(i, -Affine.of(i) + columns - 1)), ((j,), at(1, j)),
                ((j,), at(0, j)), ((j,), at(self.static, j)), ((i, j), at(i, Affine.of(j) + 1)),
                ((j, i), at(i, -Affine.of(j) + columns - 1)),
            ])  # fmt: skip
            accum = r.choice([None, None, ADD, MAX, SUB])
            if (accum is None or r.random() < 0.7) and len(used) > len({s for index in indices for s in index.syms}):
                used = used[:1]
            value = self.value(list(used), r.choice([0, 1]))
            when = Cond((Affine.of(used[0]) - 1,)) if r.random() < 0.2 else TRUE
            code.append(Assign(lhs, accum, False, (Piece(used, indices, value, when),), Origin(lhs.label)))
        return code


def program(seed: int, statements: int = 8, parts: int = 0) -> Program:
    maker = Maker(Random(seed))
    roles = (Role.DATA, Role.PARAMETER, Role.PLACEHOLDER)
    for role in roles:
        maker.new(tuple(maker.random.choice([2, 3, 4]) for _ in range(maker.random.randrange(3))), role)
    written = [assign for _ in range(parts) for assign in (*maker.parts(), maker.statement())]
    code = Seq((*written, *(maker.statement() for _ in range(statements))))
    numbers = np.random.default_rng(seed)
    used = nodes(code)
    arrays = {n: numbers.integers(-2, 3, n.dims).astype(n.precision.numpy) for n in used}
    keep_reasons = {n: "keep=" for n in used if maker.random.random() < 0.1}
    return Program(code, arrays, {maker.static: maker.random.randrange(3)}, keep_reasons)


def judge(name: str, proc: Proc) -> None:
    verify(proc, "placed" if name == "allocate_memory" else "optimized", alignment_bytes=TARGET.alignment_bytes)


def check(sample: Program, without: frozenset[str], target: Capabilities = TARGET) -> Proc:
    lowered = lower(sample.code, "law")
    verify(lowered, "lowered")
    final = optimize(lowered, sample.keep_reasons, target, judge, without)
    symbols = {s: sample.symbols[s] for s in lowered.syms}
    expected, actual = interpret(lowered, sample.arrays, symbols), interpret(final, sample.arrays, symbols)
    kept = [b.node for b in final.bufs if b.space is MemorySpace.GLOBAL and b.node is not None]
    for node in kept:
        ok = np.allclose(
            actual[node].astype(float), expected[node].astype(float), rtol=1e-2 if node.precision.nbytes < 4 else 1e-4,
            atol=1e-4, equal_nan=True,
        )  # fmt: skip
        assert ok, f"{node}\n{expected[node]}\n{actual[node]}\n{print_proc(lowered)}\n{print_proc(final)}"
    written = {b.node for b in lowered.bufs if b.access in (AccessMode.OUT, AccessMode.INOUT)}
    assert written & set(sample.keep_reasons) <= set(kept)
    return final


@pytest.mark.parametrize("block", range(20))
def test_all_passes(block: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        check(program(seed), frozenset())


@pytest.mark.parametrize("block", range(20))
def test_random_subsets_of_passes(block: int) -> None:
    for seed in range(1000 + block * 10, 1000 + block * 10 + 10):
        random = Random(seed)
        check(program(seed), frozenset(n for n in NAMES if random.random() < 0.4))


@pytest.mark.parametrize("block", range(10))
def test_partially_written_arrays(block: int) -> None:
    for seed in range(5000 + block * 20, 5000 + block * 20 + 20):
        random = Random(seed)
        without = frozenset(n for n in NAMES if random.random() < 0.2)
        check(program(seed, 3, 2), without, random.choice([TARGET, *VECTORS]))


@pytest.mark.slow
def test_pairs_of_passes() -> None:
    for seed, pair in enumerate(combinations(NAMES, 2)):
        check(program(2000 + seed), frozenset(NAMES) - set(pair))


@pytest.mark.parametrize("block", range(10))
def test_targets_with_vectors(block: int) -> None:
    for seed in range(4000 + block * 20, 4000 + block * 20 + 20):
        random = Random(seed)
        check(program(seed), frozenset(n for n in NAMES if random.random() < 0.2), random.choice(VECTORS))


def test_a_target_without_schedules() -> None:
    for seed in range(3000, 3050):
        check(program(seed), frozenset(), Capabilities(wants_schedule=False))


@pytest.mark.parametrize("block", range(20))
def test_generated_programs(block: int) -> None:
    for seed in range(block * 20, block * 20 + 20):
        random = Random(seed)
        program = generate(random, 6)
        keep_reasons = {n: "keep=" for n in nodes(program.code) if random.random() < 0.15}
        without = frozenset() if seed % 2 else frozenset(n for n in NAMES if random.random() < 0.3)
        final = optimize(lower(program.code, "law"), keep_reasons, random.choice((TARGET, *VECTORS)), judge, without)
        symbols = {s: program.symbols[s] for s in final.syms}
        got = interpret(final, program.arrays, symbols, program.merged)
        wanted = evaluate(program.code, program.arrays, program.symbols, program.merged)
        assert not difference(wanted, got, program.tolerance), print_proc(final)
