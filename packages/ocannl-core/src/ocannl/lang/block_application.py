"""Applications of blocks: the members that they register or recall, and the states that they update.

The application in progress is a context variable: `oc.param` calls `recalled_parameter` and `register_parameter`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, Protocol

from ocannl.base.errors import CodeError
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.training_mode import training_mode

Member = tuple[str, Any]
"""A parameter, a state or an inner block of a block, with its name."""


class OwningBlock(Protocol):
    """A block, as seen by its applications."""

    label: str
    stream: str
    draw_count: int
    members: list[Member] | None
    asks_mode: bool
    members_by_mode: dict[bool | None, Sequence[Member]]

    def path_of(self, member: str) -> str: ...


class BlockApplication:
    """One application of a block.

    The first application registers `members`. A repeated one matches them in order, `recalled` of them so far. Blocks
    whose function asks for the training mode may use other members in each mode: the first application in another mode
    matches members by name, and registers those that are new.

    `latest` maps states to their current value in this application, `effects` are the updates of states in it, and
    `updated` is the tensor that was updated in place last.
    """

    __slots__ = ("block", "effects", "latest", "members", "outer", "recalled", "requests", "updated")

    def __init__(self, block: OwningBlock, outer: BlockApplication | None) -> None:
        self.block = block
        self.outer = outer
        self.members: list[Member] = []
        self.recalled = 0
        self.requests: Counter[tuple[str, str]] = Counter()
        self.latest: dict[Tensor, Tensor] = {}
        self.effects: list[Tensor] = []
        self.updated: Tensor | None = None

    @property
    def expected(self) -> Sequence[Member] | None:
        """The members that this application must request in this order, None if it may request others."""
        if self.block.members_by_mode:
            return self.block.members_by_mode.get(training_mode.get())
        return self.block.members

    @property
    def is_first(self) -> bool:
        return self.block.members is None

    def recall(self, name: str, kind: str) -> Any:
        """The member that an earlier application registered at this point, None if there is none.

        Raises: CodeError if the application must request another one, or no more.
        """
        name = _base_name(name)
        if self.is_first:
            return None
        expected = self.expected
        if expected is None:
            return self._recall_by_name(name, kind)
        if self.recalled == len(expected):
            raise CodeError(
                f"block `{self.block.label}` owns {', '.join(f'`{m}`' for m, _ in expected) or 'nothing'} "
                f"since its first application, and now requests one more, {kind} `{name}`"
            )
        registered, member = expected[self.recalled]
        if _base_name(registered) != name or kind_of(member) != kind:
            raise CodeError(
                f"block `{self.block.label}` created `{registered}` in its first application, "
                f"and now requests {kind} `{name}`"
            )
        self.recalled += 1
        return member

    def _recall_by_name(self, name: str, kind: str) -> Any:
        """The n-th member of a name and kind, for the n-th request."""
        assert self.block.members is not None
        matching = [row for row in self.block.members if (_base_name(row[0]), kind_of(row[1])) == (name, kind)]
        number = self.requests[name, kind]
        self.requests[name, kind] += 1
        if number >= len(matching):
            return None
        self.members.append(matching[number])
        return matching[number][1]

    def register(self, name: str, member: Any) -> str:
        """Adds a member, and returns its name, made unique by a suffix `_2`, `_3`, ..."""
        registered = self.members if self.block.members is None else self.block.members
        taken = {label for label, _ in registered}
        unique, n = name, 2
        while unique in taken:
            unique, n = f"{name}_{n}", n + 1
        self.members.append((unique, member))
        if self.block.members is not None:
            self.block.members.append((unique, member))
        return unique

    def register_leaf(self, name: str, member: Tensor) -> None:
        """Adds a parameter or a state, and sets its path and its random stream."""
        unique = self.register(name, member)
        member.with_label(unique)
        member.node.path = self.block.path_of(unique)
        member.stream = f"{self.block.stream}.{unique}"

    def register_outer_block(self, block: OwningBlock) -> None:
        """Makes a block that was created outside, and is applied inside, a member of this block too."""
        expected = None if self.is_first else self.expected
        if expected is not None:
            if self.recalled < len(expected) and expected[self.recalled][1] is block:
                self.recalled += 1
        elif all(member is not block for _, member in self.members):
            registered = [row for row in self.block.members or () if row[1] is block]
            if registered:
                self.members.append(registered[0])
            else:
                self.register(block.label, block)

    def ask_mode(self) -> bool:
        """The training mode; where nothing decides, this application is for training, and repeated for inference."""
        mode = training_mode.get()
        if mode is None:
            mode = True
            training_mode.set(mode)  # until the application ends
        self.block.asks_mode = True
        return mode

    def finish(self) -> None:
        """Ends the application. Raises: CodeError if a repeated one used fewer members than the first."""
        expected = None if self.is_first else self.expected
        if expected is not None and self.recalled < len(expected):
            missing = expected[self.recalled][0]
            raise CodeError(f"block `{self.block.label}` did not use `{missing}`, which its first application created")
        if self.is_first:
            self.block.members = list(self.members)
        if self.block.asks_mode and expected is None:
            self.block.members_by_mode[training_mode.get()] = tuple(self.members)


def kind_of(member: Any) -> str:
    """The kind of a member, as in errors."""
    if not isinstance(member, Tensor):
        return "block"
    return "parameter" if member.is_parameter else "state"


current_application: ContextVar[BlockApplication | None] = ContextVar("ocannl_applying", default=None)


@contextmanager
def separate_updates() -> Iterator[Sequence[Tensor]]:
    """Collects the updates of states that the block in progress makes inside, and not in inner blocks. They run with
    what is built inside, and the values of states before and after are read outside of it."""
    active = current_application.get()
    if active is None:
        yield []
        return
    effects, latest = active.effects, dict(active.latest)
    updates: list[Tensor] = []
    active.effects = updates
    try:
        yield updates
    finally:
        updated = {update.state_access.state for update in updates if update.state_access is not None}
        active.effects = effects
        active.latest = {state: value for state, value in latest.items() if state not in updated}


def _base_name(name: str) -> str:
    head, _, tail = name.rpartition("_")
    return head if head and tail.isdigit() and int(tail) > 1 else name


def recalled_parameter(name: str) -> Tensor | None:
    """The parameter that an earlier application of the current block created at this point; None if there is none."""
    active = current_application.get()
    parameter: Tensor | None = None if active is None else active.recall(name, "parameter")
    return parameter


def register_parameter(name: str, parameter: Tensor) -> None:
    """Registers the parameter with the current block, if there is one, and sets its path and its random stream."""
    active = current_application.get()
    if active is not None:
        active.register_leaf(name, parameter)
    elif not parameter.is_named:
        parameter.stream = numbered_stream(name)


def is_training() -> bool:
    """Whether the block that is applied is built for training: to be asked by its function.

    Where nothing has decided, the function is called twice, once for each answer, and the code that is generated from
    its results chooses: code of `train` is for training, all other code for inference.
    Raises: CodeError outside of blocks, if nothing has decided.
    """
    active, mode = current_application.get(), training_mode.get()
    if active is not None:
        return active.ask_mode()
    if mode is None:
        raise CodeError(
            "outside of blocks nothing decides whether an expression is for training: decorate the function that asks "
            "with @oc.op, or decide by `with oc.training(True):`"
        )
    return mode


def is_within_current_block() -> Callable[[], bool]:
    """A function that tells, at a later time, whether the block that is now applied is being applied again, or still.

    Without a block it is always true.
    """
    active = current_application.get()
    if active is None:
        return lambda: True
    owner = active.block

    def is_within() -> bool:
        application = current_application.get()
        while application is not None and application.block is not owner:
            application = application.outer
        return application is not None

    return is_within


def next_stream() -> tuple[str, int] | None:
    """The stream key (path, ordinal) of the next random draw of the current block, counted over all applications."""
    active = current_application.get()
    if active is None:
        return None
    active.block.draw_count += 1
    return f"{active.block.stream}()", active.block.draw_count - 1


_unlabelled: defaultdict[str, Iterator[int]] = defaultdict(lambda: count(1))


def numbered_stream(name: str) -> str:
    """The stream of a block or parameter without a label: such streams are numbered, so that no two are equal."""
    return f"{name}#{next(_unlabelled[name])}"
