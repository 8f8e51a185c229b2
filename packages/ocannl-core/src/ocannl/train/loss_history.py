"""The losses of the last steps, which the compiled step records, so that the loop need not read each of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ocannl.ir.affine import Affine, Sym, SymKind
from ocannl.ir.assign import Assign, Comp, IndirectIndex, Piece, Read
from ocannl.ir.precision import float32, int32, promote
from ocannl.lang.core.leaf_constructors import node
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.term_functions import where
from ocannl.lang.ops.elementwise_decorator import cellwise
from ocannl.lang.record.code import Code, seq
from ocannl.lang.record.recorder import cd
from ocannl.runtime.context import Context

CAPACITY = 1024  # losses


class LossHistory:
    """A ring buffer of losses. `code` stores the sum of the cells of a loss, and is part of a training step."""

    def __init__(self, loss: Tensor) -> None:
        kind = promote(loss.dtype, float32)
        self._losses = node("recorded_losses", dtype=kind, batch=[], input=[], output=[CAPACITY])
        self._total = node("recorded_loss", dtype=kind, batch=[], input=[], output=[])
        self._slot = node("recorded_slot", dtype=int32, batch=[], input=[], output=[])
        with cd() as total:
            self._total[...] = loss.sum() if loss.dims else loss
        with cd() as advance:
            self._slot[...] = cellwise("next_slot", lambda n: where(n + 1 >= CAPACITY, 0, n + 1), self._slot)
        self.code = seq(total, Code((self._store,)), advance)

    def _store(self) -> Iterator[Comp]:
        slot = Sym("slot", 0, CAPACITY - 1, SymKind.INDIRECT)
        index = IndirectIndex(slot, Read(self._slot.node, ()))
        piece = Piece((), (Affine.of(slot),), Read(self._total.node, ()), indirect=(index,))
        yield Assign(self._losses.node, None, False, (piece,))

    def last(self, ctx: Context, count: int) -> list[float]:
        """The losses of the last steps, at most `CAPACITY` of them."""
        end = int(ctx[self._slot])
        losses: list[float] = np.roll(ctx[self._losses], -end)[CAPACITY - count :].tolist()
        return losses
