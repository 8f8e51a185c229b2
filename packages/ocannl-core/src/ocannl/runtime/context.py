"""Contexts: the arrays of nodes on one device, their validity, and the routines that share them.

A context executes its work in order, in one queue. With the setting `queue = "threaded"` execution is asynchronous:
calls of routines return immediately; reading a value and `synchronize` wait.
"""

from __future__ import annotations

import operator
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, NoReturn, SupportsIndex

import numpy as np

from ocannl.backend.api import CompiledCode, Entry, Location, SupportsCancellation, SupportsDlpack
from ocannl.backend.cpu.device import cores
from ocannl.backend.registry import resolve
from ocannl.backend.returned_values import device_count, link_program, open_device
from ocannl.base import config, log, spelling
from ocannl.base.config import AUTOTUNE, CHECK_NUMBERS, QUEUE, SEED, THREADS
from ocannl.base.errors import (
    BackendUnavailable,
    CodeError,
    MergeBufferError,
    UninitializedError,
    Unsupported,
)
from ocannl.base.forks import replace_after_fork
from ocannl.base.gc_pause import gc_paused
from ocannl.base.traceback_filtering import public_class
from ocannl.ir.assign import Comp, nodes
from ocannl.ir.loops import AccessMode
from ocannl.ir.name_mangling import Namer, identifier
from ocannl.ir.sequential_form import sequential_form
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core import graph
from ocannl.lang.record.code import Elaborated
from ocannl.runtime import host_conversion
from ocannl.runtime.benchmark import Autotuner
from ocannl.runtime.checked_routine import CheckedRoutine, nodes_to_keep
from ocannl.runtime.compile import Job
from ocannl.runtime.device_arrays import Arrays, Resident, Usage
from ocannl.runtime.program import Link, Program
from ocannl.runtime.reserved_memory import reserve_arena, reserve_states
from ocannl.runtime.routine import Routine, routine
from ocannl.runtime.routine_parts import bind_program, compile_routines
from ocannl.runtime.routine_recording import RecordedRoutine, is_recording, record
from ocannl.runtime.slabs import Slab

_log = log.logger("runtime.context")


