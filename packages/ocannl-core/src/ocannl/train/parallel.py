"""Data-parallel training: replicas of a model in several contexts, synchronized by all-reducing gradients.

contexts = [oc.Context("llvm", device=n, queue="threaded") for n in range(4)]
step = train.DataParallel(contexts, loss, train.sgd(loss, 0.1))
for losses in step.each(batches):       # dealt out in order: the first to contexts[0], the second to contexts[1], ...
    ...

The contexts may belong to several processes: see `DataParallel`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import islice
from os import PathLike

import numpy as np

from ocannl.base.errors import ArgumentError, CodeError
from ocannl.base.spelling import sealed
from ocannl.base.traceback_filtering import public_class
from ocannl.checkpoint.loading import Checkpoint, load
from ocannl.checkpoint.saving import save
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.record.code import Code, seq
from ocannl.lang.record.recorder import cd
from ocannl.runtime.context import Context, node_of
from ocannl.runtime.routine_sequence import RoutineSequence
from ocannl.runtime.transfer import transfer
from ocannl.runtime.world import World
from ocannl.runtime.world_cpu import agree_on_cpu
from ocannl.train.accumulation import gradient_totals
from ocannl.train.feed import Feed, bind_feed
from ocannl.train.gradient_buckets import GradientBucket, gradient_buckets
from ocannl.train.overlap import Overlap
from ocannl.train.process_reduction import ProcessReduction
from ocannl.train.reduction_tree import reduction_tree
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
    tensors: Sequence[Tensor], contexts: Sequence[Context], *, mean: bool = False, holders: int | None = None,
    world: World | None = None,
) -> list[Step]:  # fmt: skip
    """Routines that, called in order, replace each tensor in all contexts by the sum, or mean, of its replicas.

    With `holders`, only the replicas of the first `holders` contexts contribute. With a `world` of several processes
    the contexts are those of all processes, ordered by rank, of which `contexts` are the ones of this process.
    """
    if world is not None and world.size > 1:
        nodes = [node_of(t) for t in tensors]
        reduction = ProcessReduction(world, nodes, contexts, shares_memory=world.shares_memory)
        return _process_steps(tensors, contexts, reduction, holders or len(contexts) * world.size, mean)
    count = len(contexts) if holders is None else holders
    steps = reduce_sum(tensors, contexts[:count])
    if mean and count > 1:
        steps.append(contexts[0].compile(_divided(*tensors, by=count)))
    return steps + broadcast(tensors, contexts)


def _process_steps(
    tensors: Sequence[Tensor], contexts: Sequence[Context], reduction: ProcessReduction, holders: int, mean: bool
) -> list[Step]:  # fmt: skip
    return [partial(reduction, holders), *(_means(tensors, contexts, holders) if mean else [])]


def _means(tensors: Sequence[Tensor], contexts: Sequence[Context], holders: int) -> list[Step]:
    """Routines that turn sums into means."""
    return [ctx.compile(_divided(*tensors, by=holders)) for ctx in contexts] if holders > 1 else []


@public_class()
@sealed()
class DataParallel:
    """One model in several contexts.

    `update` is code that changes parameters by their gradients, such as `train.sgd(loss, 0.1)`. A step computes the
    gradients of one batch in each context, all-reduces their mean (their sum if `mean` is false), and runs the update
    in each context. If the loss is a mean over its batch and batches have equal sizes, this equals a step of a single
    context on the union of the batches. `scale` is a loss scale, a number or a `LossScale`, which skips a step in all
    contexts if the exchanged gradients are not finite. With `accumulate` > 1, only every `accumulate`-th call exchanges
    the mean of the gradients since the last update, and updates. The constructor initializes parameters without a value
    in the first context and broadcasts all parameters. Contexts with threaded queues work concurrently.

    With a `world`, all its processes execute the same calls with equal batches, each with its own contexts, as many in
    every process; a process computes only the batches of its own contexts. The contexts of all processes, ordered by
    rank, are numbered as if they were in one process, and the results are the same, bit for bit. The code is divided
    such that about `bucket_bytes` of gradients are final after each part; they are exchanged while the next parts are
    computed.
    """

    def __init__(
        self, contexts: Sequence[Context], loss: Tensor, update: Code, *, mean: bool = True,
        scale: LossScale | float | None = None, accumulate: int = 1, world: World | None = None,
        bucket_bytes: int = 4 << 20,
    ) -> None:  # fmt: skip
        codes = scale.parts(loss, update) if isinstance(scale, LossScale) else (grad_update(loss, scale=scale), update)
        self._contexts = tuple(contexts)
        if len(set(self._contexts)) != len(self._contexts) or not self._contexts:
            raise CodeError("data-parallel training needs at least one context, and each only once")
        if not isinstance(bucket_bytes, int) or isinstance(bucket_bytes, bool) or bucket_bytes < 1:
            raise ArgumentError(f"`bucket_bytes` is a number of bytes, at least 1, not {bucket_bytes!r:.80}")
        self._loss, self._world = loss, World("single") if world is None else world
        self._period, self._calls, self._is_exchanging = accumulate, 0, False
        self._count, self._first = len(contexts) * self._world.size, len(contexts) * self._world.rank
        agree_on_cpu(self._world, [ctx.backend for ctx in self._contexts])
        params = list(loss.all_params.values())
        self._contexts[0].init(loss)
        self._broadcast(params)
        totals = gradient_totals(loss, accumulate) if accumulate > 1 else None
        gradients = [p.grad for p in loss.params.values() if p.grad is not None]
        if totals is not None:
            codes = (seq(codes[0], totals.add), seq(totals.take, codes[1]))
            gradients = list(totals.nodes.values())
        buckets = [GradientBucket(codes[0], tuple(gradients))]
        if world is not None:
            buckets = gradient_buckets(codes[0], gradients, bucket_bytes)
        self._reductions = self._planned_reductions(buckets)
        self._steps = self._planned_steps(gradients, mean)
        listed = [*(bucket.code for bucket in buckets), codes[1]]
        with self._world.first_alone():
            routines = [ctx.compile_all(listed, keep=[loss, *gradients]) for ctx in self._contexts]
        self._world.agree("the compiled code", "\n".join(routine.source() for routine in routines[0]))
        self._compute = [RoutineSequence(compute) for *compute, _ in routines]
        self._update = [update for *_, update in routines]
        self._losses = np.zeros(len(self._contexts))
        self._gatherer = self._world.gatherer(self._losses.view(np.uint8))

    def _broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Copies tensors from the first context of rank 0 to all contexts."""
        if self._world.size > 1:
            nodes = [node_of(t) for t in tensors]
            ProcessReduction(self._world, nodes, self._contexts, shares_memory=False)(1)
        else:
            for transfer_step in broadcast(tensors, self._contexts):
                transfer_step()

    def _planned_reductions(self, buckets: Sequence[GradientBucket]) -> list[ProcessReduction]:
        """The sums over several processes."""
        world, contexts = self._world, self._contexts
        if world.size == 1:
            return []
        return [
            ProcessReduction(
                world, [node_of(t) for t in bucket.gradients], contexts, shares_memory=world.shares_memory,
                is_alone=len(buckets) == 1,
            )
            for bucket in buckets
        ]  # fmt: skip

    def _planned_steps(self, gradients: Sequence[Tensor], mean: bool) -> Callable[[int], list[Step]]:
        """The routines that follow the gradients and their sums over processes, by the number of contexts that
        contribute."""
        contexts = self._contexts
        if self._world.size == 1:
            return cache(lambda count: all_reduce(gradients, contexts, mean=mean, holders=count))
        return cache(lambda count: _means(gradients, contexts, count) if mean else [])

    def __call__(self, *batches: Feed) -> np.ndarray:
        """Runs one step on one batch for each of the first contexts; returns their losses."""
        if not 1 <= len(batches) <= self._count:
            raise CodeError(f"a step takes 1 to {self._count} batches, one for each context, not {len(batches)}")
        local_batches = batches[self._first :][: len(self._contexts)]
        calls = [
            compute.calls(bind_feed(ctx, batch))
            for ctx, compute, batch in zip(self._contexts, self._compute, local_batches, strict=False)
        ]
        if self._is_exchanging:
            raise CodeError("an earlier step failed during an exchange of gradients: start all processes again")
        return self._step(calls, len(batches))

    def _step(self, calls: Sequence[Sequence[Callable[[], None]]], count: int) -> np.ndarray:
        """Runs the parts of a step for `count` batches."""
        self._calls += 1
        is_last = self._calls % self._period == 0
        sums = Overlap(self._world)
        for number in range(len(self._compute[0].routines)):
            for parts in calls:
                parts[number]()
            if is_last and self._reductions:
                self._is_exchanging = True
                sums.begin(self._reductions[number].completions(count))
        sums.finish()
        if is_last:
            for step in self._steps(count):
                step()
            for update in self._update:
                update()
        for number, ctx in enumerate(self._contexts[: len(calls)]):
            self._losses[number] = ctx[self._loss].sum()
        self._is_exchanging = self._world.size > 1
        self._world.run(self._gatherer)
        self._is_exchanging = False
        gathered = self._gatherer.buffers[self._gatherer.index]
        return np.concatenate([part.view(np.float64) for part in gathered])[:count]

    def each(self, batches: Iterable[Feed]) -> Iterator[np.ndarray]:
        """Runs steps on consecutive groups of batches, the last of which may be smaller; yields the losses of each."""
        iterator = iter(batches)
        while group := list(islice(iterator, self._count)):
            yield self(*group)

    def save(self, path: str | PathLike[str], *, step: int | None = None, data: object = None, keep: int = 1) -> None:
        """Saves what the training needs to continue, in rank 0 alone, as `oc.save` does; all processes call this, and
        wait until the file is complete."""
        if self._world.rank == 0:
            save(path, self._contexts[0], self._contents, step=step, data=data, keep=keep)
        self._world.barrier()

    def load(self, path: str | PathLike[str], *, data: object = None) -> Checkpoint:
        """Loads a file of `save` into all contexts, of any number of processes; each process reads the file."""
        loaded = [load(path, ctx, self._contents, data=data) for ctx in self._contexts]
        return loaded[0]

    @property
    def _contents(self) -> dict[str, object]:
        return {"gradients": self._compute[0], "update": self._update[0]}
