"""Loops that carry state, as tensors of the expression graph.

    for t in 0..T:
      saved[t] = carry                      if gradients need it
      next = step(carry, xs[t])             the body: expressions traced once
      ys[t] = y
      carry = next

Gradients are computed by a second loop in the opposite direction. It restores the values of each step that were saved,
recomputes those that are cheap, and accumulates gradients of the inputs of the body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from ocannl.infer.logic import pointwise
from ocannl.infer.project import project
from ocannl.ir.affine import Affine, Sym, SymKind
from ocannl.ir.assign import Assign, Call, Comp, Convert, Loop, Number, Piece, Read, Seq, Value
from ocannl.ir.index_substitution import substitute
from ocannl.ir.ops import ADD, Domain
from ocannl.ir.projections import Projections
from ocannl.ir.tnode import Placement, Role, TNode
from ocannl.lang.core import graph
from ocannl.lang.core.fill import fill
from ocannl.lang.core.region_tensor import RegionTensor, cells, conditional, copy, exposed, number_of, written
from ocannl.lang.core.slots import SlotAssign, elaborate
from ocannl.lang.core.symbolic_terms import Hole
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.traced_function import TracedFunction
from ocannl.lang.core.training_mode import generates_training

MAX_SAVED_BYTES = 1 << 28  # of all steps; beyond it, steps are recomputed from their carries


@dataclass(frozen=True, slots=True)
class LoopBody:
    """The body of a loop. `carries` are the leaves that the body reads, `initial` their values before the loop, and the
    first results of `step` their values after a step; further results are stacked in `stacked`, nodes with an axis of
    steps, which is the first axis of `row`. With a `condition`, the loop ends before the first step for which
    its result is 0."""

    position: Sym
    carries: tuple[Tensor, ...]
    initial: tuple[Tensor, ...]
    step: TracedFunction
    stacked: tuple[TNode, ...]
    row: str  # of the axis of steps: "batch" or "output"
    condition: TracedFunction | None = None
    is_reversed: bool = False
    recompute: bool | None = None

    @property
    def next(self) -> tuple[Tensor, ...]:
        return self.step.results[: len(self.carries)]

    @property
    def ys(self) -> tuple[Tensor, ...]:
        return self.step.results[len(self.carries) :]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """All tensors outside of the loop that it reads."""
        condition = () if self.condition is None else self.condition.inputs
        return tuple(dict.fromkeys((*self.initial, *self.step.inputs, *condition)))


class LoopTensor(RegionTensor):
    """A tensor without a value of its own that owns the code of a loop. Its results are the carries after the last
    step, then the stacked results of the steps."""

    __slots__ = ("__dict__",)

    body: LoopBody

    # --- code ---

    def forward_code(self, results: Sequence[Tensor]) -> Iterator[Comp]:
        body, numbers = self.body, set(map(number_of, results))
        for carry, initial in zip(body.carries, body.initial, strict=True):
            yield from _broadcast(carry, initial)
        plan = self._plan(results)
        saved = dict.fromkeys(plan.saved, True)
        step: list[Comp] = []
        for t in (*body.carries, *plan.live):
            code = body.step.code_of(t)
            now = [node for node in (t.node, *written(code)) if saved.pop(node, False)]
            step += [*code, *(_save(node, self.steps_of(node), body.position) for node in now)]
        for number, (y, stacked) in enumerate(zip(body.ys, body.stacked, strict=True), len(body.carries)):
            if number in numbers:
                step.append(_save(y.node, stacked, body.position, self._axis_of(y)))
        step += [copy(carry.node, then.node) for carry, then in zip(body.carries, body.next, strict=True)]
        private = (*body.stacked, *map(self.steps_of, plan.saved))
        if body.condition is None:
            yield self._loop(step, body.is_reversed, (*private, *self._carry_nodes))
        else:
            yield from self._while(step, private)
        for result in results:
            if number_of(result) < len(body.carries):
                yield copy(result.node, body.carries[number_of(result)].node)

    def _while(self, step: list[Comp], private: Sequence[TNode]) -> Iterator[Comp]:
        """A loop that ends when the condition is 0: in the remaining iterations nothing is executed."""
        body = self.body
        assert body.condition is not None
        (is_running,) = body.condition.results
        test = body.condition.code()
        yield from test
        guarded = conditional(Read(is_running.node, ()), [*step, *test])
        before: list[Comp] = []
        if self.has_gradient:
            flags = self.steps_of(is_running.node)
            before.append(_save(is_running.node, flags, body.position))
            private = (*private, flags)
        yield self._loop([*before, guarded], False, (*private, *self._carry_nodes))

    def backward_code(self, results: Sequence[Tensor]) -> Iterator[Comp]:
        body, plan, seeds = self.body, self._plan(results), {number_of(result): result for result in results}
        carried = [(carry, after) for carry, after in zip(body.carries, body.next, strict=True) if carry.has_gradient]
        for number, carry in enumerate(body.carries):
            if carry.grad is not None and number in seeds:
                final = seeds[number].grad
                assert final is not None
                yield copy(carry.grad.node, final.node)
            elif carry.grad is not None:
                yield _zero(carry.grad)
        step: list[Comp] = [_restore(node, self.steps_of(node), body.position) for node in plan.saved]
        step += [code for t in plan.live if t in plan.recomputed for code in body.step.code_of(t)]
        step += [code for t in plan.live if t.has_gradient for code in t.zero_gradient()]
        for carry, after in carried:
            if after.grad is not None and carry.grad is not None:
                step.append(copy(after.grad.node, carry.grad.node))
        for number, y in enumerate(body.ys, len(body.carries)):
            if y.grad is not None and number in seeds:
                final = seeds[number].grad
                assert final is not None
                step.append(_restore(y.grad.node, final.node, body.position, self._axis_of(y), accumulate=True))
        step += [_zero(carry.grad) for carry, _ in carried if carry.grad is not None]
        step += plan.gradient_code
        private = tuple(carry.grad.node for carry, _ in carried if carry.grad is not None)
        if body.condition is not None:
            (is_running,) = body.condition.results
            flags = Read(self.steps_of(is_running.node), (Affine.of(body.position),))
            step = [conditional(flags, step)]
        yield self._loop(step, not body.is_reversed, private)
        for carry, initial in zip(body.carries, body.initial, strict=True):
            if carry.grad is not None and initial.grad is not None:
                target = SlotAssign(Hole(initial.grad.node, 1), ADD, False, (Hole(carry.grad.node, 0),))
                yield from elaborate([target], _projections(carry, initial), None, self.origin)

    def _loop(self, step: Iterable[Comp], is_reversed: bool, private: Iterable[TNode]) -> Comp:
        position, body = self.body.position, Seq(tuple(step))
        sym = Sym(position.name, 0, position.hi, SymKind.ITERATION)
        value = Affine.of(position.hi) - sym if is_reversed else Affine.of(sym)
        return Loop(sym, substitute(body, {position: value}), tuple(dict.fromkeys(private)))

    # --- values of the forward pass that the backward pass reads ---

    @cached_property
    def _steps(self) -> dict[TNode, TNode]:
        return {}

    def steps_of(self, node: TNode) -> TNode:
        """The node that holds the values of `node` in all steps."""
        if node not in self._steps:
            count = self.body.position.extent
            dims, kind = lambda: (count, *node.dims), lambda: node.precision
            stacked = TNode(f"{node.label}_steps", Role.RESULT, dims, kind, where=node.where)
            stacked.requested.set(Placement.TEMPORARY, "the loop whose gradient reads it")
            self._steps[node] = stacked
        return self._steps[node]

    @cached_property
    def _carry_nodes(self) -> tuple[TNode, ...]:
        return tuple(carry.node for carry in self.body.carries)

    def _axis_of(self, y: Tensor) -> int:
        """The axis of steps of a stacked result, in memory order."""
        return 0 if self.body.row == "batch" else len(y.shape.batch)

    @cached_property
    def _plans(self) -> dict[tuple[bool, frozenset[int]], LoopPlan]:
        return {}

    def _plan(self, results: Sequence[Tensor]) -> LoopPlan:
        """The plan of the code that computes the given results, and their gradients."""
        numbers = frozenset(map(number_of, results))
        key = generates_training(), numbers
        if key not in self._plans:
            body = self.body
            ys = [y for number, y in enumerate(body.ys, len(body.carries)) if number in numbers]
            inside = set(body.step.body)
            live = tuple(t for t in graph.ancestors([*body.next, *ys], inside.__contains__) if t in inside)
            plan = self._plan_gradient(live, _is_expensive)
            nbytes = sum(prod(node.dims) * node.precision.nbytes for node in plan.saved) * body.position.extent
            if body.recompute or (body.recompute is None and nbytes > MAX_SAVED_BYTES):
                plan = self._plan_gradient(live, lambda code: False)
            self._plans[key] = plan
        return self._plans[key]

    def _plan_gradient(self, live: tuple[Tensor, ...], must_save: Callable[[Sequence[Comp]], bool]) -> LoopPlan:
        if not self.has_gradient:
            return LoopPlan(live)
        gradient_code = tuple(self.body.step.gradient_code(live))
        needed = exposed(gradient_code)
        saved: list[TNode] = []
        recomputed: set[Tensor] = set()
        for t in reversed(live):
            code = self.body.step.code_of(t)
            read_later = [node for node in written(code) if node in needed]
            if not read_later:
                continue
            if must_save(code):
                saved += read_later
            else:
                recomputed.add(t)
                needed |= exposed(code)
        saved += [node for node in self._carry_nodes if node in needed]
        return LoopPlan(live, gradient_code, tuple(reversed(saved)), frozenset(recomputed))


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """The code of a loop: the tensors of the body that it computes, the code that accumulates gradients in a step, and
    of what that reads, the nodes that are stored in each step and the tensors that are computed again."""

    live: tuple[Tensor, ...]
    gradient_code: tuple[Comp, ...] = ()
    saved: tuple[TNode, ...] = ()
    recomputed: frozenset[Tensor] = frozenset()


# --- assignments ------------------------------------------------------------------------------------------------------


def _save(node: TNode, steps: TNode, position: Sym, axis: int = 0) -> Assign:
    """Stores a node as one step of another, whose axis of steps is `axis`."""
    loops, indices = cells(node)
    at = (*indices[:axis], Affine.of(position), *indices[axis:])
    return Assign(steps, None, False, (Piece(loops, at, Read(node, indices)),))


def _restore(node: TNode, steps: TNode, position: Sym, axis: int = 0, *, accumulate: bool = False) -> Assign:
    """Loads a node from one step of another, or adds it."""
    loops, indices = cells(node)
    value = Read(steps, (*indices[:axis], Affine.of(position), *indices[axis:]))
    return Assign(node, ADD if accumulate else None, not accumulate, (Piece(loops, indices, value),))


def _zero(gradient: Tensor) -> Assign:
    return fill(gradient.node, gradient.dims, Number(0), gradient.origin)


def _projections(carry: Tensor, initial: Tensor) -> Projections:
    return project(pointwise(1), [initial.handle], carry.handle)


def _broadcast(carry: Tensor, initial: Tensor) -> Iterable[Assign]:
    value = Hole(initial.node, 1) if initial.literal is None else initial.literal()
    target = SlotAssign(Hole(carry.node, 0), None, True, (value,))
    return elaborate([target], _projections(carry, initial), None, carry.origin)


# --- analysis ---------------------------------------------------------------------------------------------------------


def _is_expensive(code: Sequence[Comp]) -> bool:
    """Whether code contains a reduction, a loop, an elementary function or computed indices."""
    return any(not isinstance(item, Assign) or any(map(_is_expensive_piece, item.pieces)) for item in code)


def _is_expensive_piece(piece: Piece) -> bool:
    indexed = {sym for index in piece.indices for sym in index.syms}
    return bool(piece.indirect) or not indexed.issuperset(piece.loops) or _has_function(piece.value)


def _has_function(value: Value) -> bool:
    match value:
        case Call(op, args):
            return op.domain in (Domain.FLOAT, Domain.WORD) or any(map(_has_function, args))
        case Convert(inner, _):
            return _has_function(inner)
        case _:
            return False