@public_class()
@spelling.sealed(spelling.CONTEXT)
class Context:
    """Owns buffers on one device of one backend; routines compiled in it share them."""

    def __init__(
        self, backend: str | None = None, *, device: int = 0, threads: int | None = None, queue: str | None = None
    ) -> None:
        config.check()
        log.configure()
        self.threads = THREADS.get(threads) or cores()
        self.backend = resolve(backend)
        count = device_count(self.backend)
        if isinstance(device, bool) or not isinstance(device, SupportsIndex) or not 0 <= operator.index(device) < count:
            has = "device 0 only" if count == 1 else f"devices 0 to {count - 1}"
            raise BackendUnavailable(f"backend `{self.backend.name}` has {has}, not {device!r}")
        self.device = open_device(self.backend, operator.index(device))
        self.queue = self.device.queue(QUEUE.get(queue) == "threaded", self.threads)
        self.arrays = Arrays(self.queue, self.backend.capabilities.alignment_bytes)
        self.lock = self.arrays.lock
        self._sharing = self.queue if isinstance(self.queue, SupportsDlpack) else None
        self._temporary: weakref.WeakKeyDictionary[TNode, str] = weakref.WeakKeyDictionary()  # the routine and the rule
        self._closed = False

    def __getattr__(self, name: str) -> NoReturn:
        raise spelling.missing(self, name, spelling.CONTEXT)

    # --------------------------------------------------------------------------------------------- tensor-level API

    def compile(
        self, code: object, name: str | None = None, keep: object = (), *, save_text: str | PathLike[str] | None = None
    ) -> Routine:
        """Compiles code to a routine. `keep` lists tensors or nodes to keep readable afterwards; `save_text` is a
        folder for text files with the assignments, the program after each pass and the generated source."""
        if name is not None and not isinstance(name, str):
            raise CodeError(f"the name of a routine must be a string, not {name!r}")
        (result,) = self._compile_all([elaborate(code)], [name], keep)
        if save_text is not None:
            result.save_text(save_text)
        return result

    def compile_all(self, codes: Iterable[object], keep: object = ()) -> list[Routine]:
        """Compiles several pieces of code in one run of the compiler."""
        try:
            listed = list(codes)
        except TypeError:
            raise CodeError(f"ctx.compile_all takes a list of code, not {codes!r}"[:200]) from None
        elaborated = [elaborate(code) for code in listed]
        return self._compile_all(elaborated, [None] * len(elaborated), keep)

    def _compile_all(self, codes: list[Elaborated], names: list[str | None], keep: object) -> list[Routine]:
        kept_tensors = [keep] if _is_tensor(keep) or not isinstance(keep, Iterable) else list(keep)
        keep_reasons = {node_of(tensor): "keep=" for tensor in kept_tensors}
        unique = Namer()
        jobs = [
            Job(code.comp, {**keep_reasons, **code.keep_reasons}, unique(name or code.name, "routine"))
            for code, name in zip(codes, names, strict=True)
        ]
        routines = self._routines(jobs)
        self.upload_contents(*[node for code in codes for node in initialized(code)])
        return routines

    def run(self, code: object, /, **symbols: Any) -> None:
        """Compiles a piece of code and calls it once."""
        elaborated = elaborate(code)
        routine_ = self.compile_comp(elaborated.comp, elaborated.keep_reasons, elaborated.name)
        self.upload_contents(*initialized(elaborated), again=True)
        routine_(**symbols)

    def init(self, target: object, seed: int | None = None) -> None:
        """Initializes the uninitialized parameters of a tensor or block; given code, runs it."""
        if not hasattr(target, "elaborate"):
            # a tensor may depend on parameters that its gradients do not reach, which `params` leaves out
            params = getattr(target, "all_params", None) or getattr(target, "params", target)
            if not isinstance(params, Mapping):
                raise CodeError(f"ctx.init takes a tensor, a block or code, not {target!r}")
            graph.key_streams(params)
            target = graph.init_code({path: p for path, p in params.items() if not self.is_initialized(node_of(p))})
        elaborated = elaborate(target)
        self.upload_contents(*initialized(elaborated), seed=seed, again=True)
        if nodes(elaborated.comp):
            self.compile_comp(elaborated.comp, elaborated.keep_reasons, "init", seed=seed)()

    def __getitem__(self, tensor: object) -> np.ndarray[Any, Any]:
        return self.get(tensor)

    def __setitem__(self, tensor: object, value: object) -> None:
        self.set(tensor, value)

    def __contains__(self, tensor: object) -> bool:
        return self.is_initialized(node_of(tensor))

    __call__ = spelling.refused("a context is not called: write t.eval(ctx) for a value, or ctx.run(code)")
    __delitem__ = spelling.refused("a value stays in memory as long as the node and the context are referenced")

    # ----------------------------------------------------------------------------------------------- node-level API

    def compile_comp(
        self, code: Comp, keep_reasons: Mapping[TNode, str] | None = None, name: str = "", *, seed: int | None = None
    ) -> Routine:
        """Compiles a computation and binds it to this context. `keep_reasons` maps the nodes to keep to the reason; a
        `seed` redraws the random contents that the code reads."""
        (result,) = self._routines([Job(code, keep_reasons or {}, identifier(name, "routine"))], seed)
        return result

    @gc_paused
    def _routines(self, jobs: list[Job], seed: int | None = None) -> list[Routine]:
        if self.backend.capabilities.wants_schedule:
            jobs = [replace(job, code=sequential_form(job.code, job.keep_reasons)) for job in jobs]
        if CHECK_NUMBERS.get():
            jobs = [replace(job, keep_reasons={**nodes_to_keep(job.code), **job.keep_reasons}) for job in jobs]
        seconds = AUTOTUNE.get()
        autotuner = Autotuner(self.backend, self.device, self.threads, seconds) if seconds else None
        reserve_states(self.arrays, [job.code for job in jobs])
        programs = compile_routines(jobs, self.backend, autotuner, partial(reserve_arena, self.arrays))
        with self.lock:
            self.refuse_closed()
            return [self._link(program, seed) for program in programs]

    def _link(self, program: Program, seed: int | None) -> Routine:
        for node in program.merged:
            if not self.arrays.has_merge_buffer(node):
                raise MergeBufferError(
                    f"routine `{program.name}` reads the merge buffer of `{node.label}`, and no transfer into this"
                    f" context fills it; create it first: oc.transfer({node.label}, src=..., dst=...)"
                )
        self.arrays.allocate(link.node for link in program.links if link.access is not AccessMode.MERGE)
        starting = [node for node in program.inputs if _starts_by_itself(node)]
        self.upload_contents(*[node for node in starting if node.role is Role.DATA], seed=seed, again=seed is not None)
        self.upload_contents(*[node for node in starting if node.role is not Role.DATA], seed=seed)
        for fact in program.temporaries:
            self._temporary[fact.node] = f"temporary in routine `{program.name}`: {fact.pass_name}"
        written = [self.arrays[node] for node in program.outputs]
        bound = bind_program(self, program)
        _log.debug(
            "`%s` is bound to %d arrays on %s:%d and to %d bytes of scratch memory",
            program.name, len(program.links), self.backend.name, self.device.ordinal, program.arena_bytes,
        )  # fmt: skip
        make = CheckedRoutine if CHECK_NUMBERS.get() else RecordedRoutine if is_recording() else routine
        result = make(self, program, bound, written)
        for array in written:
            self.arrays.add_writer(array, result._checked_epoch)  # which lives as long as the routine or its `__call__`
        return record(result)

    def bind(
        self, code: CompiledCode, name: str, links: Sequence[Link], arena_bytes: int, further: Sequence[Location] = ()
    ) -> tuple[Entry, tuple[Slab, ...]]:
        """Binds a program of `code` to the arrays of this context, and to `further` ones that belong to no node;
        returns the entry and the slabs of nodes that it uses."""
        residents = [self._resident(link) for link in links]
        locations = [*(array.where for array in residents), *further]
        slabs = [array.slab for array in residents]
        if arena_bytes:
            arena = self.arrays.arena(arena_bytes)
            locations.append(arena.at(0))
            slabs.append(arena)
        return link_program(self.backend, code, name, self.queue, locations), tuple(dict.fromkeys(slabs))

    def _resident(self, link: Link) -> Resident:
        return self.arrays.merge_buffer(link.node) if link.access is AccessMode.MERGE else self.arrays[link.node]

    def upload_contents(self, *nodes: TNode, seed: int | None = None, again: bool = False) -> None:
        """Uploads the initial contents of nodes; those that were ever initialized here only if `again`."""
        seed = SEED.get(seed)
        with self.lock:
            self.refuse_closed()
            for node in nodes:
                if node.contents is not None and (again or not self.arrays.was_written(node)):
                    self.arrays.allocate([node])  # raises `OutOfMemory` before the host array is created
                    contents = np.asarray(node.contents.array(node.dims, node.precision, seed), node.precision.numpy)
                    contents = np.broadcast_to(contents, node.dims)
                    if host_conversion.is_zero(contents):
                        self.arrays.zero(node)  # needs no host array
                    else:
                        self._upload(node, np.asarray(contents, order="C"))

    # ------------------------------------------------------------------------------------------- interface to routines

    def prepare_run(self, program: Program) -> None:
        """Checks that all inputs are initialized, and orders the program after pending reads of its outputs."""
        self.refuse_closed()
        missing = [n for n in program.inputs if not self.arrays.holds(n)]
        if missing:
            reasons = "; ".join(f"`{n.label}`: {self._remedy(n)}" for n in missing[:5])
            more = f"; and {len(missing) - 5} more" if len(missing) > 5 else ""
            raise UninitializedError(f"routine `{program.name}` reads uninitialized nodes: {reasons}{more}")
        for node in program.merged:
            if not self.arrays.merge_buffer(node).written:
                raise MergeBufferError(
                    f"routine `{program.name}` reads the merge buffer of `{node.label}`, and the transfer into it has"
                    " not run"
                )
        self.arrays.before_write(self.arrays[node] for node in program.outputs)

    def record_run(self, program: Program) -> None:
        """Updates validity after a run: outputs become initialized, temporaries uninitialized."""
        for node in program.outputs:
            self.arrays.mark(node, True)
        for fact in program.temporaries:
            self.arrays.mark(fact.node, False)

    def synchronize(self) -> None:
        """Waits for all work of this context; raises the error of failed work, whose outputs are then uninitialized."""
        with self.lock:
            self.arrays.synchronize()

    def _remedy(self, node: TNode) -> str:
        """Explains why a node is uninitialized, and how to initialize it."""
        label = node.label
        if node in self._temporary:
            return f"it is {self._temporary[node]}; compile that with keep=[{label}]"
        match node.role:
            case Role.PARAMETER:
                return f"it has no initial value yet; run ctx.init(...) of what uses it, or set ctx[{label}] = array"
            case Role.GRADIENT:
                return "no code that computes gradients has run, such as train.grad_update(loss)"
            case Role.RESULT:
                return f"no code that computes it has run, such as {label}.forward"
            case _:
                return f"it was never set; set ctx[{label}] = array"

    # ---------------------------------------------------------------------------------------------------- node values

    def is_initialized(self, node: TNode) -> bool:
        return self.arrays.holds(node)

    def readable(self, node: TNode) -> Resident:
        """Returns the array of an initialized node; raises `UninitializedError` otherwise."""
        if not self.arrays.holds(node):
            self.refuse_closed()
            if _starts_by_itself(node):
                self.upload_contents(node)
            if not self.arrays.holds(node):
                raise UninitializedError(f"`{node.label}` holds no value in this context: {self._remedy(node)}")
        return self.arrays[node]

    def require_array(self, node: TNode) -> None:
        """Raises `UninitializedError` if the node has no array here, and cannot start by itself."""
        if node not in self.arrays and not _starts_by_itself(node):
            self.refuse_closed()
            raise UninitializedError(f"`{node.label}` is not in the source of this transfer: {self._remedy(node)}")

    def share(self, tensor: object) -> object:
        """Exports the array without copying, through DLPack: `torch.from_dlpack(ctx.share(x))`.

        The array reflects all work submitted to this context so far. Accesses by other libraries must complete before
        this context uses the array again, and are valid only while the context is open.
        """
        with self.lock:
            node = node_of(tensor)
            resident = self.readable(node)
            if self._sharing is None:
                raise Unsupported(f"backend `{self.backend.name}` has no arrays that other libraries can use")
            self.arrays.share(resident)
            return self._exported(self._sharing, node, resident)

    def host_array(self, tensor: object) -> np.ndarray[Any, Any]:
        """Returns the value of a tensor or node as a read-only view of the device's memory if this is host memory, to
        be used while the context is locked; otherwise a copy."""
        with self.lock:
            node = node_of(tensor)
            resident = self.readable(node)
            if self._sharing is not None:
                shared = self._exported(self._sharing, node, resident)
                if isinstance(shared, np.ndarray):
                    shared.flags.writeable = False
                    return shared
            return self.arrays.download(node)

    def _exported(self, queue: SupportsDlpack, node: TNode, resident: Resident) -> object:
        kind = node.precision.numpy
        return self.arrays.run(queue.to_dlpack, resident.where, node.dims, kind, resident.slab)  # waits for the queue

    def get(self, tensor: object) -> np.ndarray[Any, Any]:
        """Returns a host copy of the value of a tensor or node."""
        node = node_of(tensor)
        with self.lock:
            self.readable(node)
            return self.arrays.download(node)

    def set(self, tensor: object, value: object) -> None:
        """Sets the value of a tensor or node: a scalar fills it, an array must have its shape. Raises `DataError` if
        the type of the node cannot represent a value."""
        node = node_of(tensor)
        with self.lock:
            if node not in self.arrays:
                self.refuse_closed()
                self.arrays.allocate([node])  # raises `OutOfMemory` before the host array is created
            device_array = self._sharing.from_dlpack(value) if self._sharing else None
            if device_array is not None:
                self.arrays.copy_from_device(node, *device_array)
                return
            self._upload(node, host_conversion.array_for_node(value, node.label, node.dims, node.precision, node.where))

    def _upload(self, node: TNode, array: np.ndarray[Any, Any]) -> None:
        """Uploads an array; copies it first if the queue is asynchronous, as the caller may modify it."""
        self.arrays.upload(node, array if self.queue.immediate else array.copy())

    # ------------------------------------------------------------------------------------------------------ lifetime

    @property
    def memory(self) -> Usage:
        """The current memory usage of this context."""
        return self.arrays.usage()

    def close(self, *, cancel: bool = False) -> None:
        """Waits for pending work and frees all memory; the context cannot be used afterwards. With `cancel`, pending
        work is dropped and running work is stopped, as far as the backend can; this may be called by any thread."""
        if cancel and isinstance(self.queue, SupportsCancellation):
            self.queue.cancel()  # before the lock, which a waiting thread holds
        with self.lock:
            if self._closed:
                return
            self._closed = True
            try:
                self.queue.synchronize()
            finally:
                self.arrays.release()

    def refuse_closed(self) -> None:
        if self._closed:
            raise CodeError("this context is closed: its memory was freed")

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<context on {self.backend.name}:{self.device.ordinal}>"

    def __reduce__(self) -> str:
        raise CodeError(
            "a context is bound to memory of this process; save the values of tensors by oc.save(path, ctx, t), or "
            "read them, as in ctx[t]"
        )


