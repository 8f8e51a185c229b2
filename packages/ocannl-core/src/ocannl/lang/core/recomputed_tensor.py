"""Expressions whose intermediate values are computed again for gradients, instead of being kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ocannl.ir.affine import Sym, SymKind
from ocannl.ir.assign import Comp, Loop, Seq
from ocannl.lang.core.region_tensor import RegionTensor, copy, exposed, number_of, written
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.traced_function import TracedFunction


class RecomputedTensor(RegionTensor):
    """A tensor without a value of its own that owns the code of a function, in regions of the program: nothing but the
    results is alive between them."""

    __slots__ = ("function",)

    function: TracedFunction

    def forward_code(self, results: Sequence[Tensor]) -> Iterator[Comp]:
        stores = [copy(result.node, self.function.results[number_of(result)].node) for result in results]
        yield _region([*self.function.code(), *stores])

    def backward_code(self, results: Sequence[Tensor]) -> Iterator[Comp]:
        code = [*self.function.code(), *self.function.zero_gradients()]
        for result in results:
            source = self.function.results[number_of(result)]
            if source.grad is not None and result.grad is not None:
                code.append(copy(source.grad.node, result.grad.node))
        yield _region([*code, *self.function.gradient_code(self.function.live)])


def _region(code: Sequence[Comp]) -> Loop:
    """A loop of one step: values of its private nodes do not outlive it."""
    read = exposed(code)
    private = tuple(node for node in written(code) if node not in read)
    return Loop(Sym("once", 0, 0, SymKind.ITERATION), Seq(tuple(code)), private)
