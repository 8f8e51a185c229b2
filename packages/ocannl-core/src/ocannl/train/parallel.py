"""Data-parallel training: replicas of a model in several contexts, synchronized by all-reducing gradients.

contexts = [oc.Context("llvm", device=n, queue="threaded") for n in range(4)]
step = train.DataParallel(contexts, loss, train.sgd(loss, 0.1))
for losses in step.each(batches):       # dealt out in order: the first to contexts[0], the second to contexts[1], ...
    ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import islice

import numpy as np

from ocannl.base.errors import CodeError
from ocannl.base.traceback_filtering import public_class
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.record.code import Code
from ocannl.lang.record.recorder import cd
from ocannl.runtime.context import Context
from ocannl.runtime.transfer import transfer
from ocannl.train.feed import Feed, bind_feed
from ocannl.train.scale import LossScale
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


def reduction_tree(count: int) -> list[tuple[int, int]]:
    """Pairs `(target, source)` of a binary tree reduction to number 0, by level: `(0, 1), (2, 3), ..., (0, 2), ...`.

    The tree has `ceil(log2(count))` levels; the pairs of one level are independent.
    """
    edges, stride = [], 1
    while stride < count:
        edges += [(n, n + stride) for n in range(0, count - stride, 2 * stride)]
        stride *= 2
    return edges


def reduce_sum(tensors: Sequence[Tensor], contexts: Sequence[Context]) -> list[Step]:
    """Routines that, called in order, sum the replicas of each tensor into `contexts[0]` by a tree reduction.

    All remaining contexts hold partial sums. The order of addition depends only on the number of contexts.
    """
    steps: list[Step] = []
    merging: dict[int, Step] = {}
    for target, source in reduction_tree(len(contexts)):
        steps += [transfer(t, src=contexts[source], dst=contexts[target]) for t in tensors]
        if target not in merging:
            merging[target] = contexts[target].compile(_merged(*tensors))
        steps.append(merging[target])
    return steps


def broadcast(tensors: Sequence[Tensor], contexts: Sequence[Context]) -> list[Step]:
    """Routines that, called in order, copy each tensor from `contexts[0]` to all contexts."""
    return [
        transfer(t, src=contexts[target], dst=contexts[source], into="node")
        for target, source in reversed(reduction_tree(len(contexts)))
        for t in tensors
    ]


def all_reduce(
    tensors: Sequence[Tensor], contexts: Sequence[Context], *, mean: bool = False, holders: int | None = None
) -> list[Step]:
    """Routines that, called in order, replace each tensor in all contexts by the sum, or mean, of its replicas.

    With `holders`, only the replicas of the first `holders` contexts contribute.
    """
    count = len(contexts) if holders is None else holders
    steps = reduce_sum(tensors, contexts[:count])
    if mean and count > 1:
        steps.append(contexts[0].compile(_divided(*tensors, by=count)))
    return steps + broadcast(tensors, contexts)


@public_class()
class DataParallel:
    """One model in several contexts.

    `update` is code that changes parameters by their gradients, such as `train.sgd(loss, 0.1)`. A step computes the
    gradients of one batch in each context, all-reduces their mean (their sum if `mean` is false), and runs the update
    in each context. If the loss is a mean over its batch and batches have equal sizes, this equals a step of a single
    context on the union of the batches. `scale` is a loss scale, a number or a `LossScale`, which skips a step in all
    contexts if the exchanged gradients are not finite. The constructor initializes parameters without a value in
    `contexts[0]` and broadcasts all parameters. Contexts with threaded queues work concurrently.
    """

    def __init__(
        self, contexts: Sequence[Context], loss: Tensor, update: Code, *, mean: bool = True,
        scale: LossScale | float | None = None,
    ) -> None:  # fmt: skip
        codes = scale.parts(loss, update) if isinstance(scale, LossScale) else (grad_update(loss, scale=scale), update)
        self._contexts = tuple(contexts)
        if len(set(self._contexts)) != len(self._contexts) or not self._contexts:
            raise CodeError("data-parallel training needs at least one context, and each only once")
        self._loss = loss
        params = list(loss.all_params.values())
        self._contexts[0].init(loss)
        for transfer_step in broadcast(params, self._contexts):
            transfer_step()
        gradients = [p.grad for p in loss.params.values() if p.grad is not None]
        routines = [ctx.compile_all(codes, keep=[loss, *gradients]) for ctx in self._contexts]
        self._compute, self._update = zip(*routines, strict=True)
        self._exchange = cache(lambda count: all_reduce(gradients, self._contexts, mean=mean, holders=count))

    def __call__(self, *batches: Feed) -> np.ndarray:
        """Runs one step on one batch for each of the first contexts; returns their losses."""
        if not 1 <= len(batches) <= len(self._contexts):
            count = len(self._contexts)
            raise CodeError(f"a step takes 1 to {count} batches, one for each context, not {len(batches)}")
        for ctx, compute, batch in zip(self._contexts, self._compute, batches, strict=False):
            compute(**bind_feed(ctx, batch))
        for step in self._exchange(len(batches)):
            step()
        for update in self._update:
            update()
        active = self._contexts[: len(batches)]
        return np.array([float(ctx[self._loss].sum()) for ctx in active])

    def each(self, batches: Iterable[Feed]) -> Iterator[np.ndarray]:
        """Runs steps on consecutive groups of batches, the last of which may be smaller; yields the losses of each."""
        iterator = iter(batches)
        while group := list(islice(iterator, len(self._contexts))):
            yield self(*group)
