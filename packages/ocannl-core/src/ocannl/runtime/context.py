"""A context: the arrays of nodes on one device, what is known to be in them, and the routines that share them.

What a context does, it does in one queue, in order. With the setting `queue = "threaded"` a thread of its own does the
work: calls of routines return at once, reading a value or `synchronize` waits.
"""

from __future__ import annotations

import operator
import os
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np

from ocannl.backend.api import Code, Entry, Sharing
from ocannl.backend.cpu.device import cores
from ocannl.backend.registry import resolve
from ocannl.base import config, log
from ocannl.base.config import QUEUE, SEARCH, SEED, THREADS
from ocannl.base.errors import BackendUnavailable, CodeError, MergeBufferError, UninitializedError, Unsupported
from ocannl.ir.assign import Comp, assigns
from ocannl.ir.loops import Access
from ocannl.ir.names import Namer, identifier
from ocannl.ir.tnode import Role, TNode
from ocannl.lang.core import graph
from ocannl.lang.record.code import Elaborated
from ocannl.runtime import host
from ocannl.runtime.arrays import Arrays, Resident, Usage
from ocannl.runtime.benchmark import Searcher
from ocannl.runtime.compile import Job, compile_programs
from ocannl.runtime.pools import Slab
from ocannl.runtime.program import Link, Program
from ocannl.runtime.routine import Routine, routine

_log = log.logger("runtime.context")


