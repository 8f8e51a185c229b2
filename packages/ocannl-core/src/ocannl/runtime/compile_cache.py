"""The compilation cache: compiled code by canonical computation, in memory and on disk."""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from ocannl.backend.api import Backend, CompiledCode
from ocannl.backend.returned_values import blob_of, restore_code
from ocannl.base.disk_cache import Cache, Record, open_cache
from ocannl.base.errors import CompileError
from ocannl.base.forks import after_fork_in_child, replace_after_fork
from ocannl.base.log import logger
from ocannl.base.plugin_settings import code_values
from ocannl.ir.canon import Canonical, canonical
from ocannl.ir.loops import AccessMode, Fact
from ocannl.ir.tnode import Placement
from ocannl.runtime import source_fingerprint
from ocannl.runtime.program import Link, Precomputed, Program

MEMORY_ENTRIES = 256
Header = Mapping[str, Any]
_log = logger("runtime.compile_cache")
_memory: OrderedDict[str, tuple[Header, CompiledCode]] = OrderedDict()
_live: weakref.WeakValueDictionary[str, Program] = weakref.WeakValueDictionary()
"""Programs whose code cannot be serialized. It may refer to nodes and so keep their memory alive; therefore it is only
reused while a routine has the program."""
_guard = threading.Lock()
replace_after_fork(globals(), "_guard", threading.Lock)
_in_flight: weakref.WeakValueDictionary[str, threading.Lock] = weakref.WeakValueDictionary()
"""The key of a compilation to a lock that is held until its end, by the thread that performs it."""
_plain_passes: dict[str, frozenset[str]] = {}  # of keys whose compilation has run into a defect


