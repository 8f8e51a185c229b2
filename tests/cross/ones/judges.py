"""What is to hold of every program; each judge returns what is wrong in words, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

import numpy as np
from ones.build import Built, ask, build, rows_of
from ones.program import Leaf, Line, Program, Statement
from ones.rows import RULES, Refused, Rows, show, sizes
from ones.spec_values import Array

import ocannl as oc
from ocannl import train

Judge = Callable[[Program, Random], str]


def differences(program: Program, built: Built) -> Iterator[str]:
    """Where shapes are not those of NumPy's rules, and what is refused though no rule does, or taken though one does."""
    for statement in program.statements:
        name = statement.name
        if name in built.refused:
            if not statement.rule:
                yield f"`{name}` is refused: {built.refused[name]}"
            elif not isinstance(built.refused[name], oc.ShapeError):
                yield f"`{name}` is refused by {built.refused[name]!r}, which is no ShapeError"
        elif name in built.tensors:
            dims = ask(name, built)
            if statement.rule:
                if dims is not None:
                    yield f"`{name}` is {show(rows_of(built.tensors[name]))}, though {RULES[statement.rule]}"
            elif dims is None:
                yield f"`{name}` cannot be asked: {built.asking[name]}"
            elif differs(rows_of(built.tensors[name]), statement.rows):
                yield f"`{name}` is {show(rows_of(built.tensors[name]))}, not {show(statement.rows)}"


def differs(rows: Rows, expected: Rows) -> bool:
    """In size, or in a unit that NumPy's rules hand on; what has none may take it from what it meets."""
    return any(
        len(row) != len(like) or any(a.size != b.size or b.unit not in (None, a.unit) for a, b in zip(row, like, strict=True))
        for row, like in zip(rows, expected, strict=True)
    )


def follows_numpy(program: Program, random: Random) -> str:
    """Every shape is that of NumPy's rules."""
    return next(differences(program, build(program)), "")


def is_prompt(program: Program, random: Random) -> str:
    """A shape is there as soon as those of the operands are, and what is refused is refused where it is written."""
    built = build(program)
    for name, statement in program.by_name.items():
        if name in built.tensors:
            shape = built.tensors[name].known_shape
            if "?" in shape or "..." in shape:
                return f"`{name}` is {shape} though its operands are there"
            if statement.rule:
                return f"`{name}` is {shape}, though {RULES[statement.rule]}"
    return ""


def ignores_order(program: Program, random: Random) -> str:
    """Another order of statements, and shapes that are asked at other places, change nothing."""
    shuffled = program.reordered(random).asking(random, random.choice((0.0, 0.2, 0.8)))
    wrong = next(differences(shuffled, build(shuffled)), "")
    return f"{wrong}\nin the order\n{shuffled}" if wrong else ""


def is_isolated(program: Program, random: Random) -> str:
    """Statements that share no open leaf with the others change no shape of these."""
    return next(differences(program.own, build(program)), "")


# --- values and gradients ---


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
    built, own = build(program, values=True), program.own
    wants = own.values(arrays_of(own))
    names = [s.name for s in own.lines if not s.rule and finite(wants[s.name]) and s.name in built.tensors]
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
    reached = [leaf for leaf in params if built.tensors[leaf.name] in loss.params.values()]
    gradients = [built.tensors[leaf.name].grad for leaf in reached]
    ctx = run(program, built, backend, train.grad_update(loss), [*gradients, loss])

    def total(moved: dict[str, Array]) -> float:
        values = program.values(arrays | moved)
        return sum(float((values[name] * w).sum()) for name, w in weights.items())

    for leaf, gradient in zip(reached, gradients, strict=True):
        direction = np.random.default_rng(1).uniform(-1, 1, leaf.array.shape)
        slopes = [slope(lambda t, leaf=leaf, d=direction: total({leaf.name: leaf.array + t * d}), h) for h in (1e-4, 3e-4)]
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


# --- open leaves ---


@dataclass(frozen=True)
class Outcome:
    """The shapes of all tensors, or the first error."""

    rows: dict[str, Rows]
    error: oc.OcannlError | None = None

    @property
    def sizes(self) -> object:
        """What is to be the same: all but units, which come from any use, and the words of an error."""
        return "refused" if self.error else {name: list(map(sizes, rows)) for name, rows in self.rows.items()}


