"""Blocks: tensor functions that own parameters.

    layer = mlp_layer(hidden=16)    configured: owns nothing yet
    y = layer(x)                    the first application creates the parameters and the inner blocks
    z = layer(x2)                   later applications reuse them, matched by name and order

The application in progress is a context variable: `oc.param` calls `recalled_parameter` and `register_parameter`.
"""

from __future__ import annotations

import functools
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from contextvars import ContextVar
from itertools import count
from threading import RLock
from types import MethodType
from typing import TYPE_CHECKING, Any, overload

from ocannl.base.errors import CodeError
from ocannl.base.traceback_filtering import public_class
from ocannl.ir.tnode import next_id
from ocannl.lang.core.context_vars import checked_label, site
from ocannl.lang.core.paths import unique
from ocannl.lang.record.code import recorder

if TYPE_CHECKING:
    from ocannl.lang.core.tensor import Tensor


class BlockApplication:
    """One application of a block.

    The first application registers `members`; a repeated one matches them in order, `recalled` of them so far.
    """

    __slots__ = ("block", "is_repeated", "members", "outer", "recalled")

    def __init__(self, block: Block, outer: BlockApplication | None) -> None:
        self.block = block
        self.outer = outer
        self.is_repeated = block.members is not None
        self.members: list[tuple[str, Any]] = block.members if block.members is not None else []
        self.recalled = 0

    def next_member(self, name: str, kind: str) -> Any:
        """The member that the first application registered at this point. Raises: CodeError if name or kind differ."""
        if self.recalled == len(self.members):
            raise CodeError(
                f"block `{self.block.label}` owns {', '.join(f'`{m}`' for m, _ in self.members) or 'nothing'} "
                f"since its first application, and now requests one more, {kind} `{name}`"
            )
        registered, member = self.members[self.recalled]
        if _base_name(registered) != name or isinstance(member, Block) != (kind == "block"):
            raise CodeError(
                f"block `{self.block.label}` created `{registered}` in its first application, "
                f"and now requests {kind} `{name}`"
            )
        self.recalled += 1
        return member

    def register(self, name: str, member: Any) -> str:
        """Adds a member, and returns its name, made unique by a suffix `_2`, `_3`, ..."""
        taken = {registered for registered, _ in self.members}
        unique, n = name, 2
        while unique in taken:
            unique, n = f"{name}_{n}", n + 1
        self.members.append((unique, member))
        return unique

    def register_outer_block(self, block: Block) -> None:
        """Makes a block that was created outside, and is applied inside, a member of this block too."""
        if not self.is_repeated:
            if all(member is not block for _, member in self.members):
                self.register(block.label, block)
        elif self.recalled < len(self.members) and self.members[self.recalled][1] is block:
            self.recalled += 1

    def finish(self) -> None:
        """Ends the application. Raises: CodeError if a repeated one used fewer members than the first."""
        if self.is_repeated and self.recalled < len(self.members):
            missing = self.members[self.recalled][0]
            raise CodeError(f"block `{self.block.label}` did not use `{missing}`, which its first application created")
        self.block.members = self.members


current_application: ContextVar[BlockApplication | None] = ContextVar("ocannl_applying", default=None)


def _base_name(name: str) -> str:
    head, _, tail = name.rpartition("_")
    return head if head and tail.isdigit() and int(tail) > 1 else name


def recalled_parameter(name: str) -> Tensor | None:
    """The parameter that the first application of the current block created at this point; None in a first one."""
    active = current_application.get()
    if active is None or not active.is_repeated:
        return None
    parameter: Tensor = active.next_member(_base_name(name), "parameter")
    return parameter


def register_parameter(name: str, parameter: Tensor) -> None:
    """Registers the parameter with the current block, if there is one, and sets its path and its random stream."""
    active = current_application.get()
    if active is not None:
        unique = active.register(name, parameter)
        parameter.with_label(unique)
        parameter.path = active.block.path_of(unique)
        parameter.stream = f"{active.block.stream}.{unique}"
    elif not parameter.is_named:
        parameter.stream = numbered_stream(name)


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


