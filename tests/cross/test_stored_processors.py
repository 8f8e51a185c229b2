"""Plans for stored processors: golden texts of a dozen workloads, so that a changed heuristic shows as a difference.

Each golden text has the plans for three processors and one that is made up: the tile of every group, from the outermost
loop to the innermost, with its reduction, panels, packed operands and cache block; then what the later passes do with
the nest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from unittest import mock

import pytest

import ocannl as oc
from ocannl import train
from ocannl.ir.capabilities import Capabilities, TileUnit
from ocannl.ir.cpu import cpu_from_tree
from ocannl.ir.loops import For, Prefetch, Proc, Store
from ocannl.ir.tnode import TNode
from ocannl.ir.walk import walk
from ocannl.lower.lower import lower
from ocannl.opt import pipeline
from ocannl.opt.analysis.fusion_group import FusionGroup
from ocannl.opt.schedule.plan import Plan, TilePlan, model_plan
from ocannl.opt.schedule.schedule import schedule_with

FOLDER = Path(__file__).parents[1] / "machines"
VECTOR_REGISTERS = {"zen_5": (64, 32), "granite_rapids": (64, 32), "avx2_laptop": (32, 16), "made_up": (16, 32)}
TILE_UNITS = {"granite_rapids": TileUnit(512, 49), "zen_5": TileUnit(32, 80)}
TARGETS = {
    name: Capabilities(
        vector_bytes=width, vector_registers=registers,
        bfloat16_dots=width == 64, bfloat16_tiles=TILE_UNITS.get(name),
        cpu=cpu_from_tree(json.loads((FOLDER / f"{name}.json").read_text(encoding="ascii"))),
    )
    for name, (width, registers) in VECTOR_REGISTERS.items()
}  # fmt: skip


def array(label: str, *shape: int) -> oc.Tensor:
    return oc.placeholder(label, batch=shape)


def product(m: int, k: int, n: int) -> oc.Code:
    return oc.einsum("m, k |; k, n | => m, n |", array("a", m, k), array("b", k, n)).forward


def narrow_product(m: int, k: int, n: int) -> oc.Code:
    x, w = (oc.placeholder(label, output=shape, dtype="bfloat16") for label, shape in (("x", (m, k)), ("w", (n, k))))
    return oc.einsum("m, k; n, k => m, n", x, w).with_dtype("float32").forward


def layer(rows: int, inputs: int, outputs: int) -> oc.Code:
    weight = oc.param("w", input=[inputs], output=[outputs])
    return oc.relu(weight @ oc.placeholder("x", batch=[rows], output=[inputs])).forward


def convolution() -> oc.Code:
    images = oc.placeholder("images", batch=[8], output=[28, 28, 32])
    kernel = oc.param("kernel", output=[3, 3, 32, 64])
    return oc.conv2d(images, kernel, padding="same").forward


def training_step() -> oc.Code:
    x, target = oc.placeholder("x", batch=[64], output=[784]), oc.placeholder("target", batch=[64], output=[10])
    hidden = oc.relu(oc.param("w1", output=[128]) @ x + oc.param("b1"))
    loss = oc.cross_entropy(oc.param("w2", output=[10]) @ hidden + oc.param("b2"), target).mean()
    return oc.seq(train.grad_update(loss), train.sgd(loss, 0.1, momentum=0.9))


def chain(rows: int, columns: int) -> oc.Code:
    x, y, z = (array(label, rows, columns) for label in "xyz")
    return (oc.gelu(x) * y + z).forward


WORKLOADS: dict[str, Callable[[], oc.Code]] = {
    "product_64": lambda: product(64, 64, 64),
    "product_512": lambda: product(512, 512, 512),
    "product_1500": lambda: product(1500, 1500, 1500),
    "product_1000_17_1000": lambda: product(1000, 17, 1000),
    "product_128_3072_768": lambda: product(128, 3072, 768),
    "layer_128_768_3072": lambda: layer(128, 768, 3072),
    "layer_128_3072_768": lambda: layer(128, 3072, 768),
    "layer_512_1024_1024": lambda: layer(512, 1024, 1024),
    "layer_1_768_3072": lambda: layer(1, 768, 3072),
    "layer_1_4096_4096": lambda: layer(1, 4096, 4096),
    "bfloat16_512_512_512": lambda: narrow_product(512, 512, 512),
    "bfloat16_128_768_3072": lambda: narrow_product(128, 768, 3072),
    "convolution": convolution,
    "training_step": training_step,
    "softmax": lambda: oc.softmax(oc.placeholder("x", batch=[4096], output=[1024])).forward,
    "chain_of_256_kib": lambda: chain(64, 1024),
    "chain_of_16_mib": lambda: chain(4096, 1024),
    "sum_of_columns": lambda: oc.einsum("m, n | => n |", array("x", 4096, 4096)).forward,
}


def described(plan: Plan) -> str:
    if not isinstance(plan, TilePlan):
        return str(plan)
    loops = " ".join(f"{sym.name}:{sym.extent}" + (f"/{size}" if size else "") for sym, size in plan.loops)
    parts = [f"{loops} | {' '.join(f'{sym.name}:{sym.extent}' for sym in plan.reduction_syms)}".rstrip(" |")]
    parts.append(f"vector {plan.vector.name} {plan.vectors}x{plan.lanes}")
    if plan.transposed_loop is not None:
        parts.append(f"transposed {plan.transposed_loop.name}")
    if plan.panels:
        parts.append(f"panels {' '.join(ref.buf.name for ref in plan.panels)}")
    if plan.packed_operands:
        parts.append(f"packed {' '.join(ref.buf.name for ref in plan.packed_operands)}")
    if plan.k_block:
        parts.append(f"blocks of {plan.k_block} around {plan.blocked_loops} loops")
    if plan.strip is not None:
        parts.append(f"strips of {plan.strip[1]} {plan.strip[0].name}")
    return ", ".join(parts)


def planned(proc: Proc, keep: Mapping[TNode, str], target: Capabilities) -> list[str]:
    lines: list[str] = []

    def choose(group: FusionGroup, is_parallel: bool) -> Plan:
        plan = model_plan(group, target, is_parallel)
        lines.append(f"  {' '.join(dict.fromkeys(ref.buf.name for ref in group.writes))}: {described(plan)}")
        return plan

    with mock.patch.object(pipeline, "schedule", lambda proc, *_: schedule_with(proc, choose)):
        final = pipeline.optimize(proc, keep, target)
    for stmt in final.body:
        chunk = stmt.parallel_chunk if isinstance(stmt, For) else 0
        nodes = list(walk(stmt))
        marks = [
            f"chunks of {chunk}" if chunk else "one thread",
            *({"nontemporal"} if any(isinstance(node, Store) and node.nontemporal for node in nodes) else ()),
            *({"prefetch"} if any(isinstance(node, Prefetch) for node in nodes) else ()),
        ]
        lines.append(f"  nest: {', '.join(marks)}")
    return lines


@pytest.mark.parametrize("name", WORKLOADS)
def test_plans_for_stored_processors(name: str, golden: Callable[[str], None]) -> None:
    ctx = oc.Context("numpy")
    program = ctx.compile(WORKLOADS[name]())._program
    lines = []
    for target, capabilities in TARGETS.items():
        lines += [target, *planned(lower(program.comp, name), program.keep_reasons, capabilities)]
    golden("\n".join(lines) + "\n")
