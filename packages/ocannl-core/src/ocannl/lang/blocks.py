"""Blocks: tensor functions that own parameters.

    layer = mlp_layer(hidden=16)    configured: owns nothing yet
    y = layer(x)                    the first application makes the parameters and the inner blocks
    z = layer(x2)                   later ones meet the same, matched by name and order

The application in progress is ambient; `recall` and `own` are how `oc.param` takes part in it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from contextvars import ContextVar
from threading import RLock
from types import MethodType
from typing import TYPE_CHECKING, Any, overload

from ocannl.base.errors import CodeError
from ocannl.ir.tnode import next_id
from ocannl.lang.core.context_vars import checked_label, site
from ocannl.lang.core.paths import unique
from ocannl.lang.record.code import recorder

if TYPE_CHECKING:
    from ocannl.lang.core.tensor import Tensor


class Applying:
    """One application of a block: what it owns so far, and how far a later application has recalled it."""

    __slots__ = ("block", "met", "members", "path", "recalling")

    def __init__(self, block: Block, outer: Applying | None) -> None:
        self.block = block
        self.path: str = f"{outer.path}.{block.label}" if outer is not None else block.label
        self.recalling = block.members is not None
        self.members: list[tuple[str, Any]] = block.members if block.members is not None else []
        self.met = 0

    def recall(self, name: str, kind: str) -> Any:
        """The next member of a later application; its name must be the one of the first."""
        if self.met == len(self.members):
            raise CodeError(
                f"block `{self.block.label}` owns {', '.join(f'`{known}`' for known, _ in self.members) or 'nothing'} "
                f"since it was first applied, and asks now for one more, {kind} `{name}`"
            )
        known, member = self.members[self.met]
        if _stem(known) != name or isinstance(member, Block) != (kind == "block"):
            raise CodeError(
                f"block `{self.block.label}` made `{known}` when it was first applied, and asks now for {kind} `{name}`"
            )
        self.met += 1
        return member

    def own(self, name: str, member: Any) -> str:
        taken = {known for known, _ in self.members}
        unique, n = name, 2
        while unique in taken:
            unique, n = f"{name}_{n}", n + 1
        self.members.append((unique, member))
        return unique

    def meet(self, block: Block) -> None:
        """A block that was made outside is applied here: it belongs to this one too."""
        if not self.recalling:
            if all(member is not block for _, member in self.members):
                self.own(block.label, block)
        elif self.met < len(self.members) and self.members[self.met][1] is block:
            self.met += 1

    def finish(self) -> None:
        if self.recalling and self.met < len(self.members):
            missing = self.members[self.met][0]
            raise CodeError(f"block `{self.block.label}` did not meet `{missing}`, which its first application made")
        self.block.members = self.members


applying: ContextVar[Applying | None] = ContextVar("ocannl_applying", default=None)


def _stem(name: str) -> str:
    head, _, tail = name.rpartition("_")
    return head if head and tail.isdigit() and int(tail) > 1 else name


def recall(name: str) -> Tensor | None:
    """The parameter that an earlier application of the current block made here, if this is a later one."""
    active = applying.get()
    if active is None or not active.recalling:
        return None
    found: Tensor = active.recall(_stem(name), "parameter")
    return found


def own(name: str, made: Tensor) -> None:
    """The current block, if any, owns the parameter from now on."""
    active = applying.get()
    if active is not None:
        unique = active.own(name, made)
        made.with_label(unique)


def stream() -> tuple[str, int] | None:
    """What the next random numbers that the current block draws, in this or another application, are keyed by."""
    active = applying.get()
    if active is None:
        return None
    active.block.draws += 1
    return f"{active.path}()", active.block.draws - 1


class Block:
    """A configured tensor function. Its parameters are made when it is first applied."""

    __slots__ = ("arguments", "draws", "function", "label", "making", "members")

    def __init__(self, function: Callable[..., Any], arguments: Mapping[str, Any], label: str) -> None:
        self.function = function
        self.arguments = arguments
        self.label = label
        self.draws = 0
        self.members: list[tuple[str, Any]] | None = None
        self.making = RLock()  # of several threads, one makes what the others then meet

    @property
    def params(self) -> Mapping[str, Tensor]:
        """The parameters by dotted path, in the order in which the first application made them."""
        if self.members is None:
            raise CodeError(f"block `{self.label}` has no parameters before it is first applied to something")
        paths: dict[Tensor, str] = {}
        for path, p in self._walk(""):
            paths.setdefault(p, path)  # what two inner blocks share is called as the first of them calls it
        return unique(paths)

    def _walk(self, prefix: str) -> Iterator[tuple[str, Tensor]]:
        for name, member in self.members or ():
            if isinstance(member, Block):
                yield from member._walk(f"{prefix}{name}.")
            else:
                yield f"{prefix}{name}", member

    def __call__(self, *inputs: Any, label: str | None = None, **named: Any) -> Any:
        name = None if label is None else checked_label(label)
        if named:
            inputs = self._in_order(inputs, named)
        outer, first = applying.get(), next_id()
        if outer is not None:
            outer.meet(self)
        check_call(self.function, inputs, self.arguments)
        with self.making if self.members is None else nullcontext():
            result = self._apply(outer, inputs)
        if outer is None:
            for path, p in self.params.items():
                p.path = path
        made = getattr(result, "application", None) is not None and result.node.id > first  # else it is handed through
        if made and name is not None:
            return result.with_label(name)
        if made:
            given = next((i.label for i in inputs if hasattr(i, "rename_if_unnamed")), "")
            result.rename_if_unnamed(f"{self.label}_{given}" if given else self.label)
        return result

    def _in_order(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """All positional arguments, of which some are given by name."""
        signature = _signature(self.function)
        for name in named:
            p = signature.parameters.get(name)
            if p is None or p.kind is not p.POSITIONAL_OR_KEYWORD:
                raise CodeError(
                    f"`{name}` is no positional argument of `{called(self.function)}{signature}`, "
                    f"and block `{self.label}` is configured: its application takes those alone"
                )
        check_call(self.function, inputs, {**self.arguments, **named})
        return signature.bind(*inputs, **self.arguments, **named).args

    def _apply(self, outer: Applying | None, inputs: tuple[Any, ...]) -> Any:
        mine = Applying(self, outer)
        tokens = applying.set(mine), recorder.set(None)
        try:
            result = self.function(*inputs, **self.arguments)
            mine.finish()
        finally:
            applying.reset(tokens[0])
            recorder.reset(tokens[1])
        return result

    def __repr__(self) -> str:
        owned = "not applied yet" if self.members is None else f"{len(self.params)} parameters"
        return f"<block {self.label}: {owned}>"

    def __reduce_ex__(self, protocol: object) -> Any:
        raise CodeError("blocks cannot be copied or pickled; save their parameters with oc.save")


class Function:
    """What `oc.op` makes of a function: called with tensors it is applied at once, with configuration alone it is a
    `Block`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        if is_suspended(function):
            name = called(function, "lambda")
            raise CodeError(f"`{name}` is a generator or a coroutine; oc.op takes plain functions")
        self.function = function
        functools.update_wrapper(self, function)
        self.signature = _signature(function)
        parameters = self.signature.parameters
        if "label" in parameters:
            raise CodeError(f"`{called(function)}{self.signature}`: every oc.op function takes `label=`; rename yours")
        positional = [p for p in parameters.values() if p.kind in _POSITIONAL]
        self.takes_tensors = bool(positional)
        self.required = {p.name for p in positional if p.default is p.empty and p.kind is not p.VAR_POSITIONAL}

    def __call__(self, *inputs: Any, label: str | None = None, **arguments: Any) -> Any:
        at_once = bool(inputs) or not self.takes_tensors or not self.required.isdisjoint(arguments)
        check_call(self.function, inputs if at_once else None, arguments)
        if at_once:
            whole = self.signature.bind(*inputs, **arguments)  # a tensor may be given by its name
            inputs, arguments = whole.args, whole.kwargs
        block = self._block(None if label is None else checked_label(label), arguments, at_once)
        return block(*inputs) if at_once else block

    def _block(self, label: str | None, arguments: Mapping[str, Any], at_once: bool) -> Block:
        name = label or called(self.function)
        outer = applying.get()
        if outer is None:
            # what is applied at once has no name of its own: the name it is bound to is that of its result
            bound = "" if label or at_once else site().name
            return Block(self.function, arguments, bound or name)
        if outer.recalling:
            found: Block = outer.recall(_stem(name), "block")
            found.arguments = arguments  # what is owned stays, what is configured is that of this application
            return found
        block = Block(self.function, arguments, name)
        block.label = outer.own(name, block)
        return block

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else Function(MethodType(self.function, instance))

    def __repr__(self) -> str:
        return f"<oc.op {called(self.function)}{self.signature}>"


