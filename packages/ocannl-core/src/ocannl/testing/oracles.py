"""Judges of programs in the user's language: NumPy, finite differences, and for backends the oracle of computations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ocannl.base.config import SEED, settings
from ocannl.ir.assign import Comp, nodes
from ocannl.ir.canon import canonical
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.record.code import Elaborated, seq
from ocannl.runtime.context import Context
from ocannl.testing.evaluate import evaluate
from ocannl.testing.gradients import GradientMismatch, gradcheck
from ocannl.testing.program import Built, Program
from ocannl.testing.random_einsums import Array
from ocannl.train.step import grad_update

CLOSE = {"bfloat16": 5e-2, "float32": 2e-4, "float64": 1e-9}


class Wrong(AssertionError):
    """What a judge has against a program; of one `kind` is what has the same cause, most likely."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.kind = kind


@dataclass(frozen=True)
class Judged:
    """A program as tensors, the code of one call, and what the oracle makes of each; `updated` are its states."""

    built: Built
    kind: str
    calls: Sequence[Mapping[str, int]]
    updated: frozenset[str]
    code: Elaborated
    wants: Sequence[Mapping[TNode, Array]]

    def symbols(self, call: Mapping[str, int]) -> dict[str, int]:
        """Of those that the code mentions."""
        used = {sym.name for sym in canonical(self.code.comp, {}).statics}
        return {name: value for name, value in call.items() if name in used}


def judged(program: Program, kind: str) -> Judged:
    """Raises `Wrong` where the language refuses the program, or infers other shapes."""
    try:
        return by_the_oracle(program.build(kind), kind, program.calls, {line.name for line in program.updates})
    except Exception as refused:
        raise Wrong(type(refused).__name__, f"{type(refused).__name__}: {refused}") from refused


def by_the_oracle(built: Built, kind: str, calls: Sequence[Mapping[str, int]], updated: Iterable[str]) -> Judged:
    code = grad_update(built.loss)
    elaborated = (code if built.update is None else seq(code, built.update)).elaborate()
    arrays, wants = {**constants(elaborated.comp), **built.arrays}, []
    for call in calls:
        wants.append(evaluate(elaborated.comp, arrays, built.statics(call)))
        arrays = {node: wants[-1].get(node, array) for node, array in arrays.items()}
    return Judged(built, kind, calls, frozenset(updated), elaborated, wants)


def constants(code: Comp) -> dict[TNode, Array]:
    """What is written into expressions."""
    data = [(node, node.contents) for node in nodes(code) if node.role is Role.DATA]
    return {node: held.array(node.dims, node.precision, SEED.get()).reshape(node.dims) for node, held in data if held}


def differs(got: Array, want: Array, node: TNode, kind: str) -> bool:
    """By more than the precision of the types tells, relative to the largest number of the array."""
    close = max(CLOSE[kind], CLOSE.get(node.precision.name, 0.0))
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    scale = max(1.0, float(np.abs(want).max(initial=0)))
    return got.shape != want.shape or not bool(np.all(np.abs(got - want) <= close * scale))


def values_are_right(program: Program, case: Judged) -> Wrong | None:
    """Every line is what NumPy makes of it, and so is every state, after each call."""
    for number, (mine, want) in enumerate(zip(case.wants, program.runs(), strict=True)):
        for name, meaning in want.items():
            tensor = case.built.tensors.get(name)
            node = tensor.node if tensor is not None else None
            if node is not None and node in mine and differs(mine[node], meaning, node, case.kind):
                return Wrong("value", f"`{name}` after call {number} is {mine[node]}, and should be {meaning}")
    return None


def gradients_are_slopes(program: Program, case: Judged) -> Wrong | None:
    """Gradients of the first call, where there are no ties at a maximum."""
    for name in program.params if program.smooth else ():
        direction = np.asarray(np.random.default_rng(0).normal(size=program.data[name].shape))
        node = case.built.tensors[name].grad.node  # type: ignore[union-attr]
        gradient = np.asarray(case.wants[0].get(node, np.zeros(direction.shape)), np.float64)
        computed, measured = float((gradient * direction).sum()), program.slope({name: direction})
        largest = max(1.0, abs(measured), float(np.abs(gradient).max(initial=0)))
        if not abs(computed - measured) <= max(1e-6, CLOSE[node.precision.name]) * largest:
            return Wrong("gradient", f"`{name}.grad` gives a slope of {computed} for {measured}")
    return None


def is_free(program: Program) -> bool:
    """Whether values meet no kink, and none stays as it is when parameters move."""
    return program.smooth and not any(word in program.text for word in ("stop_gradient", "no_grad"))


def gradients_check(program: Program) -> Wrong | None:
    """Every entry of every gradient is what `gradcheck` measures, if the program is free to move."""
    try:
        gradcheck(program.function, *program.arguments)
    except GradientMismatch as off:
        return Wrong("gradient", str(off))
    return None


def backends_agree(
    cases: Sequence[Judged], backend: str, threads: int = 1, queue: str = "inline", verify: str = "every"
) -> list[Wrong | None]:
    """What is wrong with each of some programs of one type, compiled in one run of the compiler."""
    with settings(cache=False, verify=verify), Context(backend, threads=threads, queue=queue) as ctx:
        try:
            routines = ctx.compile_all([_Code(case.code) for case in cases], [t for c in cases for t in _kept(c)])
        except Exception as refused:
            if len(cases) > 1:
                return [backends_agree([case], backend, threads, queue, verify)[0] for case in cases]
            return [Wrong(type(refused).__name__, f"{backend} {type(refused).__name__}: {refused}")]
        return [_run(ctx, case, routine) for case, routine in zip(cases, routines, strict=True)]


@dataclass(frozen=True)
class _Code:
    """Code that has been elaborated already."""

    made: Elaborated

    def elaborate(self) -> Elaborated:
        return self.made


def _kept(case: Judged) -> list[Tensor]:
    """The loss, states and gradients of leaves; of one program in three, everything that has a name."""
    built, mentioned = case.built, case.wants[0]
    whole = len(built.tensors) % 3 == 0
    states = [t for name, t in built.tensors.items() if name in case.updated]
    looked_at = list(built.tensors.values()) if whole else [t for t in built.tensors.values() if t.node in built.arrays]
    gradients = [t.grad for t in looked_at if t.grad is not None and t.grad.node in mentioned]
    values = [t for t in looked_at if t.node in mentioned and t.node not in built.arrays]
    return [*gradients, *values, *states, built.loss]


def _run(ctx: Context, case: Judged, routine: object) -> Wrong | None:
    built = case.built
    try:
        for t in built.tensors.values():
            if t.node in built.arrays and (t.node.role.value != "data"):
                ctx[t] = built.arrays[t.node]
        for number, (call, want) in enumerate(zip(case.calls, case.wants, strict=True)):
            routine(**case.symbols(call))  # type: ignore[operator]
            for t in _kept(case):
                if differs(got := ctx[t], want[t.node], t.node, case.kind):
                    words = f"`{t.label}` after call {number} is {got}, and should be {want[t.node]}"
                    return Wrong("disagreement", f"{ctx.backend.name}: {words}")
    except Exception as failed:
        return Wrong(type(failed).__name__, f"{ctx.backend.name} {type(failed).__name__}: {failed}")
    return None
