"""Conditional expressions, as tensors of the expression graph: only one of two branches is executed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ocannl.ir.assign import Call, Comp, Read, Value
from ocannl.ir.ops import BY_NAME
from ocannl.lang.core.region_tensor import RegionTensor, conditional, copy, number_of
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.traced_function import TracedFunction


@dataclass(frozen=True, slots=True)
class Branches:
    condition: Tensor
    if_true: TracedFunction
    if_false: TracedFunction

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """All tensors outside of the branches that they read."""
        return tuple(dict.fromkeys((self.condition, *self.if_true.inputs, *self.if_false.inputs)))


class BranchTensor(RegionTensor):
    """A tensor without a value of its own that owns the code of two branches."""

    __slots__ = ("branches",)

    branches: Branches

    def forward_code(self, results: Sequence[Tensor]) -> Iterator[Comp]:
        for branch, value in self._alternatives():
            stores = [copy(result.node, branch.results[number_of(result)].node) for result in results]
            yield conditional(value, [*branch.code(), *stores])

    def backward_code(self, results: Sequence[Tensor]) -> Iterator[Comp]:
        for branch, value in self._alternatives():
            code = branch.zero_gradients()
            for result in results:
                source = branch.results[number_of(result)]
                if source.grad is not None and result.grad is not None:
                    code.append(copy(source.grad.node, result.grad.node))
            code += branch.gradient_code(branch.live)
            yield conditional(value, code)

    def _alternatives(self) -> Iterator[tuple[TracedFunction, Value]]:
        condition = self.branches.condition
        value: Value = Read(condition.node, ()) if condition.literal is None else condition.literal()
        yield self.branches.if_true, value
        yield self.branches.if_false, Call(BY_NAME["not"], (value,))
