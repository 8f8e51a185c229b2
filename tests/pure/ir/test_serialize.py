"""Programs that are written as JSON and read back are the same programs."""

from __future__ import annotations

import json
from math import inf, nan
from random import Random
from typing import Any

import numpy as np
import pytest

from ocannl.ir import loops
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.interpret import interpret
from ocannl.ir.loops import Buf, Const, Proc, Store
from ocannl.ir.printer import print_proc
from ocannl.ir.serialize import RECORDS, dump, load, nodes_of
from ocannl.ir.tnode import Placement
from ocannl.ir.walk import rewrite
from ocannl.lower.lower import lower
from ocannl.opt.pipeline import optimize
from ocannl.testing.random_programs import Program, generate

SEEDS = range(60)


def lowered(seed: int) -> tuple[Program, Proc]:
    program = generate(Random(f"serialize {seed}"), 5)
    return program, lower(program.code, "step")


def copied(proc: Proc) -> Proc:
    return load(json.loads(json.dumps(dump(proc))))


@pytest.mark.parametrize("seed", SEEDS)
def test_copy_prints_and_computes_the_same(seed: int) -> None:
    program, proc = lowered(seed)
    copy = copied(proc)
    assert print_proc(copy) == print_proc(proc)
    twins = dict(zip(nodes_of(proc), nodes_of(copy), strict=True))
    assert [(n.label, n.dims, n.precision, n.role) for n in twins.values()] == [
        (n.label, n.dims, n.precision, n.role) for n in twins
    ]
    arrays = {twins[node]: array for node, array in program.arrays.items() if node in twins}
    merged = {twins[node]: array for node, array in program.merged.items() if node in twins}
    symbols = {sym.name: value for sym, value in program.symbols.items()}
    results = interpret(copy, arrays, {sym: symbols[sym.name] for sym in copy.syms}, merged)
    for node, array in interpret(
        proc, program.arrays, {sym: program.symbols[sym] for sym in proc.syms}, program.merged
    ).items():
        assert results[twins[node]].tobytes() == array.tobytes()


@pytest.mark.parametrize("seed", range(20))
def test_copy_is_optimized_in_the_same_way(seed: int) -> None:
    _, proc = lowered(seed)
    target = Capabilities(vector_bytes=32)
    assert print_proc(optimize(copied(proc), {}, target)) == print_proc(optimize(proc, {}, target))


def test_every_constructor_is_known() -> None:
    of_programs = {kind for kind in vars(loops).values() if isinstance(kind, type) and hasattr(kind, "__slots__")}
    kinds = {kind for kind in of_programs if kind.__module__ == loops.__name__}
    assert kinds - {Buf} <= set(RECORDS)


@pytest.mark.parametrize("value", [inf, -inf, nan, -0.0, 0.1, 2**63 - 1, -(2**63), np.float32(0.1), np.int64(3)])
def test_numbers_keep_their_value_and_sign(value: Any) -> None:
    _, proc = lowered(0)
    wanted = value.item() if isinstance(value, np.generic) else value

    def with_constant(node: Any) -> Any:
        return Store(node.ref, Const(value, node.ref.buf.precision)) if isinstance(node, Store) else node

    changed = dump(loops.Proc(proc.name, proc.bufs, proc.syms, tuple(rewrite(s, with_constant) for s in proc.body)))
    text = json.dumps(changed)
    numbers = [row["Const"][0] for row in _records(json.loads(text), "Const")]
    assert numbers and all(repr(number) == repr(wanted) for number in numbers)


def _records(tree: Any, name: str) -> list[Any]:
    if isinstance(tree, dict):
        records = [tree] if name in tree else []
        return records + [row for child in tree.values() for row in _records(child, name)]
    return [row for child in tree for row in _records(child, name)] if isinstance(tree, list) else []


def test_requests_are_kept() -> None:
    _, proc = lowered(1)
    node = nodes_of(proc)[0]
    node.requested.set(Placement.KEPT, "the user")
    twin = nodes_of(copied(proc))[0]
    assert (twin.requested.value, twin.requested.author) == (Placement.KEPT, "the user")


@pytest.mark.parametrize("damage", [
    lambda document: document.pop("proc"),
    lambda document: document["bufs"].pop(),
    lambda document: document["proc"].update({"another": []}),
    lambda document: document["proc"]["Proc"].__delitem__(slice(3, None)),
    lambda document: document["proc"]["Proc"].__setitem__(3, 5),
    lambda document: document["proc"]["Proc"].__setitem__(3, [{"If": [True, [], []]}]),
    lambda document: document["bufs"][0].__setitem__(2, ["many"]),
    lambda document: document.update(proc=None),
])  # fmt: skip
def test_damaged_documents_are_refused(damage: Any) -> None:
    document = json.loads(json.dumps(dump(lowered(2)[1])))
    damage(document)
    with pytest.raises(ValueError, match="does not hold a lowered program"):
        load(document)
