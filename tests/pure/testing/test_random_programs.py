"""Generated programs: reproducible, well conditioned, and of every kind."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np

from ocannl.ir.affine import SymKind
from ocannl.ir.assign import Call, Convert, Index, Number, Read, Seq, Value, assigns, nodes, reads
from ocannl.ir.ops import OPS, POW
from ocannl.ir.precision import PRECISIONS, float32
from ocannl.ir.printer import print_comp
from ocannl.ir.tnode import reset_ids
from ocannl.testing.error_bounds import Info, error_of
from ocannl.testing.evaluate import evaluate
from ocannl.testing.random_programs import Program, difference, generate


def programs(count: int) -> list[Program]:
    return [generate(Random(seed)) for seed in range(count)]


def text(seed: int) -> str:
    reset_ids()
    program = generate(Random(seed))
    return print_comp(program.code) + str([a.tolist() for a in program.arrays.values()])


def test_a_seed_says_everything() -> None:
    assert [text(seed) for seed in range(50)] == [text(seed) for seed in range(50)]


def test_programs_hold_all_they_need() -> None:
    judged = loose = 0
    for program in programs(300):
        got = evaluate(program.code, program.arrays, program.symbols, program.merged)
        assert set(nodes(program.code)) <= set(program.arrays) and set(program.arrays) == set(program.tolerance)
        for node, array in got.items():
            assert array.shape == node.dims and array.dtype == node.precision.numpy
            size = float(np.abs(array.astype(float)).max(initial=1))
            judged += 1
            loose += program.tolerance[node] > 0.01 * size
    assert loose < 0.03 * judged


def values(value: Value) -> list[Value]:
    match value:
        case Call(_, args): return [value, *(v for a in args for v in values(a))]
        case Convert(inner, _): return [value, *values(inner)]
        case _: return [value]


def test_there_is_some_of_everything() -> None:
    seen: Counter[str] = Counter()
    for program in programs(1500):
        assert isinstance(program.code, Seq)
        seen.update(f"type {n.precision}" for n in nodes(program.code))
        seen.update("empty array" for n in nodes(program.code) if 0 in n.dims)
        for assign in assigns(program.code):
            seen[f"accum {assign.accum} {'cleared' if assign.clear else 'kept'}"] += 1
            seen["several pieces"] += len(assign.pieces) > 1
            for piece in assign.pieces:
                inner = values(piece.value)
                symbols = {s for a in piece.indices for s in a.syms}
                seen.update(type(v).__name__ for v in inner)
                seen.update(f"op {v.op}" for v in inner if isinstance(v, Call))
                seen["empty loop"] += any(s.extent == 0 for s in piece.loops)
                seen["loop from one"] += any(s.lo == 1 for s in piece.loops)
                seen["reduction"] += any(s not in symbols for s in piece.loops)
                seen["diagonal"] += sum(len(a.terms) for a in piece.indices) > len(symbols)
                seen["window on the left"] += any(len(a.terms) > 1 for a in piece.indices)
                seen["strided"] += any(abs(c) > 1 for a in piece.indices for c, _ in a.terms)
                seen["reversed"] += any(c < 0 for a in piece.indices for c, _ in a.terms)
                seen["static on the left"] += any(s.kind is SymKind.STATIC for s in symbols)
                seen["mask"] += bool(piece.when.ge0)
                seen["equality"] += bool(piece.when.eq0)
                for read in reads(piece.value):
                    seen["outside"] += read.outside is not None
                    seen["infinite outside"] += read.outside is not None and np.isinf(read.outside)
                    seen["merge"] += read.merge
                    seen["left side read in place"] += read.node is assign.lhs and read.indices == piece.indices
                    seen["left side read elsewhere"] += read.node is assign.lhs and read.indices != piece.indices
                    seen["static read"] += any(s.kind is SymKind.STATIC for a in read.indices for s in a.syms)
        seen.update("exact" if t == 0 else "rounded" for t in program.tolerance.values())
    steep = ("lgamma", "atan2")  # no bound of errors holds near the poles, or at the cut
    wanted = [f"op {op}" for op in OPS if op.name not in steep] + [f"type {p}" for p in PRECISIONS]
    cleared = ["None", *(op.name for op in OPS if op.neutral is not None)]
    wanted += [f"accum {name} cleared" for name in cleared]
    wanted += [f"accum {name} kept" for name in (*cleared, "mod", "fst", "snd")]
    wanted += [kind.__name__ for kind in (Read, Number, Index, Call, Convert)]
    wanted += [name for name in seen if not name.startswith(("op ", "type ", "accum "))]
    rare = {name: seen[name] for name in wanted if seen[name] < 5}
    assert not rare, rare


def test_errors_of_powers_of_powers() -> None:
    """Numbers that are off by what is known of them end no farther apart than that says."""
    random, off, reported = Random(0), 0.0, 0
    for _ in range(2000):
        low, few = random.uniform(0.25, 4), random.uniform(0, 1.5)
        cell = Info(low, low * random.uniform(1, 2), 99, random.choice((0, 1e-5, 1e-3)), float32)
        value = Info(few, few + random.uniform(0, 0.5), 99, random.choice((0, 1e-5, 1e-3)), float32)
        times = random.randint(1, 5)
        bound = error_of(POW, cell, [(value, times)], float32)
        if bound is None:
            continue
        reported += 1
        first = second = random.uniform(cell.low, cell.high)
        second += random.choice((-1, 1)) * cell.error
        for _ in range(times):
            exponent = random.uniform(value.low, value.high)
            first, second = first**exponent, second ** (exponent + random.choice((-1, 1)) * value.error)
        assert abs(first - second) <= bound
        off = max(off, abs(first - second) / bound)
    assert reported > 1000 and off > 0.5
    unknown = Info(0, 2, 99, 1e9, float32)
    assert error_of(POW, Info(1, 8, 0, 0, float32), [(unknown, 1)], float32) is None


def test_differences_are_told() -> None:
    program = generate(Random(1))
    got = evaluate(program.code, program.arrays, program.symbols, program.merged)
    assert difference(got, got, program.tolerance) == ""
    node = next(n for n, a in got.items() if a.size and n.precision.is_float)
    off = {**got, node: got[node].copy()}
    off[node].flat[0] += 1
    assert f"{node.label}[" in difference(got, off, dict.fromkeys(got, 0.5))
    assert difference(got, off, dict.fromkeys(got, 1.5)) == ""
    off[node].flat[0] = np.nan
    assert "is nan, and should be" in difference(got, off, dict.fromkeys(got, 1.5))