class Context:
    """Owns buffers on one device of one backend; routines compiled in it share them."""

    def __init__(
        self, backend: str | None = None, *, device: int = 0, threads: int | None = None, queue: str | None = None
    ) -> None:
        config.check()
        log.configure()
        self.threads = THREADS.get(threads) or cores()
        self.backend = resolve(backend)
        count = self.backend.device_count()
        if isinstance(device, bool) or not isinstance(device, SupportsIndex) or not 0 <= operator.index(device) < count:
            has = "device 0 only" if count == 1 else f"devices 0 to {count - 1}"
            raise BackendUnavailable(f"backend `{self.backend.name}` has {has}, not {device!r}")
        self.device = self.backend.device(operator.index(device))
        self.queue = self.device.queue(QUEUE.get(queue) == "threaded", self.threads)
        self.arrays = Arrays(self.queue, self.backend.capabilities.alignment_bytes)
        self.lock = self.arrays.turn
        self._sharing = self.queue if isinstance(self.queue, Sharing) else None
        self._temporary: weakref.WeakKeyDictionary[TNode, str] = weakref.WeakKeyDictionary()  # where, and by what rule
        self._closed = False

    # ------------------------------------------------------------------------------------------ code over tensors

    def compile(self, code: object, name: str | None = None, keep: object = ()) -> Routine:
        """The routine of a piece of code. `keep` are tensors or nodes to look at afterwards."""
        if name is not None and not isinstance(name, str):
            raise CodeError(f"the name of a routine is a text, not {name!r}")
        (made,) = self._compile_all([elaborate(code)], [name], keep)
        return made

    def compile_all(self, codes: Iterable[object], keep: object = ()) -> list[Routine]:
        """The routines of several pieces of code, in one run of the compiler."""
        made = [elaborate(code) for code in codes]
        return self._compile_all(made, [None] * len(made), keep)

    def _compile_all(self, codes: list[Elaborated], names: list[str | None], keep: object) -> list[Routine]:
        kept = [keep] if _is_tensor(keep) or not isinstance(keep, Iterable) else list(keep)
        asked = {node_of(each): "keep=" for each in kept}
        unique = Namer()
        jobs = [
            Job(code.comp, {**asked, **code.asked}, unique(name or code.name, "routine"))
            for code, name in zip(codes, names, strict=True)
        ]
        routines = self._routines(jobs)
        self.start(*[node for code in codes for node in initialized(code)])
        return routines

    def run(self, code: object, /, **symbols: Any) -> None:
        """Compiles a piece of code and calls it once."""
        elaborated = elaborate(code)
        made = self.compile_comp(elaborated.comp, elaborated.asked, elaborated.name)
        self.start(*initialized(elaborated), again=True)
        made(**symbols)

    def init(self, target: object, seed: int | None = None) -> None:
        """Gives initial values to the parameters of a tensor or block that have none here; code is simply run."""
        if not hasattr(target, "elaborate"):
            params = target if isinstance(target, Mapping) else getattr(target, "params", None)
            if not isinstance(params, Mapping):
                raise CodeError(f"ctx.init takes a tensor, a block or code, not {target!r}")
            target = graph.init_code({path: p for path, p in params.items() if not self.is_initialized(node_of(p))})
        elaborated = elaborate(target)
        self.start(*initialized(elaborated), seed=seed, again=True)
        if next(assigns(elaborated.comp), None) is not None:
            self.compile_comp(elaborated.comp, elaborated.asked, "init", seed=seed)()

    def __getitem__(self, tensor: object) -> np.ndarray[Any, Any]:
        return self.get(node_of(tensor))

    def __setitem__(self, tensor: object, value: object) -> None:
        self.set(node_of(tensor), value)

    def __contains__(self, tensor: object) -> bool:
        return self.is_initialized(node_of(tensor))

    # ------------------------------------------------------------------------------------------ code over nodes

    def compile_comp(
        self, code: Comp, asked: Mapping[TNode, str] | None = None, name: str = "", *, seed: int | None = None
    ) -> Routine:
        """The routine of a computation, bound to this context. `asked` are nodes to keep, and who wants them; a `seed`
        draws the random contents that the code reads anew."""
        (made,) = self._routines([Job(code, asked or {}, identifier(name, "routine"))], seed)
        return made

    def _routines(self, jobs: list[Job], seed: int | None = None) -> list[Routine]:
        seconds = SEARCH.get()
        searcher = Searcher(self.backend, self.device, self.threads, seconds) if seconds else None
        programs = compile_programs(jobs, self.backend, searcher)
        with self.lock:
            self.refuse_closed()
            return [self._link(program, seed) for program in programs]

    def _link(self, program: Program, seed: int | None) -> Routine:
        for node in program.merged:
            if not self.arrays.merges(node):
                raise MergeBufferError(
                    f"routine `{program.name}` reads the merge buffer of `{node.label}`, and no transfer into this"
                    f" context fills it; create it first: oc.transfer({node.label}, src=..., dst=...)"
                )
        self.arrays.allocate(link.node for link in program.links if link.access is not Access.MERGE)
        starting = [node for node in program.inputs if _starts_by_itself(node)]
        self.start(*[node for node in starting if node.role is Role.DATA], seed=seed, again=seed is not None)
        self.start(*[node for node in starting if node.role is not Role.DATA], seed=seed)
        for fact in program.temporaries:
            self._temporary[fact.node] = f"temporary in routine `{program.name}`: {fact.author}"
        written = [self.arrays[node] for node in program.outputs]
        entry, held = self.bind(program.code, program.name, program.links, program.arena_bytes)
        _log.debug(
            "`%s` is bound to %d arrays on %s:%d and to %d bytes of scratch memory",
            program.name, len(program.links), self.backend.name, self.device.ordinal, program.arena_bytes,
        )  # fmt: skip
        return routine(self, program, entry, written, held)

    def bind(self, code: Code, name: str, links: Sequence[Link], arena_bytes: int) -> tuple[Entry, tuple[Slab, ...]]:
        """One of the programs of `code`, bound to the arrays that are here; and the memory that it works on."""
        residents = [self._resident(link) for link in links]
        locations = [array.where for array in residents]
        slabs = [array.slab for array in residents]
        if arena_bytes:
            arena = self.arrays.arena(arena_bytes)
            locations.append(arena.at(0))
            slabs.append(arena)
        return self.backend.link(code, name, self.queue, locations), tuple(dict.fromkeys(slabs))

    def _resident(self, link: Link) -> Resident:
        return self.arrays.merge_buffer(link.node) if link.access is Access.MERGE else self.arrays[link.node]

    def start(self, *nodes: TNode, seed: int | None = None, again: bool = False) -> None:
        """Uploads what nodes hold before any code writes them; only `again` if they ever held something here."""
        seed = SEED.get(seed)
        with self.lock:
            self.refuse_closed()
            for node in nodes:
                if node.contents is not None and (again or not self.arrays.held(node)):
                    self.arrays.allocate([node])  # so that what is too large is refused before it is made
                    given = np.asarray(node.contents.array(node.dims, node.precision, seed), node.precision.numpy)
                    self._upload(node, np.asarray(np.broadcast_to(given, node.dims), order="C"))

    # -------------------------------------------------------------------------------------- what routines ask and tell

    def require(self, program: Program) -> None:
        """Refuses unless the program can be run now; makes its work wait for whoever still reads what it writes."""
        self.refuse_closed()
        missing = [n for n in program.inputs if not self.arrays.holds(n)]
        if missing:
            reasons = "; ".join(f"`{n.label}`: {self._remedy(n)}" for n in missing[:5])
            more = f"; and {len(missing) - 5} more" if len(missing) > 5 else ""
            raise UninitializedError(f"routine `{program.name}` reads what nothing has written: {reasons}{more}")
        for node in program.merged:
            if not self.arrays.merge_buffer(node).written:
                raise MergeBufferError(
                    f"routine `{program.name}` reads the merge buffer of `{node.label}`, and the transfer into it has"
                    " not run"
                )
        self.arrays.before_write(self.arrays[node] for node in program.outputs)

    def account(self, program: Program) -> None:
        """The program has run: its outputs hold values, its temporaries none that is current."""
        for node in program.outputs:
            self.arrays.mark(node, True)
        for fact in program.temporaries:
            self.arrays.mark(fact.node, False)

    def synchronize(self) -> None:
        """Waits until all work of this context is done; raises what went wrong in it, and then what that work writes
        is uninitialized."""
        with self.lock:
            self.arrays.synchronize()

    def _remedy(self, node: TNode) -> str:
        """Why a node holds nothing here, and what would change that."""
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

    # ----------------------------------------------------------------------------------------------- values of nodes

    def is_initialized(self, node: TNode) -> bool:
        return self.arrays.holds(node)

    def readable(self, node: TNode) -> Resident:
        """Where the node's value is; refuses when there is none."""
        if not self.arrays.holds(node):
            self.refuse_closed()
            if _starts_by_itself(node):
                self.start(node)
            if not self.arrays.holds(node):
                raise UninitializedError(f"`{node.label}` holds no value in this context: {self._remedy(node)}")
        return self.arrays[node]

    def share(self, tensor: object) -> object:
        """The array itself, which other libraries use in place: `torch.from_dlpack(ctx.share(x))`.

        It comes after all that this context was asked to do before. Whatever happens to it elsewhere has to be done
        before this context uses it again, and it is theirs only while this context is open.
        """
        with self.lock:
            node = node_of(tensor)
            resident = self.readable(node)
            if self._sharing is None:
                raise Unsupported(f"backend `{self.backend.name}` has no arrays that other libraries can use")
            return self._sharing.lend(resident.where, node.dims, node.precision.numpy, resident.slab)

    def get(self, node: TNode) -> np.ndarray[Any, Any]:
        """A copy of what the node holds here."""
        with self.lock:
            self.readable(node)
            return self.arrays.download(node)

    def set(self, node: TNode, value: object) -> None:
        """A number fills the node; an array has its shape. Whatever would be lost in the node's type is refused."""
        with self.lock:
            if node not in self.arrays:
                self.refuse_closed()
                self.arrays.allocate([node])  # so that what is too large is refused before it is made
            guest = self._sharing.borrow(value) if self._sharing else None
            if guest is not None:
                self.arrays.take(node, *guest)
                return
            self._upload(node, host.for_node(value, node.label, node.dims, node.precision))

    def _upload(self, node: TNode, array: np.ndarray[Any, Any]) -> None:
        """The array may be somebody's who changes it later."""
        self.arrays.upload(node, array if self.queue.immediate else array.copy())

    # ------------------------------------------------------------------------------------------------------ the end

    @property
    def memory(self) -> Usage:
        """What this context holds on its device now."""
        return self.arrays.usage()

    def close(self) -> None:
        """Gives all memory back when the work under way is done; nothing of this context can be used afterwards."""
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
            raise CodeError("this context is closed: its memory was given back")

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<context on {self.backend.name}:{self.device.ordinal}>"

    def __reduce__(self) -> str:
        raise CodeError("a context is bound to memory of this process; use oc.save and oc.load for what is in it")


