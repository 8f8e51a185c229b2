"""Oracles of values and gradients, computed with NumPy; each returns a failure, or an empty text."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np

import ocannl as oc
from ocannl import train
from ones.build import Built, ask, build
from ones.program import Leaf, Program
from ones.rows import Rows
from ones.spec_semantics import Array


def arrays_of(program: Program) -> dict[str, Array]:
    return {leaf.name: leaf.array for leaf in program.leaves}


def finite(x: Array) -> bool:
    return bool(np.all(np.isfinite(x))) and bool(np.all(np.abs(x) < 1e6))


def run(program: Program, built: Built, backend: str, code: object, keep: list[oc.Tensor]) -> oc.Context:
    """A context in which code has run, from the cells of the leaves."""
    ctx = oc.Context(backend)
    routine = ctx.compile(code, keep=keep)  # type: ignore[arg-type]
    for leaf in program.leaves:
        if leaf.role != "data" and not leaf.is_open:
            ctx[built.tensors[leaf.name]] = leaf.array
    routine()
    return ctx


def computes_numpy(program: Program, random: Random, backend: str = "numpy") -> str:
    """Every value is NumPy's, with the foreign statements beside it."""
    built, related = build(program, values=True), program.own
    wants = related.values(arrays_of(related))
    names = [s.name for s in related.lines if not s.rule and finite(wants[s.name]) and s.name in built.tensors]
    names = [name for name in names if ask(name, built) is not None and wants[name].size]
    if not names:
        return ""
    tensors = [built.tensors[name] for name in names]
    ctx = run(program, built, backend, oc.forward(*tensors), tensors)
    for name, tensor in zip(names, tensors, strict=True):
        value, want = np.asarray(ctx[tensor], np.float64), np.asarray(wants[name])
        if value.shape != want.shape or not np.allclose(value, want, rtol=1e-4, atol=1e-4 * max(1, np.abs(want).max())):
            return f"`{name}` is {value}, and should be {want}"
    return ""


def counts_cells_once(program: Program, random: Random, backend: str = "numpy") -> str:
    """The gradient of a weighted sum of what nothing uses, along a random direction, is the slope that NumPy has."""
    program = program.own
    params = [leaf for leaf in program.leaves if leaf.role == "param" and leaf.array.size]
    lines = [line for line in program.lines if not line.rule]
    used = {name for line in lines for name in line.operands}
    arrays = arrays_of(program)
    wants = program.values(arrays)
    ends = [line.name for line in lines if line.name not in used and finite(wants[line.name])]
    if not params or not ends:
        return ""
    weights = {name: np.random.default_rng(n).uniform(0.5, 1, wants[name].shape) for n, name in enumerate(ends)}
    built = build(program, values=True)
    if built.refused.keys() & set(ends):
        return ""
    loss = sum((built.tensors[n] * oc.tensor(w, **axes_of(program.by_name[n].rows))).sum() for n, w in weights.items())
    assert isinstance(loss, oc.Tensor)
    if loss.grad is None:
        return ""
    reached = [leaf for leaf in params if built.tensors[leaf.name] in loss.params.values()]
    gradients = [built.tensors[leaf.name].grad for leaf in reached]
    ctx = run(program, built, backend, train.grad_update(loss), [*gradients, loss])

    def total(moved: dict[str, Array]) -> float:
        values = program.values(arrays | moved)
        return sum(float((values[name] * w).sum()) for name, w in weights.items())

    for leaf, gradient in zip(reached, gradients, strict=True):
        direction = np.random.default_rng(1).uniform(-1, 1, leaf.array.shape)

        def along(t: float, leaf: Leaf = leaf, direction: Array = direction) -> float:
            return total({leaf.name: leaf.array + t * direction})

        slopes = [slope(along, h) for h in (1e-4, 3e-4)]
        if abs(slopes[0] - slopes[1]) > 1e-6 * max(1, abs(slopes[0])):
            continue  # a kink
        computed = float((np.asarray(ctx[gradient], np.float64) * direction).sum())
        if abs(computed - slopes[0]) > 2e-3 * max(1.0, abs(slopes[0]), abs(computed)):
            return f"`{leaf.name}.grad` gives a slope of {computed}, and should give {slopes[0]}"
    return ""


def axes_of(rows: Rows) -> dict[str, int]:
    return {"batch_axes": len(rows[0]), "input_axes": len(rows[1])}


def slope(f: Callable[[float], float], h: float) -> float:
    return (f(h) - f(-h)) / (2 * h)