def key(canon: Canonical, name: str, backend: Backend, plans: str) -> str:
    """Returns the cache key: a hash of everything that determines the generated code. `plans` identifies the source of
    the plans."""
    parts = [
        source_fingerprint.package_fingerprint("ocannl"),
        source_fingerprint.package_fingerprint(package := type(backend).__module__.partition(".")[0]),
        code_values(package),
        backend.name,
        backend.version,
        backend.capabilities.canonical(),
        name,
        plans,
        canon.text,
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def variant_key(key: str, plain: frozenset[str]) -> str:
    """Returns the key of the code that is compiled with `plain` passes in their plain form."""
    return hashlib.sha256("\0".join([key, "plain", *sorted(plain)]).encode()).hexdigest() if plain else key


def remember_plain_passes(key: str, plain: frozenset[str]) -> None:
    """Makes later compilations of the key in this process use the given passes in their plain form.

    This is not stored on disk, where it would outlast a failure that does not recur, such as that of a killed compiler.
    """
    _plain_passes[key] = plain


def plain_passes(key: str) -> frozenset[str]:
    """Returns the passes that this process replaced by their plain form when it compiled the key."""
    return _plain_passes.get(key, frozenset())


def wait_for_compilations(keys: Sequence[str], lock: threading.Lock) -> None:
    """Waits while other threads compile any of the keys, so that their results are found. Other threads wait in turn
    for `lock`, which the caller holds until the end of its own compilation.

    The caller acquires it, because a `with` statement of a lock is the only form that a KeyboardInterrupt cannot leave
    acquired. Nothing has to be undone after an interrupt: a key whose lock is free is not being compiled.
    """
    while True:
        with _guard:
            active = [claim for key in keys if (claim := _in_flight.get(key)) is not None and claim.locked()]
            if not active:
                _in_flight.update(dict.fromkeys(keys, lock))
                return
        with active[0]:
            pass


def lookup(key: str, canon: Canonical, name: str, backend: Backend) -> Program | None:
    """Returns the program if its code is in memory, or on disk and valid for this machine; else None."""
    with _guard:
        cached = _memory.get(key)
    if cached is not None:
        _log.debug("`%s` for %s was compiled by this process before", name, backend.name)
        return _restore_program(*cached, canon, name, backend)
    live = _live.get(key)
    if live is not None:
        _log.debug("`%s` for %s is in use by a routine of this process", name, backend.name)
        return _restore_program(_header(canonical(live.comp, live.keep_reasons), live), live.code, canon, name, backend)
    cache = _open_cache()
    record = cache.load(key) if cache else None
    if record is None:
        where = "is not on disk" if cache else "may not be on disk: the setting `cache` is off"
        _log.debug("`%s` for %s has to be compiled: it is new to this process, and %s", name, backend.name, where)
        return None
    try:
        code = restore_code(backend, record.blob)
        program = _restore_program(record.header, code, canon, name, backend)
    except CompileError as error:
        _log.warning("kept code of `%s` does not fit this machine: %s", name, error)
        return None
    except (KeyError, IndexError, TypeError, ValueError) as error:
        _log.warning("a record of kept code of `%s` has another form: %r", name, error)
        return None
    _log.debug("`%s` for %s is on disk, %s", name, backend.name, key)
    _insert_in_memory(key, record.header, code)
    return program


def insert(key: str, canon: Canonical, program: Program, backend: Backend) -> None:
    """Adds a program to the caches: to that of this process while the program lives, and if its code can be serialized,
    for longer, and on disk."""
    blob = blob_of(backend, program.code)
    if blob is None:
        _live[key] = program
        return
    header = _header(canon, program)
    _insert_in_memory(key, header, program.code)
    cache = _open_cache()
    if cache is not None:
        cache.store(key, Record(dict(header), blob))


def _open_cache() -> Cache | None:
    """Opens the disk cache: code of other versions of the compiler is evicted first."""
    return open_cache(generation=source_fingerprint.package_fingerprint("ocannl")[:12])


def clear() -> None:
    """Clears the in-memory cache; the disk cache is unchanged."""
    with _guard:
        _memory.clear()
        _live.clear()
        _plain_passes.clear()


def _insert_in_memory(key: str, header: Header, code: CompiledCode) -> None:
    with _guard:
        _memory[key] = (header, code)
        while len(_memory) > MEMORY_ENTRIES:
            _memory.popitem(last=False)


def _header(canon: Canonical, program: Program) -> Header:
    """Returns a program's metadata, with nodes and symbols by their canonical numbers."""
    nodes = {node: n for n, node in enumerate(canon.nodes)}
    statics = {sym: n for n, sym in enumerate(canon.statics)}
    return {
        "links": [[nodes[link.node], link.access.value] for link in program.links],
        "syms": [statics[sym] for sym in program.syms],
        "arena": program.arena_bytes,
        "choices": [[position, list(choice)] for position, choice in program.choices.items()],
        "facts": [[nodes[f.node], f.placement.value, f.pass_name] for f in program.facts],
        "plain": sorted(program.plain),
        "precomputed": list(program.precomputed.sizes_bytes),
        "weights": [nodes[node] for node in program.precomputed.weights],
    }


def _restore_program(header: Header, code: CompiledCode, canon: Canonical, name: str, backend: Backend) -> Program:
    return Program(
        name,
        canon.code,
        canon.keep_reasons,
        code,
        tuple(Link(canon.nodes[n], AccessMode(access)) for n, access in header["links"]),
        tuple(canon.statics[n] for n in header["syms"]),
        int(header["arena"]),
        tuple(Fact(canon.nodes[n], Placement(placement), str(author)) for n, placement, author in header["facts"]),
        backend.capabilities,
        {int(position): tuple(map(int, choice)) for position, choice in header["choices"]},
        frozenset(map(str, header["plain"])),
        Precomputed(tuple(map(int, header["precomputed"])), tuple(canon.nodes[n] for n in header["weights"])),
    )


@after_fork_in_child
def _after_fork() -> None:
    """Forgets the compilations of threads that do not exist in a child process."""
    _in_flight.clear()
