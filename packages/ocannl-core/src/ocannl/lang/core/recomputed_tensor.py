"""Expressions whose intermediate values are computed again for gradients, instead of being kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set

from ocannl.ir.affine import Sym, SymKind
from ocannl.ir.assign import Comp, Loop, Seq
from ocannl.ir.tnode import TNode
from ocannl.lang.core.region_tensor import RegionTensor, copy, exposed, number_of, reached_results, written
from ocannl.lang.core.tensor import StateAccess, Tensor
from ocannl.lang.core.traced_function import TracedFunction
from ocannl.lang.core.training_mode import in_current_mode


class RecomputedTensor(RegionTensor):
    """A tensor without a value of its own that owns the code of a function, in regions of the program: nothing but the
    results is alive between them."""

    __slots__ = ("function",)

    function: TracedFunction

    @property
    def accesses(self) -> tuple[StateAccess, ...]:
        return tuple(access for t in self.function.body for access in t.accesses)

    @property
    def kept(self) -> frozenset[TNode]:
        """The states that the function updates, and what it has read of them, which the backward pass reads again."""
        nested = (t.kept for t in self.function.body if isinstance(t, RecomputedTensor))
        return frozenset(t.node for t in self.function.body if t.state_access is not None).union(*nested)

    def forward_code(self, results: Sequence[Tensor]) -> Iterator[Comp]:
        yield self._region([*self.function.code(), *self._stores(results)])

    def repeated_step(self, reached: Set[Tensor]) -> Callable[[], Iterable[Comp]]:
        results = reached_results(self, reached)
        return in_current_mode(lambda: [self._region([*self.function.repeated_code(), *self._stores(results)])])

    def _stores(self, results: Sequence[Tensor]) -> list[Comp]:
        return [copy(result.node, self.function.results[number_of(result)].node) for result in results]

    def backward_code(self, results: Sequence[Tensor]) -> Iterator[Comp]:
        code = [*self.function.repeated_code(), *self.function.zero_gradients()]
        for result in results:
            source = self.function.results[number_of(result)]
            if source.grad is not None and result.grad is not None:
                code.append(copy(source.grad.node, result.grad.node))
        yield self._region([*code, *self.function.gradient_code(self.function.live)])

    def _region(self, code: Sequence[Comp]) -> Loop:
        """A loop of one step: values of its private nodes do not outlive it."""
        lasting = exposed(code) | self.kept
        private = tuple(node for node in written(code) if node not in lasting)
        return Loop(Sym("once", 0, 0, SymKind.ITERATION), Seq(tuple(code)), private)
