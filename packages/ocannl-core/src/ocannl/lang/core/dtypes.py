"""Which data type a tensor has, and who says so.

What a user says wins. The type of a result follows from its operands. A leaf of which nothing is said is a float, and
open: it takes the type that holds the results of all the expressions that it is an operand of, or the default; and it
decides about their types only where all operands are such leaves.

A type settles when something relies on it: that of a result when it becomes an operand, that of an open leaf when code
is made of it, or when somebody asks. From then on to say otherwise is an error that names both.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING

from ocannl.base.config import GRADIENT_PRECISION, PRECISION, settings
from ocannl.base.errors import DtypeError
from ocannl.base.once import Once
from ocannl.ir.precision import Precision, precision, promote
from ocannl.ir.tnode import Role, TNode

if TYPE_CHECKING:
    from ocannl.lang.core.operation import Operation
    from ocannl.lang.core.tensor import Tensor

Words = Callable[[], str]


class Typing:
    """What is known of the data type of one tensor.

    `offered` is what it counts as where it is an operand: of an open one, the default. `is_default` says that nothing
    but defaults led to it. `gradient` is the type of the gradient, if that is another.
    """

    __slots__ = ("_demands", "_fact", "_node", "_where", "gradient", "is_default", "is_open", "offered")

    def __init__(
        self, offered: Precision, *, is_open: bool = False, is_default: bool = False, gradient: Precision | None = None
    ) -> None:
        self.offered = offered
        self.is_open = is_open
        self.is_default = is_default
        self.gradient = gradient
        self._fact: Once[Precision] = Once(self.who, DtypeError)
        self._demands: list[Typing] = []
        self._node: weakref.ref[TNode] | None = None
        self._where = ""

    def given_to(self, node: TNode) -> Typing:
        """Learns whose type it is, and does not keep it alive: a leaf holds the types of all its users."""
        self._node, self._where = weakref.ref(node), node.where
        return self

    def who(self) -> str:
        """Whose type it is, and where that was made."""
        node = self._node and self._node()
        name = f"`{node.label}`" if node else "an expression"
        return f"{name} ({self._where})" if self._where else name

    @property
    def is_float(self) -> bool:
        """Known from the start: what is open is a float."""
        return self.offered.is_float

    @property
    def known(self) -> Precision:
        """The type as far as it is known; that of an open leaf may still change."""
        if self._fact.value is not None:
            return self._fact.value
        return reduce(promote, (user.known for user in self._demands)) if self._demands else self.offered

    def settle(self, author: str | Words) -> Precision:
        """The type, from now on for good: as those demanded who read it, or as `author` finds it."""
        if not self._fact:
            users = {user.settle(self.who): user for user in reversed(self._demands)}
            self._fact.settle(self.known, (lambda: _told(users)) if users else author)
            self._demands.clear()
        assert self._fact.value is not None
        return self._fact.value

    def say(self, kind: Precision, author: str | Words) -> None:
        """A user says what the type is."""
        if kind.is_float != self.is_float:
            raise DtypeError(f"{author} cannot make {kind} of {self.known}: x.astype(oc.{kind}) converts")
        self._fact.settle(kind, author)
        self.offered, self.is_open, self.is_default = kind, False, False

    def demand(self, user: Typing) -> None:
        """The leaf is read by an expression; of no interest once the type is settled."""
        if not self._fact:
            self._demands.append(user)

    def __str__(self) -> str:
        """Such as `bfloat16, settled by `h` (mlp.py:12)`."""
        return str(self._fact) if self._fact else str(self.known)


def _told(users: dict[Precision, Typing]) -> str:
    """Who demanded, and what, if that was not the same."""
    if len(users) == 1:
        return next(iter(users.values())).who()
    return " and ".join(f"{user.who()}, {kind}" for kind, user in reversed(users.items()))


def leaf(kind: Precision | None, *, gradient: object = None, has_gradient: bool = False) -> Typing:
    """The type of a leaf: the one that is said, or an open one."""
    asked = gradient if gradient is not None or not has_gradient else GRADIENT_PRECISION.get()
    wanted = None if asked is None else precision(asked)
    if wanted is not None and not wanted.is_float:
        raise DtypeError(f"gradients are floats, not {wanted}")
    if kind is None:
        return Typing(default(), is_open=True, is_default=True, gradient=wanted)
    said = Typing(kind, gradient=wanted)
    said.settle("what it was made with")
    return said


def gradient(value: Typing) -> Typing:
    """The type of a gradient: its own, or what the value demands, which is its own."""
    if value.gradient is not None:
        return leaf(value.gradient)
    open_ = Typing(value.offered, is_open=True, is_default=value.is_default)
    open_.demand(value)
    return open_


def default() -> Precision:
    """Of values of which nothing is said."""
    return precision(PRECISION.get())


def is_constant(t: Tensor) -> bool:
    """A leaf that code never writes: it stays open until all of the code is known."""
    return t.literal is not None or t.node.role is Role.DATA


def result(operation: Operation, operands: Sequence[Tensor], in_code: bool) -> Typing:
    """The type of the result of an operation, which relies on those of its operands, and demands of open leaves to take
    its own. Recorded code demands nothing: it reads leaves as they are, constants excepted."""
    kinds, weak, open_ = [], [], []
    for at, t in enumerate(operands):
        relies = not t.typing.is_open or (in_code and not is_constant(t))
        kinds.append(t.typing.settle(lambda: made.who()) if relies else t.typing.offered)
        weak.append(t.literal is not None or not relies)
        if not relies:
            open_.append((at, t))
    fallback = reduce(promote, (t.typing.offered for _, t in open_)) if open_ else None
    kind = (fallback or default()) if operation.demanded else operation.precision(kinds, weak, fallback)
    ways = [t.typing.gradient for t in operands if t.has_gradient]
    widths = [way for way in ways if way is not None]
    made = Typing(
        kind,
        is_open=operation.demanded,
        is_default=operation.demanded
        or (operation.kind is None and all(t.typing.is_default for t in operands if t.literal is None)),
        gradient=reduce(promote, widths) if widths else None,
    )
    if operation.kind is None and operation.least is None and not operation.demanded and kind.is_float:
        for at, t in open_:
            if at not in operation.weak_operands:
                t.typing.demand(made)
    return made


@contextmanager
def use_precision(values: object, gradients: object = None) -> Iterator[None]:
    """Leaves made inside, and given no data type, hold `values` unless what reads them demands another; gradients of
    parameters made inside, and what hands them on, hold `gradients`; None: what the values hold.

        with oc.use_precision("bfloat16", gradients="float32"):
            loss = model(x)
    """
    names = [None if given is None else precision(given) for given in (values, gradients)]
    for kind in names:
        if kind is not None and not kind.is_float:
            raise DtypeError(f"values and gradients of parameters are floats, not {kind}")
    chosen = [None if kind is None else kind.name for kind in names]
    with settings(precision=chosen[0], gradient_precision=chosen[1]):
        yield