@public_class()
class Block:
    """A configured tensor function. The first application creates its parameters.

    `path` is the path of the block, empty for a block without a label outside of others; `stream` the prefix of the
    random streams in it. Both are fixed when the block is configured: they depend on labels, and for blocks without a
    label on the number of such blocks before.
    """

    __slots__ = ("arguments", "build_lock", "draw_count", "function", "label", "members", "path", "stream")

    def __init__(
        self, function: Callable[..., Any], arguments: Mapping[str, Any], label: str, path: str, stream: str
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.label = label
        self.path = path
        self.stream = stream
        self.draw_count = 0
        self.members: list[tuple[str, Any]] | None = None
        self.build_lock = RLock()  # so that concurrent first applications create the members once

    def path_of(self, member: str) -> str:
        return f"{self.path}.{member}" if self.path else member

    @property
    def params(self) -> Mapping[str, Tensor]:
        """The parameters by dotted path inside the block, in order of creation."""
        if self.members is None:
            raise CodeError(f"block `{self.label}` has no parameters before it is first applied to something")
        paths: dict[Tensor, str] = {}
        for path, p in self._named_parameters(""):
            paths.setdefault(p, path)  # a parameter shared by two inner blocks gets the first path
        return unique(paths)

    def _named_parameters(self, prefix: str) -> Iterator[tuple[str, Tensor]]:
        for name, member in self.members or ():
            if isinstance(member, Block):
                yield from member._named_parameters(f"{prefix}{name}.")
            else:
                yield f"{prefix}{name}", member

    def __call__(self, *inputs: Any, label: str | None = None, **keywords: Any) -> Any:
        name = None if label is None else checked_label(label)
        if keywords:
            inputs = self._bind_by_name(inputs, keywords)
        outer, first = current_application.get(), next_id()
        if outer is not None:
            outer.register_outer_block(self)
        check_arguments(self.function, inputs, self.arguments)
        with self.build_lock if self.members is None else nullcontext():
            result = self._apply(outer, inputs)
        is_new = getattr(result, "application", None) is not None and result.node.id > first  # no input passed on
        if is_new and name is not None:
            return result.with_label(name)
        if is_new:
            input_label = next((i.label for i in inputs if hasattr(i, "rename_if_unnamed")), "")
            result.rename_if_unnamed(f"{self.label}_{input_label}" if input_label else self.label)
        return result

    def _bind_by_name(self, inputs: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[Any, ...]:
        """All positional arguments in order, including those passed by keyword."""
        signature = _signature(self.function)
        for name in keywords:
            p = signature.parameters.get(name)
            if p is None or p.kind is not p.POSITIONAL_OR_KEYWORD:
                raise CodeError(
                    f"`{name}` is no positional argument of `{function_name(self.function)}{signature}`, "
                    f"and block `{self.label}` is configured: its application takes those alone"
                )
        check_arguments(self.function, inputs, {**self.arguments, **keywords})
        return signature.bind(*inputs, **self.arguments, **keywords).args

    def _apply(self, outer: BlockApplication | None, inputs: tuple[Any, ...]) -> Any:
        application = BlockApplication(self, outer)
        tokens = current_application.set(application), recorder.set(None)
        try:
            result = self.function(*inputs, **self.arguments)
            application.finish()
        finally:
            current_application.reset(tokens[0])
            recorder.reset(tokens[1])
        return result

    def __repr__(self) -> str:
        state = "not applied yet" if self.members is None else f"{len(self.params)} parameters"
        return f"<block {self.label}: {state}>"

    def __reduce_ex__(self, protocol: object) -> Any:
        raise CodeError("blocks cannot be copied or pickled; read their parameters, as in ctx[p]")


@public_class()
class BlockFunction:
    """A function decorated with `oc.op`.

    A call with tensors applies the function; a call with configuration alone returns a configured `Block`.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if is_suspendable(function):
            name = function_name(function, "lambda")
            raise CodeError(f"`{name}` is a generator or a coroutine; oc.op takes plain functions")
        self.function = function
        functools.update_wrapper(self, function)
        self.signature = _signature(function)
        parameters = self.signature.parameters
        if "label" in parameters:
            name = function_name(function)
            raise CodeError(f"`{name}{self.signature}`: every oc.op function takes `label=`; rename yours")
        positional = [p for p in parameters.values() if p.kind in _POSITIONAL]
        self.takes_tensors = bool(positional)
        self.required = {p.name for p in positional if p.default is p.empty and p.kind is not p.VAR_POSITIONAL}

    def __call__(self, *inputs: Any, label: str | None = None, **arguments: Any) -> Any:
        at_once = bool(inputs) or not self.takes_tensors or not self.required.isdisjoint(arguments)
        check_arguments(self.function, inputs if at_once else None, arguments)
        if at_once:
            bound = self.signature.bind(*inputs, **arguments)  # tensors may be passed by keyword
            inputs, arguments = bound.args, bound.kwargs
        block = self._block(None if label is None else checked_label(label), arguments, at_once)
        return block(*inputs) if at_once else block

    def _block(self, label: str | None, arguments: Mapping[str, Any], at_once: bool) -> Block:
        # the variable that an immediate application is assigned to names its result, not the block
        given = label or ("" if at_once else site().name)
        name = given or function_name(self.function)
        outer = current_application.get()
        if outer is None:
            stream = given or numbered_stream(name)
            return Block(self.function, arguments, name, given, stream)
        if outer.is_repeated:
            block: Block = outer.next_member(_base_name(name), "block")
            block.arguments = arguments  # members are reused, the configuration is that of this application
            return block
        block = Block(self.function, arguments, name, "", "")
        block.label = outer.register(name, block)
        block.path, block.stream = outer.block.path_of(block.label), f"{outer.block.stream}.{block.label}"
        return block

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else BlockFunction(MethodType(self.function, instance))

    def __repr__(self) -> str:
        return f"<oc.op {function_name(self.function)}{self.signature}>"


_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
)  # fmt: skip


def is_suspendable(function: Callable[..., Any]) -> bool:
    """Whether the function is a generator or a coroutine, so that a call does not run its body."""
    tests = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    return any(test(function) for test in tests)


def check_arguments(function: Callable[..., Any], inputs: tuple[Any, ...] | None, arguments: Mapping[str, Any]) -> None:
    """Raises CodeError for arguments that do not match the signature.

    With `inputs` None the tensors are not known yet; the configuration is complete.
    """
    signature = _signature(function)
    try:
        signature.bind_partial(*(inputs or ()), **arguments)
        for p in signature.parameters.values():
            if p.kind is p.KEYWORD_ONLY and p.default is p.empty and p.name not in arguments:
                raise TypeError(f"missing a required argument: '{p.name}'")
        if inputs is not None:
            signature.bind(*inputs, **arguments)
    except TypeError as error:
        raise CodeError(f"`{function_name(function)}{signature}`: {error}") from None


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except ValueError:
        name = function_name(function)
        raise CodeError(f"`{name}` has no signature; wrap it in a function") from None


def function_name(function: Callable[..., Any], lambda_name: str = "block") -> str:
    """The name of a function in labels and errors; `lambda_name` for a lambda."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    return lambda_name if name == "<lambda>" else str(name)


@overload
def op(function: Callable[..., Any]) -> BlockFunction: ...
@overload
def op() -> Callable[[Callable[..., Any]], BlockFunction]: ...
def op(function: Callable[..., Any] | None = None) -> Any:
    """Declares a tensor function with parameters.

    Positional arguments are tensors, keyword-only arguments configuration. A call without positional arguments returns
    a configured `Block`; a call with positional arguments configures and applies it in one step. A function without
    positional parameters is always applied immediately.
    """
    if function is None:
        return op
    if not callable(function):
        raise CodeError(f"oc.op decorates functions, not {function!r}")
    return BlockFunction(function)
