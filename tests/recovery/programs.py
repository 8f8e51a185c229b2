"""A training step, its values by an evaluator that shares no code with the compiler, and seeded defects of passes."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.ir.loops import Proc
from ocannl.ir.tnode import TNode
from ocannl.opt import pipeline
from ocannl.runtime.context import elaborate
from ocannl.testing.evaluate import evaluate

Array = np.ndarray[Any, Any]


def usable(name: str) -> bool:
    module = f"ocannl_backend_{name}"
    return name == "numpy" or (find_spec(module) is not None and import_module(module).ocannl_backend().probe() is None)


@dataclass
class Step:
    """A training step in a context, with the values that it must compute."""

    ctx: oc.Context
    code: Any
    loss: Any
    expected: dict[TNode, Array]

    def compile(self) -> oc.Routine:
        return self.ctx.compile(self.code, name="step", keep=[self.loss])

    def check(self, routine: oc.Routine) -> None:
        """Runs the routine, and compares the loss and the parameters with the values of the evaluator."""
        routine()
        for node, value in self.expected.items():
            np.testing.assert_allclose(self.ctx.get(node), value, rtol=2e-5, atol=1e-6, err_msg=node.label)


def training_step(backend: str = "llvm") -> Step:
    """One step of a small classifier: matrix products, a softmax, reductions, gradients and updates."""
    random = np.random.default_rng(3)
    x = oc.tensor(random.normal(size=(6, 4)).astype("float32"), batch_axes=1, label="x")
    classes = np.eye(3, dtype="float32")[random.integers(0, 3, 6)]
    target = oc.tensor(classes, batch_axes=1, label="target")
    w1, b1, w2 = oc.param("w1", output=[5]), oc.param("b1", 0.1, output=[5]), oc.param("w2", output=[3])
    logits = w2 @ (w1 @ x + b1).tanh()
    shifted = logits - logits.max("...|... => ...|0")
    log_sum = shifted.exp().sum("...|... => ...|0").log()
    loss = (((log_sum - shifted) * target).sum() / 6).with_label("loss")
    code = oc.seq(train.grad_update(loss), train.sgd(loss, 0.5))
    ctx = oc.Context(backend, threads=2)
    ctx.init(loss)
    elaborated = elaborate(code)
    arrays = {x.value: ctx[x], target.value: ctx[target], **{p.value: ctx[p] for p in (w1, b1, w2)}}
    results = evaluate(elaborated.comp, arrays)
    return Step(ctx, code, loss, {t.value: results[t.value] for t in (loss, w1, b1, w2)})


def seed(patch: pytest.MonkeyPatch, pass_name: str, corruption: Callable[[Proc], Proc]) -> None:
    """Makes the pass corrupt its result."""
    original = getattr(pipeline, pass_name)
    patch.setattr(pipeline, pass_name, lambda *args, **settings: corruption(original(*args, **settings)))


def reproducer_of(message: str) -> Path:
    """Returns the file that a warning names, after a check of its permissions."""
    match = re.search(r"(\S+ocannl-defect-\w+\.json)", message)
    assert match, message
    path = Path(match[1])
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(path.parent).st_mode) == 0o700
    return path
