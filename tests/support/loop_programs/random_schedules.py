"""Random schedules of programs: subsets of the passes, axis orders, plans of groups, and the optimizations of large
arrays (parallel loops, fused reductions, non-temporal stores)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from random import Random

from loop_programs.random_chains import SHAPES, chain
from loop_programs.random_groups import plain_plan, tiled_plan
from ocannl.ir.accesses import alias_class, memory_accesses
from ocannl.ir.affine import TRUE, Affine, Sym
from ocannl.ir.assign import nodes
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.cpu import CacheLevel, Cpu
from ocannl.ir.loops import AccessMode, Buf, Load, MemorySpace, Prefetch, Proc, Ref, Stmt, Store, loop, row_major
from ocannl.ir.name_mangling import Namer
from ocannl.ir.tnode import TNode
from ocannl.ir.walk import Node, rewrite_body
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.analysis.nests import bound_names, wrap_in_loops
from ocannl.opt.analysis.substitution import replace_buffers
from ocannl.opt.fusion.fuse_outer_loops import fuse_outer_loops
from ocannl.opt.fusion.hoist_parallel_loop import hoist_parallel_loop
from ocannl.opt.memory.pad_operands import pad_operands
from ocannl.opt.memory.pad_rows import pad_rows
from ocannl.opt.memory.prefetch import prefetch
from ocannl.opt.memory.prefetch_streams import prefetch_streams
from ocannl.opt.memory.split_streams import split_streams
from ocannl.opt.memory.use_nontemporal_stores import use_nontemporal_stores
from ocannl.opt.parallel.insert_polls import insert_polls
from ocannl.opt.parallel.parallelize import parallelize
from ocannl.opt.pipeline import passes
from ocannl.opt.schedule.plan import Plan, model_plan
from ocannl.opt.schedule.plan.register_tiles import tiling_problem
from ocannl.opt.schedule.plan.scalar_plans import REASSOCIABLE, ScalarPlan
from ocannl.opt.schedule.schedule import schedule_with
from ocannl.testing.random_programs import Program, generate

WIDTHS = (0, 16, 32, 64)  # bytes in a vector
LARGEST = 64  # vectors in a tile: its code is written out
ALWAYS = ("decide_placement", "allocate_memory")  # schedules are about temporaries, and these have a place in the arena


@dataclass(frozen=True)
class Drawn:
    """A scheduled program for a backend, with a description of the random choices."""

    proc: Proc
    words: str


def sample(random: Random, shapes: Sequence[tuple[int, ...]] = SHAPES) -> tuple[Program, dict[TNode, str]]:
    """A program of everything there is, or a long one of simple statements on arrays of one shape; and what is kept."""
    if random.random() < 0.5:
        program = generate(random, random.randint(1, 6))
        return program, {node: "a test" for node in nodes(program.code) if random.random() < 0.2}
    long = chain(random, random.randint(4, 14), shapes)
    return Program(long.code, long.arrays, {}, {}, dict.fromkeys(long.arrays, 0.0)), long.requested


def drawn(
    random: Random,
    lowered: Proc,
    keep_reasons: Mapping[TNode, str],
    capabilities: Capabilities,
    on_stage: Callable[[str, Proc], None] = lambda name, proc: None,
) -> Drawn:
    width = random.choice(WIDTHS)
    target = replace(capabilities, vector_bytes=width, vector_registers=random.choice((16, 32)))
    left_out, random_share = random.choice((0, 0, 0.3, 0.8)), random.choice((0, 0.5, 0.9))
    random_passes: dict[str, Callable[[Proc], Proc]] = {
        "pad_operands": lambda proc: pad_operands(proc, random.choice((1, 4))),
        "choose_layouts": lambda proc: turned(random, proc),
        "hoist_parallel_loop": lambda proc: hoist_parallel_loop(proc, target, 2, 0, 1e9),
        "pad_rows": lambda proc: pad_rows(proc, random.choice((4, 16, 64))),
        "split_streams": lambda proc: split_streams(proc, random.choice((0, 64, 256)), 2),
        "schedule": lambda proc: schedule_with(proc, lambda group, shared: any_plan(random, group, target, shared)),
        "fuse_outer_loops": lambda proc: fuse_outer_loops(proc, target, min_bytes_saved=0),
        "prefetch": lambda proc: fetched(random, proc),
        "prefetch_streams": lambda proc: prefetch_streams(proc, Cpu(l3=CacheLevel(random.choice((1, 100)), 1, 1, 1))),
        "use_nontemporal_stores": lambda proc: use_nontemporal_stores(
            proc, random.choice((0, 1000)), random.choice((0, 100)), max_work=1 << 20
        ),
        "parallelize": lambda proc: parallelize(proc, 1, random.choice((1, 10, 100))),
        "insert_polls": lambda proc: insert_polls(proc, random.choice((1, 20, 1000))),
    }
    proc, description = lowered, [f"vectors of {width} bytes"]
    for row in passes(keep_reasons, target):
        if row.name not in ALWAYS and random.random() < left_out:
            description.append(f"no {row.name}")
            continue
        if row.name in random_passes and random.random() < random_share:
            description.append(f"any {row.name}")
            proc = random_passes[row.name](proc)
        else:
            proc = row.run(proc)
        on_stage(row.name, proc)
    return Drawn(proc, ", ".join(description))


def any_plan(random: Random, group: FusionGroup, capabilities: Capabilities, shared: bool = False) -> Plan:
    """A random legal plan of the group; sometimes that of the cost model."""
    if random.random() < 0.2:
        return model_plan(group, capabilities, shared)
    if random.random() < 0.7 and _may_be_tiled(group, capabilities):
        tile = tiled_plan(random, group)
        if tile is not None and prod(tile.tile_sizes.values()) <= LARGEST * tile.lanes:
            return tile
    plan = plain_plan(random, group)
    return ScalarPlan(plan.order, tuple([
        reduced if reduction.update.op in REASSOCIABLE else replace(reduced, order=reduction.syms)
        for reduced, reduction in zip(plan.reductions, group.reductions, strict=True)
    ]))  # fmt: skip


def _may_be_tiled(group: FusionGroup, capabilities: Capabilities) -> bool:
    loops = (*group.loops, *(loop for reduction in group.reductions for loop in reduction.loops))
    subject = tiling_problem(group, replace(capabilities, vector_bytes=max(WIDTHS)))
    return subject is not None and all(loop.sym.extent for loop in loops)


def turned(random: Random, proc: Proc) -> Proc:
    """Temporaries with their axes in any order in memory, and copies, so too, of some arrays that are only read."""
    views = Counter(alias_class(buf) for buf in proc.bufs)
    written = {alias_class(touch.ref.buf) for touch in memory_accesses(proc.body) if touch.writes}
    names = Namer(bound_names(proc))
    new: dict[Buf, Buf] = {}
    copies: list[Stmt] = []
    for buf in proc.bufs:
        strides = _in_any_order(random, buf.shape)
        if buf.space is MemorySpace.ARENA and views[alias_class(buf)] == 1:
            new[buf] = replace(buf, strides=strides)
        elif buf.access is not AccessMode.MERGE and alias_class(buf) not in written and random.random() < 0.2:
            new[buf] = Buf(names(buf.name), buf.precision, buf.shape, strides, MemorySpace.ARENA, AccessMode.TEMP)
            syms = [Sym(names("i"), 0, size - 1) for size in buf.shape]
            at = tuple(map(Affine.of, syms))
            copy = Store(Ref(new[buf], at), Load(Ref(buf, at)))
            copies += wrap_in_loops([loop(sym, ()) for sym in syms], TRUE, (copy,))
    changed = replace_buffers(proc, new)
    copied = [buf for buf in new if buf.space is MemorySpace.GLOBAL]
    return replace(changed, body=(*copies, *changed.body), bufs=(*copied, *changed.bufs))


def fetched(random: Random, proc: Proc) -> Proc:
    """Rows fetch others as if arrays were large: the next ones, those before, any, and what is beyond the array."""

    def rule(node: Node) -> Node:
        if not isinstance(node, Prefetch):
            return node
        return replace(node, distance=node.distance * random.choice((1, -1, 3, 1000)))

    program = prefetch(proc, random.choice((0, 1000)), random.choice((0, 100)))
    return replace(program, body=rewrite_body(program.body, rule))


def _in_any_order(random: Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, with gaps between the rows of some."""
    order = random.sample(range(len(shape)), len(shape))
    gap = random.choice((0, 0, 0, 3))
    steps = row_major(tuple([shape[n] + (gap if n == order[-1] else 0) for n in order]))
    strides = dict(zip(order, steps, strict=True))
    return tuple([strides[n] for n in range(len(order))])
