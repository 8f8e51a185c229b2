"""Copies of expressions in which some tensors are replaced. Shapes, types and gradients of copies are inferred anew.

Only what depends on a replaced tensor is copied; parameters, states and inputs are shared with the original.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from ocannl.base.errors import CodeError
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core import dtype_inference, graph
from ocannl.lang.core.applied_operation import Application
from ocannl.lang.core.branch_tensor import Branches, BranchTensor
from ocannl.lang.core.context_vars import CallSite, UserCall, enclosing_call, gradients_enabled
from ocannl.lang.core.loop_tensor import LoopTensor
from ocannl.lang.core.recomputed_tensor import RecomputedTensor
from ocannl.lang.core.region_tensor import RegionResult, RegionTensor
from ocannl.lang.core.tensor import Tensor, use_site
from ocannl.lang.core.traced_function import TracedFunction
from ocannl.lang.ops.control_flow import conditional_results, loop_results, restarted_carries
from ocannl.lang.ops.recomputation import recomputed_results
from ocannl.lang.record.states import StateRead, StateUpdate

Replacement = Tensor | Callable[[Callable[[Tensor], Tensor]], Tensor]
"""What takes the place of a tensor: another one, or a function that builds it. The function receives a function from
tensors of the original, computed before the replaced one, to those of the edited expression."""

T = TypeVar("T", bound=Tensor)


def rewritten(roots: Sequence[Tensor], replacements: Mapping[Tensor, Replacement]) -> tuple[Tensor, ...]:
    """The roots, with all consumers of the replaced tensors reading their replacements.

    Raises: ShapeError or DtypeError where a replacement does not fit a consumer; CodeError for consumers that cannot be
    copied.
    """
    tensors = graph.everything(roots)
    copied = _Copies()
    copied.replace_all(tensors, replacements, _affected(tensors, replacements))
    return tuple(copied[root] for root in roots)


def rewired(t: Tensor, inside: Iterable[Tensor], operand: Tensor, to: Tensor) -> Tensor:
    """A copy of a tensor and of those `inside` it, in topological order, that reads `to` in place of an operand."""
    copied = _Copies({operand: to.as_operand()})
    tensors = [*inside, t]
    copied.replace_all(tensors, {}, set(tensors))
    return copied[t]


def _affected(tensors: Sequence[Tensor], replaced: Collection[Tensor]) -> set[Tensor]:
    """The tensors that depend on a replaced one, those that run updates of states that do, and whatever belongs to the
    same calls of composite functions."""
    affected, size = set(replaced), -1
    while size != len(affected):
        size = len(affected)
        affected.update(t for t in tensors if not affected.isdisjoint((*graph.all_operands(t), *t.effects)))
        calls = {call_of(t) for t in affected.difference(replaced)} - {None}
        affected.update(t for t in tensors if call_of(t) in calls and t.node.role is Role.RESULT)
    return affected


def call_of(t: Tensor) -> UserCall | None:
    """The call of a composite function that a tensor belongs to."""
    text = t.provenance.text
    return text if isinstance(text, UserCall) and t.application is not None else None


class _Copies:
    """The tensors that take the place of others."""

    def __init__(self, new: Mapping[Tensor, Tensor] | None = None) -> None:
        self._new = dict(new or {})
        self._calls: dict[UserCall, UserCall] = {}
        self._results: dict[Tensor, list[Tensor]] = {}  # of copied loops and branches

    def __getitem__(self, t: Tensor) -> Tensor:
        return self._new.get(t, t)

    def all_of(self, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
        return tuple(self._new.get(t, t) for t in tensors)

    def replace_all(
        self, tensors: Sequence[Tensor], replacements: Mapping[Tensor, Replacement], affected: set[Tensor]
    ) -> None:
        """Replaces tensors and copies those affected, given in topological order."""
        for t in tensors:
            replacement = replacements.get(t)
            if isinstance(replacement, Tensor):
                self._new[t] = replacement.as_operand()
            elif replacement is not None:
                self._new[t] = replacement(self.__getitem__).as_operand()
            elif t in affected:
                self._new[t] = self._copy(t)
        for t in tensors:
            if t in affected and t not in replacements:
                self._new[t].effects = self.all_of(t.effects)
                self._new[t].counted = self.all_of(t.counted)

    def _copy(self, t: Tensor) -> Tensor:
        application = t.application
        assert application is not None
        if isinstance(t, RegionTensor):
            self._results[t] = results = self._region_results(t)
            applications = (result.application for result in results)
            return next((a.operands[0] for a in applications if a is not None), t)
        if isinstance(application, RegionResult):
            copy = self._results[application.operands[0]][application.number]
        elif isinstance(t, StateUpdate):
            copy = t.with_operands(self.all_of(application.operands))
        elif type(application) is Application:
            copy = self._applied(t, application)
        else:
            raise CodeError(f"`{t.label}` is a tangent of oc.jvp: edit the expression first, then differentiate it")
        copy.node.label, copy.is_named, copy.scope, copy.block_results = t.label, t.is_named, t.scope, t.block_results
        copy.node.violation = t.node.violation
        return copy

    def _applied(self, t: T, application: Application[Tensor]) -> T:
        """The operation of a tensor, applied to copies of its operands."""
        operands = self.all_of(application.operands)
        operation = application.operation
        typing = dtype_inference.result_dtype(operation, operands, False)
        if typing.current is not t.typing.current and all(
            new.typing.current is old.typing.current for new, old in zip(operands, application.operands, strict=True)
        ):
            typing.require(t.typing.current, f"`{t.label}`")  # by with_dtype
        was_disabled = any(o.has_gradient for o in application.operands) and not t.has_gradient
        is_differentiable = operation.gradient is not None and typing.is_float and any(o.has_gradient for o in operands)
        copy: T
        node = TNode(t.label, Role.RESULT, lambda: copy.dims, lambda: typing.settle(use_site), where=t.node.where)
        applied = Application(operation, operands, application.captures)
        token = enclosing_call.set(self._call(call_of(t)))
        try:
            copy = type(t)(
                node,
                applied.emit_constraints,
                typing.bind(node),
                application=applied,
                has_gradient=is_differentiable and not was_disabled and gradients_enabled.get(),
            )
        finally:
            enclosing_call.reset(token)
        if isinstance(t, StateRead):
            assert isinstance(copy, StateRead)
            copy.state_access = t.state_access
        return copy

    def _call(self, call: UserCall | None) -> UserCall | None:
        """The call that a copy belongs to: that of the original, with the copies among its arguments."""
        if call is None:
            return None
        if call not in self._calls:
            args = tuple(self._argument(argument) for argument in call.args)
            settings = {name: self._argument(value) for name, value in call.settings.items()}
            self._calls[call] = UserCall(call.function, args, settings)
        return self._calls[call]

    def _argument(self, value: object) -> object:
        if isinstance(value, list | tuple) and type(value) in (list, tuple):
            return type(value)(self._argument(item) for item in value)
        return self[value] if isinstance(value, Tensor) else value

    # --- loops and branches ---

    def _region_results(self, region: RegionTensor) -> list[Tensor]:
        """All results of a copy of a loop, of branches, or of a recomputed function."""
        call_site, name = CallSite(region.node.where, ""), region.label
        match region:
            case LoopTensor(body=body):
                initial = self.all_of(body.initial)
                carries = restarted_carries(body.carries, initial, call_site)
                inside = self._inside(dict(zip(body.carries, carries, strict=True)))
                step = inside._function(body.step)
                condition = None if body.condition is None else inside._function(body.condition)
                copy = replace(body, carries=carries, initial=initial, step=step, condition=condition, stacked=())
                return loop_results(name, copy, call_site)
            case BranchTensor(branches=Branches(condition, if_true, if_false)):
                functions = self._inside({})._function(if_true), self._inside({})._function(if_false)
                return conditional_results(Branches(self[condition], *functions), call_site)
            case RecomputedTensor(function=function):
                return recomputed_results(self._inside({})._function(function), call_site)
        raise AssertionError(type(region))

    def _inside(self, variables: Mapping[Tensor, Tensor]) -> _Copies:
        return _Copies({**self._new, **variables})

    def _function(self, function: TracedFunction) -> TracedFunction:
        """A copy of the body of a traced function. Counters of random streams are shared."""
        body = [t for t in function.body if t not in self._new]
        copied = {t for t in body if t.node.role is not Role.STATE or isinstance(t, StateUpdate)}
        self.replace_all(body, {}, copied)
        return replace(
            function,
            results=self.all_of(function.results),
            body=self.all_of(function.body),
            inputs=self.all_of(function.inputs),
        )