def outcome(program: Program) -> Outcome:
    """Shapes that are refused where the program asks early may be there at its end."""
    built = build(program, until_refused=True)
    error = next(iter(built.refused.values()), None)
    if error is None:
        built.asking.clear()
        error = next((built.asking[name] for name in built.tensors if ask(name, built) is None), None)
    return Outcome({} if error else {name: rows_of(t) for name, t in built.tensors.items()}, error)


def is_least(program: Program, random: Random) -> str:
    """Every result is what NumPy's rules make of the leaves' shapes that inference has chosen."""
    rows = outcome(program).rows
    if not rows:
        return ""
    leaves = {leaf.name: rows[leaf.name] for leaf in program.leaves}
    for leaf in program.leaves:
        for kind in {0, 1, 2} - leaf.hidden:
            if [a.size for a in leaves[leaf.name][kind]] != [a.size for a in leaf.rows[kind]]:
                return f"`{leaf.name}` is {show(leaves[leaf.name])}, though it is given as {leaf.text}"
    try:
        for line, expected in program.shapes(leaves):
            if differs(rows[line.name], expected):
                operands = ", ".join(f"`{name}` of {show(rows[name])}" for name in line.operands)
                return f"`{line.name}` is {show(rows[line.name])}, and {operands} make it {show(expected)}"
    except Refused as refused:
        return f"inference takes {shown(rows)}, though {refused}"
    return ""


def shown(rows: dict[str, Rows]) -> str:
    return ", ".join(f"{name}: {show(r)}" for name, r in rows.items())


def ignores_order_of_open(program: Program, random: Random) -> str:
    """Any topological order gives the same shapes, or an error."""
    first = outcome(program)
    for _ in range(2):
        shuffled = program.reordered(random)
        second = outcome(shuffled)
        if second.sizes != first.sizes:
            return f"{told(first)}\nbut {told(second)} in the order\n{shuffled}"
    return ""


def told(result: Outcome) -> str:
    return f"refused: {result.error}" if result.error else shown(result.rows)


def asking_commits(program: Program, random: Random) -> str:
    """A shape that was asked early stays what it was; what contradicts it later is an error that names it, and all
    results are still the least."""
    eager = program.asking(random, random.choice((0.1, 0.3)))
    built = build(eager, until_refused=True)
    for name, error in built.refused.items():
        if outcome(program).error is None and not any(f"`{asked}`" in str(error) for asked in built.answers):
            return f"`{name}` is refused: {error}\nnames none of {sorted(built.answers)} in\n{eager}"
    if built.refused:
        return ""
    for name, dims in built.answers.items():
        if built.tensors[name].dims != dims:
            return f"`{name}` was {dims}, and is {built.tensors[name].dims} in\n{eager}"
    wrong = is_least(eager, random)
    return f"{wrong}\nin\n{eager}" if wrong else ""


def is_isolated_with_open(program: Program, random: Random) -> str:
    """Foreign statements change no shape of the others, where some leaves are open, too."""
    first, built = outcome(program.own), build(program)
    if first.error:
        return ""
    for name, rows in first.rows.items():
        if name in built.refused:
            return f"`{name}` is refused: {built.refused[name]}"
        if ask(name, built) is None:
            return f"`{name}` cannot be asked: {built.asking[name]}"
        beside = rows_of(built.tensors[name])
        if list(map(sizes, beside)) != list(map(sizes, rows)):
            return f"`{name}` is {show(beside)}, and alone {show(rows)}"
    return ""


KNOWN: tuple[Judge, ...] = (follows_numpy, is_prompt, ignores_order, is_isolated)
OPEN: tuple[Judge, ...] = (is_least, ignores_order_of_open, asking_commits, is_isolated_with_open)
VALUES: tuple[Judge, ...] = (computes_numpy, counts_cells_once)


def is_leaf(statement: Statement) -> bool:
    return isinstance(statement, Leaf)


__all__ = ["KNOWN", "OPEN", "VALUES", "Judge", "replace"]
