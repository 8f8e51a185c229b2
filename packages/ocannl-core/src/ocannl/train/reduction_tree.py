"""The binary tree in which replicas are added."""

from __future__ import annotations


def reduction_tree(count: int) -> list[tuple[int, int]]:
    """Pairs `(target, source)` of a binary tree reduction to number 0, by level: `(0, 1), (2, 3), ..., (0, 2), ...`.

    The tree has `ceil(log2(count))` levels; the pairs of one level are independent.
    """
    edges, stride = [], 1
    while stride < count:
        edges += [(n, n + stride) for n in range(0, count - stride, 2 * stride)]
        stride *= 2
    return edges
