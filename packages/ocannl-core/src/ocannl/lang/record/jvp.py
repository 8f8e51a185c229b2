"""`oc.jvp`: directional derivatives of tensors and of code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, overload

from ocannl.base.errors import CodeError
from ocannl.infer.logic import pointwise
from ocannl.ir.assign import NOWHERE, Comp, Conditional, Loop, Number, Seq
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core import dtype_inference, graph
from ocannl.lang.core.applied_operation import Application
from ocannl.lang.core.context_vars import noted_constants, site
from ocannl.lang.core.fill import fill
from ocannl.lang.core.leaf_constructors import embed
from ocannl.lang.core.operation import Operation, Rule
from ocannl.lang.core.tensor import Tensor, use_site
from ocannl.lang.core.training_mode import in_current_mode
from ocannl.lang.record.code import Code, Heading
from ocannl.lang.record.statement import Statement
from ocannl.lang.record.tangents import Differentiation

Directions = Mapping[Tensor, object]


@overload
def jvp(of: Tensor, tangents: Directions) -> Tensor: ...
@overload
def jvp(of: Code, tangents: Directions) -> DifferentiatedCode: ...
def jvp(of: Tensor | Code, tangents: Directions) -> Tensor | DifferentiatedCode:
    """The directional derivative of a tensor, or of everything that code writes (forward-mode differentiation).

    `tangents` maps tensors to their tangents: the direction, of the same shape. Other leaves are constants. For a
    tensor, the result is its tangent, a tensor without a gradient. For code, the result is the code with the
    assignments of all tangents, and `result[t]` is the tangent of `t` after it: that of a gradient `w.grad` is a
    product of the Hessian with the direction.

    Shapes: that of the tensor.
    Grad:   none; differentiate code that computes gradients instead.
    Raises: CodeError for host calls, and for tensors with loops, whose code can be differentiated; ShapeError.
    Source: Pearlmutter 1994.
    """
    for t in tangents:
        if not isinstance(t, Tensor) or t.literal is not None or not t.typing.is_float:
            raise CodeError(f"oc.jvp differentiates by float tensors, not by {t!r}"[:200])
    directions = {t: embed(direction) for t, direction in tangents.items()}
    if isinstance(of, Code):
        return DifferentiatedCode(of, directions)
    if not isinstance(of, Tensor):
        raise CodeError(f"oc.jvp takes a tensor or code, not {of!r}"[:200])
    return _tangent_tensor(of, directions)


class DifferentiatedCode(Code):
    """Code with the assignments of tangents; indexed by a tensor, the tangent of the tensor after the code."""

    __slots__ = ("_code", "_directions", "_kept", "_tangents")

    def __init__(self, code: Code, directions: Mapping[Tensor, Tensor]) -> None:
        self._code = code
        self._directions = directions
        self._tangents: dict[TNode, Tensor] = {}
        self._kept = dict(code.keep_reasons)
        copies = [_copy(self[t], direction) for t, direction in directions.items()]
        computed = graph.forward(*(d for d in directions.values() if d.literal is None)).items
        super().__init__((Heading(self._title, Code((*computed, *copies, self._step))),), self._kept)

    def __getitem__(self, t: Tensor) -> Tensor:
        if not isinstance(t, Tensor) or not t.typing.is_float:
            raise CodeError(f"a tangent is that of a float tensor, not of {t!r}"[:200])
        if t.node not in self._tangents:
            self._tangents[t.node] = _like(t)
        self._kept[self._tangents[t.node].node] = "tangent of oc.jvp"
        return self._tangents[t.node]

    def _title(self) -> str:
        return f"{self._code.elaborate().name or 'code'} jvp"

    def _step(self) -> Iterator[Comp]:
        with noted_constants() as constants:
            code = self._code.elaborate().comp
        result = _differentiated(code, self._directions, constants, {n: t.node for n, t in self._tangents.items()})
        yield from result


class TangentApplication(Application[Tensor]):
    """The computation of the tangent of `root`, from values that are computed before it."""

    __slots__ = ("copies", "directions", "root")

    def __init__(self, root: Tensor, directions: Mapping[Tensor, Tensor]) -> None:
        self.root = root
        self.directions = directions
        everything = graph.ancestors([root], lambda t: t not in directions, graph.all_operands)
        operands = (*everything, *directions.values())
        super().__init__(Operation("jvp", pointwise(len(operands)), _no_rule, None), operands, {})
        self.copies: list[tuple[Tensor, Statement]] = []

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors that the root depends on in the current training mode, up to the directions."""
        return graph.ancestors([self.root], lambda t: t not in self.directions)

    def code(self, result: Any, rule: Rule) -> Iterator[Comp]:
        tensors = self.tensors
        reached = set(tensors)
        with noted_constants() as constants:
            computed = [t for t in tensors if t.application is not None and t not in self.directions]
            code = Seq(tuple(statement for t in computed for statement in t.value_step(reached)()))
        if any(isinstance(item, Loop | Conditional) for item in code.items):
            raise CodeError(f"`{self.root.label}` depends on a loop: differentiate its code, by oc.jvp(t.forward, ...)")
        for _, copy in self.copies:
            yield from copy()
        initial_tangents = {t.node: tangent.node for (tangent, _), t in zip(self.copies, self.directions, strict=True)}
        stored = {t.node for t in tensors}
        initial_tangents.setdefault(self.root.node, result.node)
        yield from _differentiated(code, self.directions, constants, initial_tangents, lambda node: node not in stored)


