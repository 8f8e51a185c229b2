"""The training mode: whether expressions, and the code that is generated from them, are for training or for inference.

The mode is a context variable with three values: True, False, and None where nothing decides. Code that is generated
where nothing decides is for inference; the functions of `train` generate code for training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, contextmanager
from contextvars import ContextVar, Token
from typing import TypeVar

from ocannl.base.errors import ArgumentError
from ocannl.base.traceback_filtering import public_class

T = TypeVar("T")

training_mode: ContextVar[bool | None] = ContextVar("ocannl_training", default=None)


@public_class()
class training(ContextDecorator):
    """Decides whether what is built, and what code is generated, inside is for training or for inference.

    with oc.training(False):
        y = net(x)
    """

    def __init__(self, mode: bool = True) -> None:
        self.mode = checked_mode(mode)
        self._tokens: list[Token[bool | None]] = []

    def _recreate_cm(self) -> training:
        return training(self.mode)  # one per call of a decorated function: calls may run in several threads

    def __enter__(self) -> None:
        self._tokens.append(training_mode.set(self.mode))

    def __exit__(self, *exception: object) -> None:
        training_mode.reset(self._tokens.pop())


def checked_mode(mode: object) -> bool:
    if not isinstance(mode, bool):
        raise ArgumentError(f"`training` is True or False, not {mode!r}"[:200])
    return mode


@contextmanager
def mode_set(mode: bool | None) -> Iterator[None]:
    """Sets the mode, to undecided as well."""
    token = training_mode.set(mode)
    try:
        yield
    finally:
        training_mode.reset(token)


def generates_training() -> bool:
    """Whether code that is generated now is for training."""
    return training_mode.get() is True


def in_current_mode(step: Callable[[], T]) -> Callable[[], T]:
    """A step of code that is generated later, in the mode of now."""
    mode = training_mode.get()

    def generate() -> T:
        with mode_set(mode):
            return step()

    return generate