def _is_tensor(value: object) -> bool:
    return isinstance(value, TNode) or isinstance(getattr(value, "value", None), TNode)


def node_of(value: object) -> TNode:
    """Returns the node of a tensor, or a node unchanged."""
    node = value if isinstance(value, TNode) else getattr(value, "value", None)
    if isinstance(node, TNode):
        return node
    if value is None:
        raise CodeError("expected a node, not None: `.grad` of a tensor without gradient is None")
    raise CodeError(f"expected a tensor or a node, not {value!r}")


def elaborate(code: object) -> Elaborated:
    """Elaborates a piece of code, or the result of a function that returns one."""
    value = code
    if callable(code) and not hasattr(code, "elaborate"):
        try:
            value = code()
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            raise CodeError(f"a function given as code takes no arguments, and returns code: {error}") from None
    if isinstance(getattr(value, "value", None), TNode):
        raise CodeError(f"{value!r} is a tensor, not code; the code that computes it is its `.forward`")
    if not hasattr(value, "elaborate"):
        raise CodeError(f"expected code, such as tensor.forward or oc.seq(...), not {value!r}")
    elaborated: Elaborated = gc_paused(value.elaborate)()
    return elaborated


def initialized(code: Elaborated) -> list[TNode]:
    """Returns the parameters of the code that are initialized by upload instead of statements."""
    return [node for node, reason in code.keep_reasons.items() if reason == "parameter" and node.contents is not None]


def _starts_by_itself(node: TNode) -> bool:
    """Whether the contents of a node are uploaded implicitly; those of parameters require `Context.init`."""
    return node.contents is not None and node.role is not Role.PARAMETER


_defaults: dict[str, Context] = {}
_defaults_lock = threading.Lock()
replace_after_fork(globals(), "_defaults_lock", threading.Lock)


def default_context(backend: str | None = None) -> Context:
    """Returns the process-wide context of a backend, created on first use."""
    with _defaults_lock:
        name = resolve(backend).name
        if name not in _defaults:
            _defaults[name] = Context(name)
        return _defaults[name]
