"""Buckets of gradients, which are exchanged while those of earlier layers are computed.

Source: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ocannl.ir.assign import Comp, Seq, nodes
from ocannl.ir.slicing import Slicer
from ocannl.ir.tnode import Placement, TNode
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.record.code import Code, titled


@dataclass(frozen=True, slots=True)
class GradientBucket:
    """Code that completes some gradients, if the code of the buckets before has been executed."""

    code: Code
    gradients: tuple[Tensor, ...]


def gradient_buckets(code: Code, gradients: Sequence[Tensor], bucket_bytes: int) -> list[GradientBucket]:
    """Divides the code that computes gradients. Each bucket but the last has at least `bucket_bytes` of gradients,
    those that depend on the fewest statements first. Code whose parts would share a temporary array, such as the states
    of a loop, is one bucket."""
    if sum(_size_bytes(gradient.node) for gradient in gradients) <= bucket_bytes:
        return [GradientBucket(code, tuple(gradients))]
    elaborated = code.elaborate()
    slicer = Slicer(elaborated.comp)
    groups = _groups(slicer, gradients, bucket_bytes)
    parts = slicer.slices([[gradient.node for gradient in group] for group in groups])
    while Seq() in parts:  # its gradients are final with the part before
        empty = parts.index(Seq())
        parts.pop(empty)
        group = groups.pop(empty)
        groups[max(empty - 1, 0)] += group
    shared = _shared(parts)
    if len(parts) == 1 or any(node.requested.value is Placement.TEMPORARY for node in shared):
        return [GradientBucket(code, tuple(gradients))]
    reasons = {**dict.fromkeys(shared, "used by several parts of a step"), **code.keep_reasons}
    return [
        GradientBucket(_part(part, reasons, f"{elaborated.name} part {number}"), tuple(group))
        for number, (part, group) in enumerate(zip(parts, groups, strict=True), 1)
    ]


def _groups(slicer: Slicer, gradients: Sequence[Tensor], bucket_bytes: int) -> list[list[Tensor]]:
    groups: list[list[Tensor]] = [[]]
    size_bytes = 0
    for gradient in sorted(gradients, key=lambda gradient: slicer.count(gradient.node)):
        if size_bytes >= bucket_bytes:
            groups.append([])
            size_bytes = 0
        groups[-1].append(gradient)
        size_bytes += _size_bytes(gradient.node)
    return groups


def _size_bytes(node: TNode) -> int:
    return math.prod(node.dims, start=node.precision.nbytes)


def _shared(parts: Iterable[Comp]) -> list[TNode]:
    """The nodes of several parts."""
    seen: set[TNode] = set()
    shared: dict[TNode, None] = {}
    for part in parts:
        accessed = nodes(part)
        shared.update((node, None) for node in accessed if node in seen)
        seen.update(accessed)
    return list(shared)


def _part(comp: Comp, reasons: dict[TNode, str], title: str) -> Code:
    accessed = set(nodes(comp))
    return titled(title, Code((lambda: [comp],), {node: why for node, why in reasons.items() if node in accessed}))
