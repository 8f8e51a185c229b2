"""Scatters as gathers: which axes get a loop over their cells."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.loops import Update
from ocannl.ir.projections import is_injective
from ocannl.ir.walk import walk
from ocannl.lower.lower import lower
from ocannl.opt.idioms.scatter_to_gather import scatter_to_gather
from ocannl.opt.pipeline import optimize, passes

NAMES = frozenset(step.name for step in passes({}, Capabilities()))


@pytest.mark.parametrize(("groups", "channels", "multiplier"), [(4, 2, 3), (2, 4, 4), (1, 3, 2), (6, 1, 2)])
@pytest.mark.parametrize("stride", [1, 2])
def test_channels_in_groups_keep_their_loops(groups: int, channels: int, multiplier: int, stride: int) -> None:
    rng = np.random.default_rng(0)
    x = oc.param("x", rng.standard_normal((6, 6, groups * channels)))
    kernel = rng.standard_normal((3, 3, channels, groups * multiplier))
    loss = oc.conv2d(x, oc.tensor(kernel), stride=stride, padding=1, groups=groups).sum()
    assert x.grad is not None
    code = train.grad_update(loss).elaborate()
    before = optimize(lower(code.comp, "step"), {x.grad.node: "read"}, Capabilities(), without=NAMES)
    after = scatter_to_gather(before)
    (update,) = [u for u in walk(after.body) if isinstance(u, Update) and u.ref.buf.name == "x_grad" and u.ref.syms]
    assert is_injective(update.ref.indices, update.ref.syms)
    assert len(update.ref.indices[-1].terms) == (2 if groups > 1 and channels > 1 else 1)
