"""Traversals of the tensor graph, and the code they collect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import TypeVar, cast

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
from ocannl.lang.record.code import Code, Step

T = TypeVar("T", bound=TensorLike)

def ancestors(roots: Iterable[T], include: Callable[[T], bool] = lambda t: True) -> list[T]:
    """The roots and their transitive operands in topological order, by depth-first search without recursion.

    Operands that do not satisfy `include` are not visited.
    """
    finished: dict[T, None] = {}
    for root in roots:
        stack: list[tuple[T, Iterator[T]]] = [(root, _operands(root))]
        visited = {root}
        while stack:
            tensor, operands = stack[-1]
            operand = next((t for t in operands if t not in finished and t not in visited and include(t)), None)
            if operand is None:
                stack.pop()
                finished.setdefault(tensor)
            else:
                visited.add(operand)
                stack.append((operand, _operands(operand)))
    return list(finished)


def _operands(t: T) -> Iterator[T]:
    return iter(() if t.application is None else cast("tuple[T, ...]", t.application.operands))


def parameters(*roots: T) -> Mapping[str, T]:
    """All parameters by path, in order of creation; a repeated path gets `_2`, `_3`, ..."""
    return _by_path(ancestors(roots))


def differentiable_parameters(root: T) -> Mapping[str, T]:
    """The parameters that gradients of the root reach: not behind a stop_gradient, or what was built inside no_grad."""
    return _by_path(ancestors([root], lambda t: t.has_gradient) if root.has_gradient else [])


def _by_path(tensors: Iterable[T]) -> Mapping[str, T]:
    leaves = sorted((t for t in tensors if t.is_parameter), key=lambda t: t.node.id)
    return unique({t: t.path or t.label for t in leaves})


def forward(*roots: TensorLike) -> Code:
    """The code that computes the roots, which are kept; every shared tensor is computed once."""
    tensors = ancestors(roots)
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
