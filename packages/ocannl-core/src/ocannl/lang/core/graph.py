"""Traversals of the tensor graph, and the code they collect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise
from typing import Any, TypeVar, cast

from ocannl.base.errors import CodeError
from ocannl.infer.logic import pointwise
from ocannl.infer.project import project
from ocannl.infer.shape import finish
from ocannl.ir.assign import Assign, Number
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core.fill import fill
from ocannl.lang.core.paths import unique
from ocannl.lang.core.random import RandomInitializer, Stream, assign_streams, numbered
from ocannl.lang.core.slots import SlotAssign, elaborate
from ocannl.lang.core.symbolic_terms import Hole
from ocannl.lang.core.tensor_protocol import TensorLike
from ocannl.lang.core.training_mode import mode_set
from ocannl.lang.record.code import Code, Step

T = TypeVar("T", bound=TensorLike)


def _active_operands(t: T) -> Iterable[T]:
    return cast("tuple[T, ...]", t.active_operands)


def all_operands(t: T) -> Iterable[T]:
    """The operands of all training modes."""
    return () if t.application is None else cast("tuple[T, ...]", t.application.operands)


def ancestors(
    roots: Iterable[T],
    include: Callable[[T], bool] = lambda t: True,
    operands: Callable[[T], Iterable[T]] = _active_operands,
) -> list[T]:
    """The roots and their transitive operands in topological order, by depth-first search without recursion.

    Operands that do not satisfy `include` are not visited. By default the operands are those of the training mode.
    """
    finished: dict[T, None] = {}
    for root in roots:
        stack: list[tuple[T, Iterator[T]]] = [(root, iter(operands(root)))]
        visited = {root}
        while stack:
            tensor, remaining = stack[-1]
            operand = next((t for t in remaining if t not in finished and t not in visited and include(t)), None)
            if operand is None:
                stack.pop()
                finished.setdefault(tensor)
            else:
                visited.add(operand)
                stack.append((operand, iter(operands(operand))))
    return list(finished)


def everything(roots: Iterable[T]) -> list[T]:
    """The ancestors of the roots in all training modes, and of the updates of states that run with them."""
    return _with_effects(roots, all_operands)


def _with_effects(
    roots: Iterable[T], operands: Callable[[T], Iterable[T]], include: Callable[[T], bool] = lambda t: True
) -> list[T]:
    reached = ancestors(roots := list(roots), include, operands)
    while effects := dict.fromkeys(e for t in reached for e in t.effects if include(e)).keys() - set(reached):
        roots += sorted(effects, key=_update_number)
        reached = ancestors(roots, include, operands)
    return reached


def in_execution_order(roots: Iterable[T], include: Callable[[T], bool] = lambda t: True) -> list[T]:
    """All that code of the roots computes in the current training mode, in topological order; only tensors that satisfy
    `include` are visited.

    The reads and updates of a state follow each other as they were written. This adds no cycles: an expression never
    depends on one that is written later.
    """
    reached = _with_effects(roots, _active_operands, include)
    before = _preceding_accesses(reached)
    if not before:
        return reached
    return ancestors(reached, include, lambda t: (*_active_operands(t), *before.get(t, ())))


def _preceding_accesses(tensors: Iterable[T]) -> Mapping[T, Sequence[T]]:
    """The accesses that come directly before, for each access of the states that are updated."""
    rows: dict[Any, list[tuple[Any, T]]] = {}
    for t in tensors:
        for access in t.accesses:
            rows.setdefault(access.state, []).append((access, t))
    before: dict[T, list[T]] = {}
    for row in rows.values():
        if any(access.is_update for access, _ in row):
            for (_, earlier), (_, later) in pairwise(sorted(row, key=lambda pair: pair[0].number)):
                before.setdefault(later, []).append(earlier)
    return before


def _update_number(update: TensorLike) -> int:
    assert update.state_access is not None
    return cast("int", update.state_access.number)


def parameters(*roots: T) -> Mapping[str, T]:
    """All parameters by path, in order of creation; a repeated path gets `_2`, `_3`, ..."""
    return _by_path(everything(roots))


def differentiable_parameters(root: T) -> Mapping[str, T]:
    """The parameters that gradients of the root reach in training: not behind a stop_gradient, or what was built inside
    no_grad."""
    with mode_set(True):
        return _by_path(ancestors([root], lambda t: t.has_gradient) if root.has_gradient else [])


def states(*roots: T) -> Mapping[str, T]:
    """All states of blocks by path, in order of creation."""
    leaves = {cast("T", t.state_access.state) for t in everything(roots) if t.state_access is not None}
    return unique({t: t.path or t.label for t in sorted(leaves, key=lambda t: t.node.id)})


def _by_path(tensors: Iterable[T]) -> Mapping[str, T]:
    leaves = sorted((t for t in tensors if t.is_parameter), key=lambda t: t.node.id)
    return unique({t: t.path or t.label for t in leaves})


def forward(*roots: TensorLike) -> Code:
    """The code that computes the roots, which are kept, and updates states; every shared tensor is computed once."""
    tensors = in_execution_order(roots)
    assign_streams(t.node.contents for t in tensors if isinstance(t.node.contents, Stream))
    reached = set(tensors)
    steps: list[Step] = [
        t.value_step(reached) for t in tensors if t.application is not None or (t.literal is not None and t in roots)
    ]
    return Code(tuple(steps), {t.node: "result of forward" for t in roots})


def backprop(root: TensorLike) -> Code:
    if not root.has_gradient:
        raise CodeError(f"`{root.label}` has no gradient: it depends on no parameter, or was built inside oc.no_grad()")
    tensors = ancestors([root], lambda t: t.has_gradient)  # not behind a stop_gradient
    reached = set(tensors)
    return Code(tuple(t.gradient_step(reached) for t in reversed(tensors) if t.application))


def zero_grads(root: TensorLike) -> Code:
    return Code(tuple(t.zero_gradient for t in ancestors([root]) if t.has_gradient))


def init_params(*roots: TensorLike) -> Code:
    """The code that computes the initial values of all parameters of the roots."""
    return init_code(parameters(*roots))


def init_code(params: Mapping[str, TensorLike]) -> Code:
    """The code that computes initial values of parameters; those with contents are filled at link time instead."""
    code: list[Step] = []
    keep_reasons: dict[TNode, str] = {}
    key_streams(params)
    for p in in_dependency_order(params).values():
        if isinstance(p.initial, int | float):
            code.append(_fill_step(p, p.initial))
        else:
            expression = [] if p.initial is None else ancestors([p.initial])
            reached = set(expression)
            code.extend(_initial_step(t, reached) for t in expression if t.application is not None)
            if p.initial is not None:
                code.append(_copy_step(p, p.initial))
        keep_reasons[p.node] = "parameter"
    return Code(tuple(code), keep_reasons)


def in_dependency_order(params: Mapping[str, TensorLike]) -> Mapping[str, TensorLike]:
    """The parameters in topological order: each one after those that its initial value reads."""
    order: dict[TensorLike, str] = {}
    stack: list[tuple[str, TensorLike, bool]] = [(path, p, False) for path, p in reversed(list(params.items()))]
    while stack:
        path, p, is_expanded = stack.pop()
        if is_expanded or p in order:
            order.setdefault(p, path)
            continue
        stack.append((path, p, True))
        if p.initial is not None and not isinstance(p.initial, int | float):
            stack.extend((t.path or t.label, t, False) for t in ancestors([p.initial]) if t.is_parameter)
    return unique(order)


def key_streams(params: Mapping[str, TensorLike]) -> None:
    """Keys every random leaf by the stream of its parameter and by its ordinal in the initial value.

    Parameters of one expression have different streams: names that several have are numbered in order of creation.
    """
    draws = {p: _random_contents(p) for p in in_dependency_order(params).values()}
    used = {contents.path for sources in draws.values() for contents in sources}
    for p, sources in draws.items():
        if any(contents.path is None for contents in sources):
            path = next(path for path in numbered(p.stream or p.label) if path not in used)
            used.add(path)
            for ordinal, contents in enumerate(sources):
                contents.set_stream(path, ordinal)


def _random_contents(p: TensorLike) -> list[RandomInitializer | Stream]:
    """The random leaves of a parameter and of its initial value."""
    tensors = [p, *([] if p.initial is None or isinstance(p.initial, int | float) else ancestors([p.initial]))]
    return [c for c in (t.node.contents for t in tensors) if isinstance(c, RandomInitializer | Stream)]


def _initial_step(t: TensorLike, reached: Set[TensorLike]) -> Step:
    """The step that computes an initial value; call counters restart at 0."""
    return _fill_step(t, 0) if t.node.role is Role.STATE else t.value_step(reached)


def _fill_step(p: TensorLike, value: float) -> Step:
    return lambda: (fill(p.node, p.dims, Number(value), p.origin),)


def _copy_step(p: TensorLike, initial: TensorLike) -> Step:
    def step() -> Iterable[Assign]:
        finish(p.handle)
        projections = project(pointwise(1), [initial.handle], p.handle)
        value = Hole(initial.node, 1) if initial.literal is None else initial.literal()
        return elaborate([SlotAssign(Hole(p.node, 0), None, True, (value,))], projections, None, p.origin)

    return step
