"""Loss scaling: small gradients of narrow types survive, since all of them are larger by a factor until the update.

The factor of a `LossScale` adapts: a step whose gradients are not all finite changes nothing but makes it smaller, many
finite steps in a row make it larger. All of that is code of the step, and the factor is a node.

Source: Micikevicius et al. 2018, "Mixed precision training".
"""

from __future__ import annotations

from math import inf

from ocannl.base.errors import CodeError
from ocannl.ir.assign import Apply, Assign, Piece, Read, Seq, Value, assigns
from ocannl.ir.index import Affine, Sym
from ocannl.ir.ops import BY_NAME
from ocannl.ir.precision import float32, int32
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core.leaves import node
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.einsum import maximum
from ocannl.lang.ops.elementwise import isfinite as is_finite
from ocannl.lang.ops.primitives import PRIMITIVES
from ocannl.lang.ops.reductions import all_
from ocannl.lang.record.code import Code, seq, titled
from ocannl.lang.record.recorder import cd
from ocannl.train.step import grad_update, learned

where = PRIMITIVES["where"]


class LossScale:
    """A factor of the loss that adapts to what the types of gradients hold.

        scale = train.LossScale()
        step = ctx.compile(scale.step(loss, train.adam(loss)))

    It starts as `initial`, is multiplied by `growth` after `interval` steps in a row with finite gradients, and by
    `backoff`, but not below 1, at a step with others. `ctx[scale.value]` is the factor, `ctx[scale.skipped]` counts the
    steps that changed nothing.
    """

    def __init__(
        self, initial: float = 2.0**15, *, growth: float = 2.0, backoff: float = 0.5, interval: int = 2000
    ) -> None:
        if not (1 <= initial < inf and 1 <= growth < inf and 0 < backoff < 1 and interval >= 1):
            raise CodeError(
                "a loss scale starts as at least 1, grows by a factor of at least 1 after at least one step, and "
                f"shrinks by one between 0 and 1; not {initial=}, {growth=}, {interval=}, {backoff=}"
            )
        self.growth, self.backoff, self.interval = growth, backoff, interval
        self.value = node("loss_scale", init=initial, dtype=float32, batch=[], input=[], output=[])
        self.finite_steps, self.skipped, self._is_finite = (
            node(name, dtype=int32, batch=[], input=[], output=[])
            for name in ("finite_steps", "skipped_steps", "gradients_are_finite")
        )

    def step(self, loss: Tensor, update: Code) -> Code:
        """Gradients of `loss`, then `update` if all of them are finite, then the factor of the next step."""
        gradients = grad_update(loss, scale=self.value)
        checked = self._check(loss)
        guarded = _Guarded(update, self._is_finite.node)
        whole = seq(gradients, checked, titled("if all are finite", guarded), self._adapt())
        return titled(lambda: f"{loss.label} scaled step", whole)

    def _check(self, loss: Tensor) -> Code:
        code: Code
        with cd() as code:
            self._is_finite["=:"] = 1
            for p in learned(loss):
                self._is_finite &= all_(is_finite(p.grad))
        return code

    def _adapt(self) -> Code:
        value, steps, skipped, finite = self.value, self.finite_steps, self.skipped, self._is_finite
        code: Code
        with cd("loss scale") as code:
            steps[...] = where(finite, steps + 1, 0)
            larger = where(is_finite(value * self.growth), value * self.growth, value)
            kept = where(steps >= self.interval, larger, value)
            value[...] = where(finite, kept, maximum(value * self.backoff, 1.0))
            steps[...] = where(steps >= self.interval, 0, steps)
            skipped += 1 - finite
        return code


class _Guarded(Code):
    """Code that changes nothing that is kept where a condition, one cell, is 0: what it writes is set aside before."""

    __slots__ = ("condition", "guarded")

    def __init__(self, guarded: Code, condition: TNode) -> None:
        super().__init__(guarded.items, guarded.asked)
        self.guarded = guarded
        self.condition = condition

    def _comp(self) -> Seq:
        inner = self.guarded._comp()
        written = dict.fromkeys(a.lhs for a in assigns(inner) if a.lhs.role in _KEPT)
        aside = {n: _like(n) for n in written}
        before = [_everywhere(aside[n], n) for n in written]
        after = [_everywhere(n, n, Read(self.condition, ()), aside[n]) for n in written]
        return Seq((*before, inner, *after))


_KEPT = (Role.PARAMETER, Role.STATE, Role.PLACEHOLDER)


def _like(n: TNode) -> TNode:
    return TNode(f"{n.label}.before", Role.RESULT, lambda: n.dims, lambda: n.precision, where=n.where)


def _everywhere(lhs: TNode, source: TNode, condition: Read | None = None, otherwise: TNode | None = None) -> Assign:
    """`lhs = source`, or `lhs = where(condition, source, otherwise)`, in every cell."""
    loops = tuple(Sym(f"i{n}", 0, size - 1) for n, size in enumerate(lhs.dims))
    at = tuple(map(Affine.of, loops))
    value: Value = Read(source, at)
    if condition is not None and otherwise is not None:
        value = Apply(BY_NAME["where"], (condition, value, Read(otherwise, at)))
    return Assign(lhs, None, True, (Piece(loops, at, value),))
