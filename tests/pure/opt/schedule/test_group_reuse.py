"""Plans and loops of groups that are equal up to renaming: symbols, arrays and origins are those of each group."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from typing import TypeVar

import pytest
from loop_programs.random_groups import group, plain_plan, tiled_plan

from ocannl.ir.affine import TRUE, Affine, Sym
from ocannl.ir.alpha_equivalence import CanonicalText
from ocannl.ir.assign import Origin
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import (
    AccessMode,
    Apply,
    BindIndex,
    Buf,
    Const,
    For,
    Let,
    Load,
    Local,
    MemorySpace,
    Ref,
    Stmt,
    Store,
    Update,
    loop,
    row_major,
)
from ocannl.ir.name_mangling import Namer
from ocannl.ir.ops import ADD, MUL
from ocannl.ir.precision import float32
from ocannl.ir.tnode import Role, TNode
from ocannl.ir.walk import walk
from ocannl.opt.analysis.fusion_group import FusionGroup, Reduction, local_buffer
from ocannl.opt.schedule.group_reuse import GroupReuse
from ocannl.opt.schedule.loop_generation import build_loops
from ocannl.opt.schedule.plan import Plan, TilePlan, model_plan

S = TypeVar("S", Let, Store, Update, Let | Store | Update)

AVX512 = Capabilities(vector_bytes=64, vector_registers=32)


class Chosen:
    """The plans that the model has been asked for."""

    def __init__(self) -> None:
        self.groups: list[FusionGroup] = []
        self.reuse = GroupReuse(self.choose)

    def choose(self, group: FusionGroup, is_parallel: bool) -> Plan:
        self.groups.append(group)
        return model_plan(group, AVX512, is_parallel)


def renamed(group: FusionGroup) -> FusionGroup:
    """The group with new symbols of all loops, whose names have another order."""
    old = [loop.sym for loops in (group.loops, *(reduction.loops for reduction in group.reductions)) for loop in loops]
    new = {sym: Sym(f"{chr(122 - n % 26)}{n}_new", sym.lo, sym.hi, sym.kind) for n, sym in enumerate(old)}

    def fresh(loops: tuple[For, ...]) -> tuple[For, ...]:
        return tuple([replace(loop, sym=new[loop.sym]) for loop in loops])

    def elsewhere(stmt: S) -> S:
        return stmt if isinstance(stmt, Let) else replace(stmt, origin=Origin(f"{stmt.origin.label}_new"))

    group = group.substituted({sym: Affine.of(replacement) for sym, replacement in new.items()})
    reductions = [
        replace(reduction, loops=fresh(reduction.loops), update=elsewhere(reduction.update))
        for reduction in group.reductions
    ]
    epilogue = tuple(map(elsewhere, group.epilogue))
    return replace(group, loops=fresh(group.loops), reductions=tuple(reductions), epilogue=epilogue)


@pytest.mark.parametrize("seed", range(60))
def test_equal_groups_have_one_plan(seed: int) -> None:
    chosen = Chosen()
    first, second = (group(Random(f"plans {seed}")).group for _ in range(2))  # of different objects
    chosen.reuse.plan(first, False)
    for equal in (second, renamed(second)):
        assert chosen.reuse.plan(equal, False) == model_plan(equal, AVX512, False)
    assert chosen.groups == [first]


@pytest.mark.parametrize("seed", range(20))
def test_unequal_groups_have_separate_plans(seed: int) -> None:
    chosen = Chosen()
    first, second = (group(Random(f"{name} {seed}")).group for name in ("first", "second"))
    for unequal in (first, second):
        for is_parallel in (False, True):
            assert chosen.reuse.plan(unequal, is_parallel) == model_plan(unequal, AVX512, is_parallel)
    assert len(chosen.groups) == 4


def labelled(group: FusionGroup) -> FusionGroup:
    """The group with an origin of its own for each statement."""
    reductions = [
        replace(reduction, update=replace(reduction.update, origin=Origin(f"sum {n}")))
        for n, reduction in enumerate(group.reductions)
    ]
    epilogue = [
        stmt if isinstance(stmt, Let) else replace(stmt, origin=Origin(f"store {n}"))
        for n, stmt in enumerate(group.epilogue)
    ]
    return replace(group, reductions=tuple(reductions), epilogue=tuple(epilogue))


def described(stmt: Stmt) -> tuple[str, list[object], list[object]]:
    """The text of a statement up to renaming, the names in it that it does not bind, and its origins."""
    text = CanonicalText()
    text.stmt(stmt)
    nodes = list(walk(stmt))
    bound = {node.sym for node in nodes if isinstance(node, For | BindIndex)}
    bound |= {node.buf for node in nodes if isinstance(node, Local)} | {n.name for n in nodes if isinstance(n, Let)}
    free = [entity for entity in text.names if entity not in bound]
    return " ".join(text.tokens), free, [node.origin for node in nodes if isinstance(node, Store | Update | For)]


@pytest.mark.parametrize("seed", range(100))
def test_reused_loops_are_those_that_would_be_built(seed: int) -> None:
    chosen = Chosen()
    first, second = (labelled(group(Random(f"loops {seed}")).group) for _ in range(2))
    chosen.reuse.loops(first, chosen.reuse.plan(first, False), Namer())
    for equal in (second, renamed(second)):
        plan = chosen.reuse.plan(equal, False)
        assert described(chosen.reuse.loops(equal, plan, Namer())) == described(build_loops(equal, plan, Namer()))


@pytest.mark.parametrize("seed", range(100))
def test_loops_are_reused_for_equal_plans_only(seed: int) -> None:
    chosen = Chosen()
    first, second = (labelled(group(Random(f"loops {seed}")).group) for _ in range(2))
    for make, number in product((plain_plan, tiled_plan), range(3)):
        plans = [make(Random(f"plan {number}"), member) for member in (first, second)]
        for member, plan in zip((first, second), plans, strict=True):
            if plan is not None and not (isinstance(plan, TilePlan) and plan.needs_buffers):
                built = described(build_loops(member, plan, Namer()))
                assert described(chosen.reuse.loops(member, plan, Namer())) == built


@pytest.mark.parametrize("seed", range(40))
def test_names_of_reused_loops_are_unique(seed: int) -> None:
    chosen, names = Chosen(), Namer()
    new: list[str] = []
    for _ in range(3):
        member = group(Random(f"names {seed}")).group
        stmt = chosen.reuse.loops(member, chosen.reuse.plan(member, False), names)
        new += bound_names(stmt) - bound_names(member.stmt())  # some plans keep loops of the group
    assert len(new) == len(set(new))


def bound_names(stmt: Stmt) -> set[str]:
    names: set[str] = set()
    for node in walk(stmt):
        match node:
            case For(sym=sym) | BindIndex(sym=sym):
                names.add(sym.name)
            case Local(buf):
                names.add(buf.name)
            case Let(name):
                names.add(name)
            case _:
                pass
    return names


def matrix_product(names: str, *, is_view: bool) -> FusionGroup:
    """A product of matrices; with `is_view`, the right one is a view of the result."""
    nodes = {name: TNode(name, Role.PLACEHOLDER, lambda: (256, 256), lambda: float32) for name in names}
    a, b, y = (
        Buf(name, float32, (256, 256), row_major((256, 256)), MemorySpace.GLOBAL, access, nodes[name])
        for name, access in zip(names, (AccessMode.IN, AccessMode.INOUT, AccessMode.INOUT), strict=True)
    )
    if is_view:
        b = replace(b, node=y.node)
    i, j, k = (Sym(f"{name}_{names}", 0, 255) for name in "ijk")
    acc = Ref(local_buffer(f"acc_{names}", float32, ()), ())
    cells = {name: tuple(map(Affine.of, syms)) for name, syms in (("a", (i, k)), ("b", (k, j)), ("y", (i, j)))}
    update = Update(acc, ADD, Apply(MUL, (Load(Ref(a, cells["a"])), Load(Ref(b, cells["b"])))))
    reduction = Reduction(Const(0, float32), (loop(k, ()),), TRUE, update)
    return FusionGroup((loop(i, ()), loop(j, ())), TRUE, (reduction,), (Store(Ref(y, cells["y"]), Load(acc)),))


def test_arrays_that_share_memory_are_another_group() -> None:
    """Panels must not be packed from an array that the group writes."""
    chosen = Chosen()
    for group_ in (
        matrix_product("abc", is_view=False),
        matrix_product("def", is_view=True),
        matrix_product("ghi", is_view=False),
    ):
        assert chosen.reuse.plan(group_, False) == model_plan(group_, AVX512, False)
    assert len(chosen.groups) == 2
