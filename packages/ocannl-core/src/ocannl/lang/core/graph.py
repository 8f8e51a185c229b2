"""Walks over the graph of tensors, and the code they collect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ocannl.base.errors import CodeError
from ocannl.infer.logic import pointwise
from ocannl.infer.project import project
from ocannl.infer.shape import finish
from ocannl.ir.assign import Assign, Number
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core.fill import fill
from ocannl.lang.core.paths import unique
from ocannl.lang.core.random import Draw, Stream, part
from ocannl.lang.core.slots import SlotAssign, elaborate
from ocannl.lang.core.terms import Hole
from ocannl.lang.record.code import Code, Step

if TYPE_CHECKING:
    from ocannl.lang.core.tensor import Tensor


def ancestors(roots: Iterable[Tensor], within: Callable[[Tensor], bool] = lambda t: True) -> list[Tensor]:
    """The roots and everything they depend on, operands before results, each once; `within` says where to go."""
    done: dict[Tensor, None] = {}
    for root in roots:
        stack: list[tuple[Tensor, Iterator[Tensor]]] = [(root, _operands(root))]
        open_ = {root}
        while stack:
            tensor, left = stack[-1]
            step = next((t for t in left if t not in done and t not in open_ and within(t)), None)
            if step is None:
                stack.pop()
                done.setdefault(tensor)
            else:
                open_.add(step)
                stack.append((step, _operands(step)))
    return list(done)


def _operands(t: Tensor) -> Iterator[Tensor]:
    return iter(() if t.application is None else t.application.operands)


def parameters(*roots: Tensor) -> Mapping[str, Tensor]:
    """Parameters by path, in order of creation; a repeated path gets `_2`, `_3`, ..."""
    found = sorted((t for t in ancestors(roots) if t.is_parameter), key=lambda t: t.node.id)
    return unique({t: t.path or t.label for t in found})


def forward(*roots: Tensor) -> Code:
    """The code that computes the roots; what they share is computed once. The roots are kept."""
    found = ancestors(roots)
    part(t.node.contents for t in found if isinstance(t.node.contents, Stream))
    steps: list[Step] = [
        t.value_code for t in found if t.application is not None or (t.literal is not None and t in roots)
    ]
    return Code(tuple(steps), {t.node: "forward was asked for" for t in roots})


def backprop(root: Tensor) -> Code:
    if not root.has_gradient:
        raise CodeError(f"`{root.label}` has no gradient: it depends on no parameter, or was built inside oc.no_grad()")
    reached = ancestors([root], lambda t: t.has_gradient)  # not what is only behind a stop: its gradient is nobody's
    return Code(tuple(t.gradient_code for t in reversed(reached) if t.application))


def zero_grads(root: Tensor) -> Code:
    return Code(tuple(t.zero_gradient for t in ancestors([root]) if t.has_gradient))


def init_params(*roots: Tensor) -> Code:
    """Initial values of all parameters of the roots."""
    return init_code(parameters(*roots))


def init_code(params: Mapping[str, Tensor]) -> Code:
    """Initial values of the given parameters; those given by contents need no code and are set when code is linked."""
    code: list[Step] = []
    asked: dict[TNode, str] = {}
    for path, p in needed(params).items():
        if isinstance(p.initial, int | float):
            code.append(_filling(p, p.initial))
        else:
            expression = [] if p.initial is None else ancestors([p.initial])
            key_streams([p, *expression], path)
            code.extend(_initially(t) for t in expression if t.application is not None)
            if p.initial is not None:
                code.append(_copying(p, p.initial))
        asked[p.node] = "parameter"
    return Code(tuple(code), asked)


def needed(params: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The parameters, each after those that its initial value depends on."""
    order: dict[Tensor, str] = {}
    stack = [(path, p, False) for path, p in reversed(list(params.items()))]
    while stack:
        path, p, ready = stack.pop()
        if ready or p in order:
            order.setdefault(p, path)
            continue
        stack.append((path, p, True))
        if p.initial is not None and not isinstance(p.initial, int | float):
            stack.extend((t.path or t.label, t, False) for t in ancestors([p.initial]) if t.is_parameter)
    return unique(order)


def key_streams(tensors: Iterable[Tensor], path: str) -> None:
    """Random leaves draw from the stream named by a parameter's path and their ordinal in its initial value."""
    drawn = [c for c in (t.node.contents for t in tensors) if isinstance(c, Draw | Stream)]
    for ordinal, contents in enumerate(drawn):
        contents.key_by(path, ordinal)


def _initially(t: Tensor) -> Step:
    """What counts calls stands at the first one, however often values are initialized."""
    return _filling(t, 0) if t.node.role is Role.STATE else t.value_code


def _filling(p: Tensor, value: float) -> Step:
    return lambda: (fill(p.node, p.dims, Number(value), p.origin),)


def _copying(p: Tensor, initial: Tensor) -> Step:
    def step() -> Iterable[Assign]:
        finish(p.handle)
        projections = project(pointwise(1), [initial.handle], p.handle)
        value = Hole(initial.node, 1) if initial.literal is None else initial.literal()
        return elaborate([SlotAssign(Hole(p.node, 0), None, True, (value,))], projections, None, p.origin)

    return step
