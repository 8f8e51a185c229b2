"""Moving averages of parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from ocannl.base import training_names
from ocannl.base.errors import ArgumentError
from ocannl.base.spelling import with_answers
from ocannl.base.traceback_filtering import public_class
from ocannl.ir.precision import float32, promote
from ocannl.lang.core.leaf_constructors import node, state_like
from ocannl.lang.core.literals import is_bool, is_number
from ocannl.lang.core.symbolic_terms import Term
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.term_functions import eq, where
from ocannl.lang.ops.elementwise_decorator import cellwise
from ocannl.lang.record.code import Code
from ocannl.lang.record.recorder import cd
from ocannl.runtime.context import Context
from ocannl.train.parameters import Trained, trainable_parameters


@with_answers(training_names.EMA)
@public_class()
class EMA:
    """Exponential moving averages of parameters, which often generalize better than the last ones.

        average = train.EMA(loss, 0.999)
        step = ctx.compile(oc.seq(train.grad_update(loss), train.adam(loss), average.update))
        with average.swapped(ctx):
            ...  # parameters have their averages

    `update` is code that follows the optimizer: `average = decay * average + (1 - decay) * parameter`, where the first
    average is the first parameter. `averages` are nodes by the path of the parameter; `params` those of `train.sgd`.
    """

    def __init__(self, loss: Tensor, decay: float = 0.999, *, params: Trained = None) -> None:
        if is_bool(decay) or not is_number(decay) or not 0 <= decay < 1:
            raise ArgumentError(f"train.EMA: `decay` is a number in [0, 1), not {decay!r}"[:200])
        self._parameters = trainable_parameters(loss, params)
        self.averages: Mapping[str, Tensor] = {
            path: state_like(f"ema.{path}", p, promote(p.dtype, float32)) for path, p in self._parameters.items()
        }
        self._count = node(
            f"ema_count.{next(iter(self._parameters), '')}", dtype=float32, batch=[], input=[], output=[]
        )
        self.update = self._update(float(decay))

    def _update(self, decay: float) -> Code:
        def change(average: Term, p: Term, is_first: Term) -> Term:
            weight = where(eq(is_first, 0.0), 1.0, 1.0 - decay)
            return average + weight * (p - average)

        count = self._count
        with cd("moving averages") as code:
            for path, average in self.averages.items():
                average[...] = cellwise("ema", change, average, self._parameters[path], count)
            count["=:"] = 1.0
        return code

    def swapped(self, ctx: Context) -> AbstractContextManager[None]:
        """Exchanges parameters and averages, and exchanges them back at the end."""
        if not isinstance(ctx, Context):
            raise ArgumentError(f"EMA.swapped takes the context of the parameters, not {ctx!r}"[:200])
        return self._swapped(ctx)

    @contextmanager
    def _swapped(self, ctx: Context) -> Iterator[None]:
        exchange = ctx.compile(self._exchange())
        exchange()
        try:
            yield
        finally:
            exchange()

    def _exchange(self) -> Code:
        with cd("exchange parameters and averages") as code:
            for path, average in self.averages.items():
                p = self._parameters[path]
                before = node(f"before.{path}")
                before["=:"] = p
                p["=:"] = average
                average["=:"] = before
        return code