_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
)  # fmt: skip


def is_suspended(function: Callable[..., Any]) -> bool:
    """Whether calling it does not run it to its end."""
    tests = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    return any(test(function) for test in tests)


def check_call(function: Callable[..., Any], inputs: tuple[Any, ...] | None, arguments: Mapping[str, Any]) -> None:
    """Refuses arguments that do not fit; `inputs` None: the tensors come later, all configuration is there."""
    signature = _signature(function)
    try:
        signature.bind_partial(*(inputs or ()), **arguments)
        for p in signature.parameters.values():
            if p.kind is p.KEYWORD_ONLY and p.default is p.empty and p.name not in arguments:
                raise TypeError(f"missing a required argument: '{p.name}'")
        if inputs is not None:
            signature.bind(*inputs, **arguments)
    except TypeError as wrong:
        raise CodeError(f"`{called(function)}{signature}`: {wrong}") from None


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except ValueError:
        raise CodeError(f"`{called(function)}` does not say what arguments it takes; wrap it in a function") from None


def called(function: Callable[..., Any], unnamed: str = "block") -> str:
    """What a function is called in labels and errors."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    return unnamed if name == "<lambda>" else str(name)


@overload
def op(function: Callable[..., Any]) -> Function: ...
@overload
def op() -> Callable[[Callable[..., Any]], Function]: ...
def op(function: Callable[..., Any] | None = None) -> Any:
    """Declares a tensor function with parameters.

    Positional arguments are tensors, keyword-only ones configuration. Called without positional arguments it gives a
    configured `Block`; called with them it configures and applies at once. A function without positional parameters is
    applied at once.
    """
    if function is None:
        return op
    if not callable(function):
        raise CodeError(f"oc.op decorates functions, not {function!r}")
    return Function(function)
