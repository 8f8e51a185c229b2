"""Loss scaling: multiplies gradients by a factor until the update, so that small ones do not underflow in narrow types.

The factor of a `LossScale` is adaptive: a step with gradients that are not finite is skipped and decreases the factor,
many consecutive finite steps increase it. The factor is a node, and all of this is part of the compiled step.

Source: Micikevicius et al. 2018, "Mixed precision training".
"""

from __future__ import annotations

from math import inf

from ocannl.base import training_names
from ocannl.base.errors import CodeError
from ocannl.base.spelling import with_answers
from ocannl.base.traceback_filtering import public_class
from ocannl.ir.precision import float32, int32
from ocannl.lang.core.leaf_constructors import node
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.einsum import maximum
from ocannl.lang.ops.elementwise import isfinite as is_finite
from ocannl.lang.ops.primitives import PRIMITIVES
from ocannl.lang.ops.reductions import all_
from ocannl.lang.record.code import Code, seq, titled
from ocannl.lang.record.recorder import cd
from ocannl.train.conditional import ConditionalCode
from ocannl.train.parameters import trainable_parameters
from ocannl.train.step import grad_update

where = PRIMITIVES["where"]


@with_answers(training_names.LOSS_SCALE)
@public_class()
class LossScale:
    """Adaptive loss scaling, which keeps gradients within the range of their types.

        scale = train.LossScale()
        step = ctx.compile(scale.step(loss, train.adam(loss)))

    The factor starts at `initial`, is multiplied by `growth` after `interval` consecutive steps with finite gradients,
    and by `backoff`, but not below 1, after a step whose gradients are not finite. `ctx[scale.value]` is the factor,
    `ctx[scale.skipped]` counts the skipped steps.
    """

    def __init__(
        self, initial: float = 2.0**15, *, growth: float = 2.0, backoff: float = 0.5, interval: int = 2000
    ) -> None:
        if not (1 <= initial < inf and 1 <= growth < inf and 0 < backoff < 1 and interval >= 1):
            raise CodeError(
                "a loss scale requires finite initial >= 1 and growth >= 1, 0 < backoff < 1 and interval >= 1; "
                f"not {initial=}, {growth=}, {backoff=}, {interval=}"
            )
        self.growth, self.backoff, self.interval = growth, backoff, interval
        self.value = node("loss_scale", init=initial, dtype=float32, batch=[], input=[], output=[])
        self.finite_steps, self.skipped, self._is_finite = (
            node(name, dtype=int32, batch=[], input=[], output=[])
            for name in ("finite_steps", "skipped_steps", "gradients_are_finite")
        )

    def step(self, loss: Tensor, update: Code) -> Code:
        """The gradients of `loss`, then `update` if all of them are finite, then the adaptation of the factor."""
        return titled(lambda: f"{loss.label} scaled step", seq(*self.parts(loss, update)))

    def parts(self, loss: Tensor, update: Code) -> tuple[Code, Code]:
        """The code before and after an exchange of gradients between contexts."""
        guarded = ConditionalCode(self._is_finite, update)
        checked = seq(self._check(loss), titled("if all are finite", guarded), self._adapt())
        return grad_update(loss, scale=self.value), checked

    def _check(self, loss: Tensor) -> Code:
        code: Code
        with cd() as code:
            self._is_finite["=:"] = 1
            for p in trainable_parameters(loss).values():
                self._is_finite &= all_(is_finite(p.grad))
        return code

    def _adapt(self) -> Code:
        value, steps, skipped, finite = self.value, self.finite_steps, self.skipped, self._is_finite
        code: Code
        with cd("loss scale") as code:
            steps[...] = where(finite, steps + 1, 0)
            grown = where(is_finite(value * self.growth), value * self.growth, value)
            next_value = where(steps >= self.interval, grown, value)
            value[...] = where(finite, next_value, maximum(value * self.backoff, 1.0))
            steps[...] = where(steps >= self.interval, 0, steps)
            skipped += 1 - finite
        return code
