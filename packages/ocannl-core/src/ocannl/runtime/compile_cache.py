"""Code that was compiled before, by this process or an earlier one, for the same computation."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ocannl.backend.api import Backend, Code
from ocannl.base.errors import CompileError
from ocannl.base.log import logger
from ocannl.ir.canon import Canonical
from ocannl.ir.loops import Access, Fact
from ocannl.ir.tnode import Placement
from ocannl.runtime import fingerprint
from ocannl.runtime.disk_cache import Record, open_cache
from ocannl.runtime.program import Link, Program

MEMORY_ENTRIES = 256
Header = Mapping[str, Any]
_log = logger("runtime.reuse")
_memory: OrderedDict[str, tuple[Header, Code]] = OrderedDict()
_guard = threading.Lock()
_running: dict[str, _Turn] = {}


class _Turn:
    """At compiling something: for as long as anybody has it or waits for it."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0


def key(canon: Canonical, name: str, backend: Backend, plans: str) -> str:
    """Made of whatever decides what code comes out; `plans` says by whom they are."""
    parts = [
        fingerprint.of_package("ocannl"),
        fingerprint.of_package(type(backend).__module__.partition(".")[0]),
        backend.name,
        backend.version,
        backend.capabilities.canonical(),
        name,
        plans,
        canon.text,
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@contextmanager
def one_at_a_time(key: str) -> Iterator[None]:
    """Two threads never compile the same thing at once: the second finds what the first has made."""
    with _guard:
        turn = _running.setdefault(key, _Turn())
        turn.users += 1
    try:
        with turn.lock:
            yield
    finally:
        with _guard:
            turn.users -= 1
            if not turn.users and _running.get(key) is turn:
                del _running[key]


def recall(key: str, canon: Canonical, name: str, backend: Backend) -> Program | None:
    """The program, if its code is remembered or kept on disk and still good."""
    with _guard:
        known = _memory.get(key)
    if known is not None:
        _log.debug("`%s` for %s was compiled by this process before", name, backend.name)
        return _revived(*known, canon, name, backend)
    cache = open_cache()
    record = cache.load(key) if cache else None
    if record is None:
        where = "is not on disk" if cache else "may not be on disk: the setting `cache` is off"
        _log.debug("`%s` for %s has to be compiled: it is new to this process, and %s", name, backend.name, where)
        return None
    try:
        code = backend.restore(record.blob)
        program = _revived(record.header, code, canon, name, backend)
    except CompileError as wrong:
        _log.warning("kept code of `%s` does not fit this machine: %s", name, wrong)
        return None
    except (KeyError, IndexError, TypeError, ValueError) as wrong:
        _log.warning("a record of kept code of `%s` has another form: %r", name, wrong)
        return None
    _log.debug("`%s` for %s is on disk, %s", name, backend.name, key)
    _hold(key, record.header, code)
    return program


def remember(key: str, canon: Canonical, program: Program) -> None:
    blob = program.code.blob
    if blob is None:
        return
    header = _header(canon, program)
    _hold(key, header, program.code)
    cache = open_cache()
    if cache is not None:
        cache.store(key, Record(dict(header), blob))


def forget() -> None:
    """Empties what this process remembers; what is on disk stays."""
    with _guard:
        _memory.clear()


def _hold(key: str, header: Header, code: Code) -> None:
    with _guard:
        _memory[key] = (header, code)
        while len(_memory) > MEMORY_ENTRIES:
            _memory.popitem(last=False)


def _header(canon: Canonical, program: Program) -> Header:
    """A program without its code, nodes and symbols by their canonical numbers."""
    nodes = {node: n for n, node in enumerate(canon.nodes)}
    statics = {sym: n for n, sym in enumerate(canon.statics)}
    return {
        "links": [[nodes[link.node], link.access.value] for link in program.links],
        "syms": [statics[sym] for sym in program.syms],
        "arena": program.arena_bytes,
        "choices": [[place, list(chosen)] for place, chosen in program.choices.items()],
        "facts": [[nodes[f.node], f.placement.value, f.author] for f in program.facts],
    }


def _revived(header: Header, code: Code, canon: Canonical, name: str, backend: Backend) -> Program:
    return Program(
        name,
        canon.code,
        canon.asked,
        code,
        tuple(Link(canon.nodes[n], Access(access)) for n, access in header["links"]),
        tuple(canon.statics[n] for n in header["syms"]),
        int(header["arena"]),
        tuple(Fact(canon.nodes[n], Placement(where), str(author)) for n, where, author in header["facts"]),
        backend.capabilities,
        {int(place): tuple(map(int, chosen)) for place, chosen in header["choices"]},
    )


def _after_fork() -> None:
    """A child does not wait for locks that nobody in it holds."""
    global _guard
    _guard = threading.Lock()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