def _is_tensor(given: object) -> bool:
    return isinstance(given, TNode) or isinstance(getattr(given, "value", None), TNode)


def node_of(given: object) -> TNode:
    """The node of a tensor, or the node itself."""
    node = given if isinstance(given, TNode) else getattr(given, "value", None)
    if isinstance(node, TNode):
        return node
    if given is None:
        raise CodeError("there is no node here: `.grad` of a tensor without gradient is None")
    raise CodeError(f"a tensor or a node is wanted, not {given!r}")


def elaborate(code: object) -> Elaborated:
    """What a piece of code, or a function that makes one, has to say."""
    made = code() if callable(code) and not hasattr(code, "elaborate") else code
    if isinstance(getattr(made, "value", None), TNode):
        raise CodeError(f"{made!r} is a tensor, not code; the code that computes it is its `.forward`")
    if not hasattr(made, "elaborate"):
        raise CodeError(f"code is wanted, such as tensor.forward or oc.seq(...), not {made!r}")
    elaborated: Elaborated = made.elaborate()
    return elaborated


def initialized(code: Elaborated) -> list[TNode]:
    """The parameters that the code is to give initial values which need no statements of their own."""
    return [node for node, why in code.asked.items() if why == "parameter" and node.contents is not None]


def _starts_by_itself(node: TNode) -> bool:
    """Whether contents count without being asked for; those of parameters wait for `Context.init`."""
    return node.contents is not None and node.role is not Role.PARAMETER


_defaults: dict[str, Context] = {}
_defaults_lock = threading.Lock()


def default_context(backend: str | None = None) -> Context:
    """One per backend and process, made when first needed."""
    with _defaults_lock:
        name = resolve(backend).name
        if name not in _defaults:
            _defaults[name] = Context(name)
        return _defaults[name]


def _after_fork() -> None:
    """A child does not wait for a lock that nobody in it holds."""
    global _defaults_lock
    _defaults_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
