"""Blocks: tensor functions that own parameters and states.

    layer = mlp_layer(hidden=16)    configured: owns nothing yet
    y = layer(x)                    the first application creates the parameters and the inner blocks
    z = layer(x2)                   later applications reuse them, matched by name and order
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from threading import RLock
from types import MethodType
from typing import Any, ClassVar, overload

from ocannl.base import html_text, training_names
from ocannl.base.errors import CodeError
from ocannl.base.spelling import refused, with_answers
from ocannl.base.traceback_filtering import public_class
from ocannl.ir.tnode import next_id
from ocannl.lang.block_application import BlockApplication, Member, current_application, kind_of, numbered_stream
from ocannl.lang.core import nested
from ocannl.lang.core.context_vars import block_path, checked_label, site
from ocannl.lang.core.mode_switch import switched
from ocannl.lang.core.operators import REGISTRY
from ocannl.lang.core.paths import unique
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.core.training_mode import checked_mode, mode_set, training_mode
from ocannl.lang.record.code import recorder, state_recorder


@with_answers(training_names.BLOCK)
@public_class()
class Block:
    """A configured tensor function. The first application creates its parameters.

    `path` is the path of the block, empty for a block without a label outside of others; `stream` the prefix of the
    random streams in it. Both are fixed when the block is configured: they depend on labels, and for blocks without a
    label on the number of such blocks before.
    """

    __slots__ = (
        "arguments", "asks_mode", "build_lock", "draw_count", "function", "label", "members", "members_by_mode", "path",
        "stream",
    )  # fmt: skip

    is_shared: ClassVar[bool] = False
    """Whether blocks that apply it, as it is passed to them, do not own it: their members do not depend on it."""

    def __init__(
        self, function: Callable[..., Any], arguments: Mapping[str, Any], label: str, path: str, stream: str
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.label = label
        self.path = path
        self.stream = stream
        self.draw_count = 0
        self.members: list[Member] | None = None
        self.asks_mode = False
        self.members_by_mode: dict[bool | None, Sequence[Member]] = {}
        self.build_lock = RLock()  # so that concurrent first applications create the members once

    def path_of(self, member: str) -> str:
        return f"{self.path}.{member}" if self.path else member

    @property
    def params(self) -> Mapping[str, Tensor]:
        """The parameters by dotted path inside the block, in order of creation."""
        return self._leaves_by_path("parameter")

    @property
    def states(self) -> Mapping[str, Tensor]:
        """The states by dotted path inside the block, in order of creation."""
        return self._leaves_by_path("state")

    def _leaves_by_path(self, kind: str) -> Mapping[str, Tensor]:
        if self.members is None:
            raise CodeError(f"block `{self.label}` has no {kind}s before it is first applied to something")
        paths: dict[Tensor, str] = {}
        for path, leaf in self._named_leaves(""):
            if kind_of(leaf) == kind:
                paths.setdefault(leaf, path)  # a leaf shared by two inner blocks gets the first path
        return unique(paths)

    def _named_leaves(self, prefix: str) -> Iterator[tuple[str, Tensor]]:
        for name, member in self.members or ():
            if isinstance(member, Block):
                yield from member._named_leaves(f"{prefix}{name}.")
            else:
                yield f"{prefix}{name}", member

    def __call__(self, *inputs: Any, label: str | None = None, training: bool | None = None, **keywords: Any) -> Any:
        if training is not None:
            with mode_set(checked_mode(training)):
                return self(*inputs, label=label, **keywords)
        name = None if label is None else checked_label(label)
        if keywords:
            inputs = self._bind_by_name(inputs, keywords)
        outer, first = current_application.get(), next_id()
        if outer is not None and not self.is_shared:
            outer.register_outer_block(self)
        check_arguments(self.function, inputs, self.arguments)
        with self.build_lock if self.members is None else nullcontext():
            result = self._apply(outer, inputs, first)
        self._sign(result, first)
        is_new = getattr(result, "application", None) is not None and result.node.id > first  # no input passed on
        if is_new and name is not None:
            return result.with_label(name)
        if is_new:
            input_label = next((i.label for i in inputs if hasattr(i, "rename_if_unnamed")), "")
            result.rename_if_unnamed(f"{self.label}_{input_label}" if input_label else self.label)
        return result

    def _sign(self, result: Any, first: int) -> None:
        """Notes the path of the block on the tensors that this application has built and returns."""
        for value in nested.leaves(result) if self.path else ():
            if isinstance(value, Tensor) and value.node.id > first:
                value.block_results = (*value.block_results, self.path)

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

    def _apply(self, outer: BlockApplication | None, inputs: tuple[Any, ...], first: int) -> Any:
        mode = training_mode.get()
        result = self._apply_once(outer, inputs, first, True if mode is None and self.asks_mode else mode)
        if mode is not None or not self.asks_mode:
            return result
        return switched(result, self._apply_once(outer, inputs, first, False), self.label)

    def _apply_once(
        self, outer: BlockApplication | None, inputs: tuple[Any, ...], first: int, mode: bool | None
    ) -> Any:
        application = BlockApplication(self, outer)
        tokens = current_application.set(application), recorder.set(None), state_recorder.set(state_recorder.get())
        scope = block_path.set(self.path)
        with mode_set(mode):
            try:
                result = self.function(*inputs, **self.arguments)
                application.finish()
            finally:
                block_path.reset(scope)
                current_application.reset(tokens[0])
                recorder.reset(tokens[1])
                state_recorder.reset(tokens[2])
        return self._with_effects(application, result, first)

    def _with_effects(self, application: BlockApplication, result: Any, first: int) -> Any:
        """The result, with the updates of states attached to each tensor in it."""
        if not application.effects:
            return result
        tensors = [value for value in nested.leaves(result) if isinstance(value, Tensor)]
        if not tensors and application.outer is None:
            states = ", ".join(f"`{update.label}`" for update in application.effects)
            raise CodeError(f"block `{self.label}` updates {states} and returns no tensor, whose code would do so")
        if not tensors:
            application.outer.effects += application.effects  # type: ignore[union-attr]
            return result
        updates = tuple(application.effects)
        return nested.rebuilt(result, [_with_updates(value, updates, first) for value in nested.leaves(result)])

    def __repr__(self) -> str:
        state = "not applied yet" if self.members is None else f"{len(self.params)} parameters"
        return f"<block {self.label}: {state}>"

    __getitem__ = __iter__ = refused('a block is a function: write net.params["w"] for its parameters')
    __add__ = __or__ = refused("blocks are composed by calls: write second(first(x))")

    def _repr_html_(self) -> str:
        """A table of the parameters, with their shapes as far as inferred."""
        if self.members is None:
            return html_text.title(repr(self))
        rows = [
            (path, html_text.Markup(html_text.badges(parameter.known_shape)), str(parameter.typing.current))
            for path, parameter in self.params.items()
        ]
        return html_text.title(repr(self)) + html_text.table(("parameter", "shape", "type"), rows)

    def __reduce_ex__(self, protocol: object) -> Any:
        raise CodeError(
            "blocks cannot be copied or pickled: oc.save(path, ctx, block) saves their parameters and states, and "
            "oc.load(path, ctx, block) loads them into another block of the same function"
        )


def _with_updates(value: Any, updates: tuple[Tensor, ...], first: int) -> Any:
    """A tensor with updates of states that run with its code; an operand that is passed on is copied."""
    if not isinstance(value, Tensor):
        return value
    if value.application is None or value.node.id <= first or value.state_access is not None:
        value = REGISTRY["id"](value, label=value.label)
    value.effects = tuple(dict.fromkeys((*value.effects, *updates)))
    return value


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
        self.has_training = "training" in parameters  # its own setting of this name
        if "label" in parameters:
            name = function_name(function)
            raise CodeError(f"`{name}{self.signature}`: every oc.op function takes `label=`; rename yours")
        positional = [p for p in parameters.values() if p.kind in _POSITIONAL]
        self.takes_tensors = bool(positional)
        self.required = {p.name for p in positional if p.default is p.empty and p.kind is not p.VAR_POSITIONAL}

    def __call__(self, *inputs: Any, label: str | None = None, training: bool | None = None, **arguments: Any) -> Any:
        self.require_arguments(inputs, arguments)
        if training is not None and self.has_training:
            arguments["training"] = training
        at_once = bool(inputs) or not self.takes_tensors or not self.required.isdisjoint(arguments)
        check_arguments(self.function, inputs if at_once else None, arguments)
        if at_once:
            bound = self.signature.bind(*inputs, **arguments)  # tensors may be passed by keyword
            inputs, arguments = bound.args, bound.kwargs
        if training is not None and not self.has_training and not at_once:
            name = function_name(self.function)
            raise CodeError(f"`training=` decides at an application: {name}(...)(x, training={training!r})")
        block = self._block(None if label is None else checked_label(label), arguments, at_once)
        mode = None if self.has_training and not isinstance(training, bool) else training
        return block(*inputs, training=mode) if at_once else block

    def require_arguments(self, inputs: tuple[Any, ...], arguments: Mapping[str, Any]) -> None:
        """Raises an error for arguments that a subclass refuses; called before anything else."""

    def _block(self, label: str | None, arguments: Mapping[str, Any], at_once: bool) -> Block:
        # the variable that an immediate application is assigned to names its result, not the block
        name_hint = label or ("" if at_once else site().name)
        name = name_hint or function_name(self.function)
        outer = current_application.get()
        if outer is None:
            stream = name_hint or numbered_stream(name)
            return Block(self.function, arguments, name, name_hint, stream)
        recalled: Block | None = outer.recall(name, "block")
        if recalled is not None:
            recalled.arguments = arguments  # members are reused, the configuration is that of this application
            return recalled
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
