"""Data-parallel training: one model in several contexts, each with a batch of its own, kept equal by sharing gradients.

contexts = [oc.Context("llvm", device=n, queue="threaded") for n in range(4)]
step = train.DataParallel(contexts, loss, train.sgd(loss, 0.1))
for losses in step.each(batches):       # batches go round: the first to contexts[0], the second to contexts[1], ...
    ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import islice

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.record.code import Code
from ocannl.lang.record.recorder import cd
from ocannl.runtime.context import Context
from ocannl.runtime.transfer import transfer
from ocannl.train.feed import Feed, given
from ocannl.train.step import grad_update

Step = Callable[[], None]


@cd
def _merged(*tensors: Tensor) -> None:
    for t in tensors:
        t += t.merge


@cd
def _divided(*tensors: Tensor, by: int) -> None:
    for t in tensors:
        t /= by


def pairs(count: int) -> list[tuple[int, int]]:
    """Who takes from whom, in order, so that number 0 has everything in the end: 0 from 1, 2 from 3, ..., 0 from 2, ...

    As deep as the logarithm of the count; what is done at one depth needs nothing else from it.
    """
    found, stride = [], 1
    while stride < count:
        found += [(n, n + stride) for n in range(0, count - stride, 2 * stride)]
        stride *= 2
    return found


def reduce_sum(tensors: Sequence[Tensor], contexts: Sequence[Context]) -> list[Step]:
    """Routines that, called in order, add what the contexts hold of each tensor into `contexts[0]`, pair by pair.

    Others keep partial sums. The order of addition depends on the number of contexts alone.
    """
    steps: list[Step] = []
    merging: dict[int, Step] = {}
    for target, source in pairs(len(contexts)):
        steps += [transfer(t, src=contexts[source], dst=contexts[target]) for t in tensors]
        if target not in merging:
            merging[target] = contexts[target].compile(_merged(*tensors))
        steps.append(merging[target])
    return steps


def broadcast(tensors: Sequence[Tensor], contexts: Sequence[Context]) -> list[Step]:
    """Routines that, called in order, give every context what `contexts[0]` holds."""
    return [
        transfer(t, src=contexts[target], dst=contexts[source], into="node")
        for target, source in reversed(pairs(len(contexts)))
        for t in tensors
    ]


def all_reduce(
    tensors: Sequence[Tensor], contexts: Sequence[Context], *, mean: bool = False, holders: int | None = None
) -> list[Step]:
    """Routines that, called in order, leave in every context the sum, or the mean, of what the contexts hold of each
    tensor; with `holders`, of what the first so many hold."""
    count = len(contexts) if holders is None else holders
    steps = reduce_sum(tensors, contexts[:count])
    if mean and count > 1:
        steps.append(contexts[0].compile(_divided(*tensors, by=count)))
    return steps + broadcast(tensors, contexts)


class DataParallel:
    """One model in several contexts.

    `update` is code that changes parameters by their gradients, such as `train.sgd(loss, 0.1)`. A step computes the
    gradients of one batch in each context, takes their mean (their sum if `mean` is false), and runs the update
    everywhere: with a loss that is the mean over its batch, and batches of one size, that is the step of one context
    with all batches together. Making one initializes the parameters that have no value in `contexts[0]`, and gives
    them to all. Contexts with threaded queues work at the same time.
    """

    def __init__(self, contexts: Sequence[Context], loss: Tensor, update: Code, *, mean: bool = True) -> None:
        code = grad_update(loss)
        self._contexts = tuple(contexts)
        if len(set(self._contexts)) != len(self._contexts) or not self._contexts:
            raise CodeError("data-parallel training needs at least one context, and each only once")
        self._loss = loss
        params = list(loss.params.values())
        self._contexts[0].init(loss)
        for share in broadcast(params, self._contexts):
            share()
        gradients = [p.grad for p in params if p.grad is not None]
        codes = [code, update]
        made = [ctx.compile_all(codes, keep=[loss, *gradients]) for ctx in self._contexts]
        self._compute, self._update = zip(*made, strict=True)
        self._exchange = cache(lambda count: all_reduce(gradients, self._contexts, mean=mean, holders=count))

    def __call__(self, *batches: Feed) -> np.ndarray:
        """One step on one batch for each context, the first of them if there are fewer batches; gives their losses."""
        if not 1 <= len(batches) <= len(self._contexts):
            most = len(self._contexts)
            raise CodeError(f"a step takes 1 to {most} batches, one for each context, not {len(batches)}")
        for ctx, compute, batch in zip(self._contexts, self._compute, batches, strict=False):
            compute(**given(ctx, batch))
        for step in self._exchange(len(batches)):
            step()
        for update in self._update:
            update()
        used = self._contexts[: len(batches)]
        return np.array([float(ctx[self._loss].sum()) for ctx in used])

    def each(self, batches: Iterable[Feed]) -> Iterator[np.ndarray]:
        """Deals the batches round, and gives the losses of each step; the last one may have fewer."""
        rest = iter(batches)
        while hand := list(islice(rest, len(self._contexts))):
            yield self(*hand)
