"""Tensors that have one expression for training and another for inference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import Any

from ocannl.base.errors import CodeError
from ocannl.infer.logic import EQUAL, Logic
from ocannl.infer.parse import parse
from ocannl.ir.assign import Comp
from ocannl.ir.ops import ADD
from ocannl.lang.core import nested
from ocannl.lang.core.operation import Operation, Slots
from ocannl.lang.core.tensor import Tensor, apply
from ocannl.lang.core.training_mode import generates_training, in_current_mode


class ModeSwitch(Tensor):
    """The first operand in code for training, the second in code for inference; only that one is computed."""

    __slots__ = ()

    @property
    def active_operands(self) -> tuple[Tensor, ...]:
        assert self.application is not None
        return (self.application.operands[_active()],)

    def value_step(self, reached: Set[Tensor]) -> Callable[[], Iterable[Comp]]:
        return in_current_mode(lambda: list(self.value_code()))

    def gradient_step(self, reached: Set[Tensor]) -> Callable[[], Iterable[Comp]]:
        return in_current_mode(lambda: list(self.gradient_code()))


def _active() -> int:
    return 0 if generates_training() else 1


def _forward(s: Slots) -> None:
    s.result().write(None, True, s.operands[_active()])


def _gradient(s: Slots) -> None:
    s.operand_gradient(_active() + 1).write(ADD, False, s.gradient())


_SWITCH = Operation(
    "training_mode",
    Logic("training_mode", parse("...|...->...; ...|...->... => ...|...->..."), (EQUAL, EQUAL), needs_axes=False),
    _forward,
    _gradient,
    text="{0}",
)


def by_mode(training: Tensor, inference: Tensor, label: str | None = None) -> Tensor:
    """A tensor that is `training` in code for training, and `inference` in other code."""
    return apply(_SWITCH, [training, inference], label=label, kind=ModeSwitch)


def switched(training: Any, inference: Any, block: str) -> Any:
    """What a block returns, given what it returns for training and for inference: the tensors in it are switched."""
    pairs = list(zip(nested.leaves(training), nested.leaves(inference), strict=False))
    if nested.outline(training) != nested.outline(inference) or not all(map(_fits, pairs)):
        raise CodeError(
            f"block `{block}` returns {nested.outline(training)} in training and {nested.outline(inference)} in "
            "inference, with other values than tensors; decide at its application, by training=True or training=False"
        )
    return nested.rebuilt(training, [a if a is b or not isinstance(a, Tensor) else by_mode(a, b) for a, b in pairs])


def _fits(pair: tuple[object, object]) -> bool:
    a, b = pair
    return a is b or (isinstance(a, Tensor) and isinstance(b, Tensor)) or (type(a) is type(b) and bool(a == b))