class TangentTensor(Tensor):
    """The tangent of a tensor; its operands are those of the current training mode."""

    __slots__ = ()

    @property
    def active_operands(self) -> tuple[Tensor, ...]:
        assert isinstance(self.application, TangentApplication)
        return (*self.application.tensors, *self.application.directions.values())

    def value_step(self, reached: Set[Tensor]) -> Callable[[], Iterable[Comp]]:
        return in_current_mode(lambda: list(self.value_code()))


def _tangent_tensor(root: Tensor, directions: Mapping[Tensor, Tensor]) -> Tensor:
    application = TangentApplication(root, directions)
    typing = dtype_inference.gradient_dtype(root.typing)
    attributes = Role.RESULT, lambda: root.dims, lambda: typing.settle(use_site)
    name = site().name
    node = TNode(name or f"{root.label}.tangent", *attributes, where=site().where)
    tangent = TangentTensor(
        node, lambda _: root.emit(), typing.bind(node), is_named=bool(name), application=application
    )
    for t, direction in directions.items():
        target = tangent if t is root else _like(t)
        application.copies.append((target, _copy(target, direction)))
    return tangent


def _differentiated(
    code: Comp,
    directions: Mapping[Tensor, Tensor],
    constants: set[TNode],
    initial_tangents: Mapping[TNode, TNode],
    writes: Callable[[TNode], bool] = lambda node: True,
) -> Iterator[Comp]:
    """The code with tangents; those in `initial_tangents` that nothing depends on are zero."""
    tangents = dict(initial_tangents)

    def tangent_of(node: TNode) -> TNode:
        if node not in tangents:
            label, kind = f"{node.label}.tangent", node.precision
            tangents[node] = TNode(label, Role.RESULT, lambda: node.dims, lambda: kind, where=node.where)
        return tangents[node]

    result = Differentiation(code, {t.node for t in directions}, constants, tangent_of, writes)
    for node, tangent in initial_tangents.items():
        if node not in result.tangents:
            yield fill(tangent, node.dims, Number(0.0), NOWHERE)
    yield result.differentiated()


def _like(t: Tensor) -> Tensor:
    """A tensor of the shape and type of another, for its tangent."""
    typing = dtype_inference.gradient_dtype(t.typing)
    attributes = Role.RESULT, lambda: t.dims, lambda: typing.settle(use_site)
    node = TNode(f"{t.label}.tangent", *attributes, where=t.node.where)
    return Tensor(node, lambda _: t.emit(), typing.bind(node))


def _copy(target: Tensor, direction: Tensor) -> Statement:
    return Statement(target, None, True, lambda x: x, (direction,), pointwise(1), {}, site().where)


def _no_rule(slots: object) -> None:
    """The code of a tangent is that of `TangentApplication`."""
