"""Oracles for programs in the user's language: NumPy, finite differences, and evaluation of their code."""

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


class Failure(AssertionError):
    """A wrong result or an exception; failures of one `kind` most likely have the same cause."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class OracleCase:
    """A program as tensors, the code of one call, and the expected values after each call; `updated` are its states."""

    built: Built
    kind: str
    calls: Sequence[Mapping[str, int]]
    updated: frozenset[str]
    code: Elaborated
    wants: Sequence[Mapping[TNode, Array]]

    def symbols(self, call: Mapping[str, int]) -> dict[str, int]:
        """The values of the symbols that the code mentions."""
        used = {sym.name for sym in canonical(self.code.comp, {}).statics}
        return {name: value for name, value in call.items() if name in used}


def oracle_case(program: Program, kind: str) -> OracleCase:
    """Raises `Failure` if building the program fails, or if an inferred shape is wrong."""
    try:
        return case_by_evaluation(program.build(kind), kind, program.calls, {line.name for line in program.updates})
    except Exception as refused:  # a generated program finds defects of any kind
        raise Failure(type(refused).__name__, f"{type(refused).__name__}: {refused}") from refused


def case_by_evaluation(
    built: Built, kind: str, calls: Sequence[Mapping[str, int]], updated: Iterable[str]
) -> OracleCase:
    code = grad_update(built.loss)
    elaborated = (code if built.update is None else seq(code, built.update)).elaborate()
    arrays, wants = {**constants(elaborated.comp), **built.arrays}, []
    for call in calls:
        wants.append(evaluate(elaborated.comp, arrays, built.statics(call)))
        arrays = {node: wants[-1].get(node, array) for node, array in arrays.items()}
    return OracleCase(built, kind, calls, frozenset(updated), elaborated, wants)


def constants(code: Comp) -> dict[TNode, Array]:
    """The values of constants in expressions, and the initial values of states."""
    data = [(node, node.contents) for node in nodes(code) if node.role in (Role.DATA, Role.STATE)]
    return {
        node: np.array(contents.array(node.dims, node.precision, SEED.get())).reshape(node.dims)
        for node, contents in data
        if contents
    }


def differs(got: Array, want: Array, node: TNode, kind: str) -> bool:
    """Whether arrays differ by more than the tolerance of their types, relative to the largest element."""
    close = max(CLOSE[kind], CLOSE.get(node.precision.name, 0.0))
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    scale = max(1.0, float(np.abs(want).max(initial=0)))
    return got.shape != want.shape or not bool(np.all(np.abs(got - want) <= close * scale))


def compare_values(program: Program, case: OracleCase) -> Failure | None:
    """Compares every line and every state with NumPy, after each call."""
    for number, (computed, want) in enumerate(zip(case.wants, program.runs(), strict=True)):
        for name, meaning in want.items():
            tensor = case.built.tensors.get(name)
            node = tensor.node if tensor is not None else None
            if node is not None and node in computed and differs(computed[node], meaning, node, case.kind):
                return Failure("value", f"`{name}` after call {number} is {computed[node]}, and should be {meaning}")
    return None


def compare_gradients(program: Program, case: OracleCase) -> Failure | None:
    """Compares the gradients of the first call with slopes, unless there are ties at a maximum."""
    for name in program.params if program.smooth else ():
        direction = np.asarray(np.random.default_rng(0).normal(size=program.data[name].shape))
        node = case.built.tensors[name].grad.node  # type: ignore[union-attr]
        gradient = np.asarray(case.wants[0].get(node, np.zeros(direction.shape)), np.float64)
        computed, measured = float((gradient * direction).sum()), program.slope({name: direction})
        largest = max(1.0, abs(measured), float(np.abs(gradient).max(initial=0)))
        if not abs(computed - measured) <= max(1e-6, CLOSE[node.precision.name]) * largest:
            return Failure("gradient", f"`{name}.grad` gives a slope of {computed} for {measured}")
    return None


def is_differentiable(program: Program) -> bool:
    """Whether the loss is smooth in the parameters, and gradients flow through all of it."""
    return program.smooth and not any(word in program.text for word in ("stop_gradient", "no_grad"))


def check_gradients(program: Program) -> Failure | None:
    """Compares every entry of every gradient with finite differences; see `is_differentiable`."""
    try:
        gradcheck(program.function, *program.arguments)
    except GradientMismatch as off:
        return Failure("gradient", str(off))
    return None


def compare_backend(
    cases: Sequence[OracleCase], backend: str, threads: int = 1, queue: str = "inline", verify: str = "every"
) -> list[Failure | None]:
    """Runs programs of one type, compiled together, on a backend, and returns the failure of each."""
    with settings(cache=False, verify=verify, on_defect="raise"), Context(backend, threads=threads, queue=queue) as ctx:
        try:
            routines = ctx.compile_all([_Code(case.code) for case in cases], [t for c in cases for t in _kept(c)])
        except Exception as refused:  # as above
            if len(cases) > 1:
                return [compare_backend([case], backend, threads, queue, verify)[0] for case in cases]
            return [Failure(type(refused).__name__, f"{backend} {type(refused).__name__}: {refused}")]
        return [_run(ctx, case, routine) for case, routine in zip(cases, routines, strict=True)]


@dataclass(frozen=True)
class _Code:
    """Elaborated code, in the form that contexts compile."""

    elaborated: Elaborated

    def elaborate(self) -> Elaborated:
        return self.elaborated


def _kept(case: OracleCase) -> list[Tensor]:
    """The tensors to compare: the loss, states, gradients of leaves; for a third of the programs, all named tensors."""
    built, mentioned = case.built, case.wants[0]
    is_complete = len(built.tensors) % 3 == 0
    states = [t for name, t in built.tensors.items() if name in case.updated]
    tensors = [t for t in built.tensors.values() if is_complete or t.node in built.arrays]
    gradients = [t.grad for t in tensors if t.grad is not None and t.grad.node in mentioned]
    values = [t for t in tensors if t.node in mentioned and t.node not in built.arrays]
    return [*gradients, *values, *states, built.loss]


def _run(ctx: Context, case: OracleCase, routine: object) -> Failure | None:
    built = case.built
    try:
        for t in built.tensors.values():
            if t.node in built.arrays and (t.node.role.value != "data"):
                ctx[t] = built.arrays[t.node]
        for number, (call, want) in enumerate(zip(case.calls, case.wants, strict=True)):
            routine(**case.symbols(call))  # type: ignore[operator]
            for t in _kept(case):
                if differs(got := ctx[t], want[t.node], t.node, case.kind):
                    message = f"`{t.label}` after call {number} is {got}, and should be {want[t.node]}"
                    return Failure("disagreement", f"{ctx.backend.name}: {message}")
    except Exception as failed:  # as above
        return Failure(type(failed).__name__, f"{ctx.backend.name} {type(failed).__name__}: {failed}")
    return None
