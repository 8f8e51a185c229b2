"""What backends share whose code runs in this process: what they check, the bytes they make, how they are called."""

from __future__ import annotations

import ctypes
import hashlib
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib import metadata
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

from ocannl import codegen
from ocannl.backend.api import Entry, Location, Number, Queue
from ocannl.backend.cpu import direct
from ocannl.backend.cpu.queue import CpuQueue
from ocannl.backend.cpu.stack_guard import ALWAYS_BYTES, with_room
from ocannl.backend.cpu.thread_pool import TeamCode, team
from ocannl.base.errors import CompileError, Unsupported
from ocannl.base.forks import undivided as undivided
from ocannl.codegen.abi import Region, Signature
from ocannl.ir.capabilities import Capabilities
from ocannl.ir.index import Sym
from ocannl.ir.loops import Proc
from ocannl.ir.names import identifier

MAGIC = b"ocannl-native 1 "


@cache
def release(distribution: str, file: str) -> str:
    """The version of a backend's distribution, and the very text of the package that the file is in, and of the toolkit
    for printing: whatever changes code changes this."""
    digest = hashlib.sha256()
    for module in (file, codegen.__file__):
        for source in sorted(Path(module).parent.rglob("*.py")):
            digest.update(source.read_bytes())
    try:
        version = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        version = "uninstalled"  # imported from its source
    return f"{version}-{digest.hexdigest()[:12]}"


def check(procs: Sequence[Proc], capabilities: Capabilities, backend: str) -> None:
    """Refuses what no code is made for."""
    names = [proc.name for proc in procs]
    if len(set(names)) != len(names) or any(identifier(name) != name for name in names):
        raise CompileError(f"names of programs must be distinct identifiers: {', '.join(names)}")
    for buf in (buf for proc in procs for buf in proc.bufs):
        if buf.precision.name not in capabilities.precisions:
            raise Unsupported(f"`{buf.name}` is {buf.precision}, not among the `precisions` of backend `{backend}`")


class Source:
    """A text that grows, compressed: as a whole it would take more memory than all else that a compiler keeps."""

    __slots__ = ("_packer", "_parts")

    def __init__(self) -> None:
        self._packer = zlib.compressobj(1)
        self._parts: list[bytes] = []

    def add(self, text: str) -> None:
        self._parts.append(self._packer.compress(text.encode("ascii")))

    def packed(self) -> bytes:
        """All of it, once."""
        return b"".join([*self._parts, self._packer.flush()])


@dataclass(frozen=True, slots=True)
class Package:
    """Compiled programs as bytes: their source, compressed, and the objects of code that their target runs.

    ocannl-native 1 {"programs": [...], "sha256": [..., ...], "sizes": [..., ...], "target": "..."}
    <source> <object> ...
    """

    target: str
    programs: tuple[Signature, ...]
    packed_source: bytes
    objects: tuple[bytes, ...]

    @staticmethod
    def of(target: str, programs: Sequence[Signature], source: str, objects: Sequence[bytes]) -> Package:
        return Package(target, tuple(programs), zlib.compress(source.encode("ascii"), 1), tuple(objects))

    @property
    def source(self) -> str:
        return zlib.decompress(self.packed_source).decode("ascii")

    @property
    def blob(self) -> bytes:
        parts = (self.packed_source, *self.objects)
        header = {
            "programs": [asdict(program) for program in self.programs],
            "sha256": [hashlib.sha256(part).hexdigest() for part in parts],
            "sizes": [len(part) for part in parts],
            "target": self.target,
        }
        return b"".join([MAGIC, json.dumps(header, sort_keys=True).encode("ascii"), b"\n", *parts])

    @staticmethod
    def read(blob: bytes, target: str) -> Package:
        """From bytes that were made for the target, and are whole."""
        line, _, rest = blob.partition(b"\n")
        if not line.startswith(MAGIC):
            raise CompileError("these bytes are not compiled code")
        try:
            header = json.loads(line[len(MAGIC) :])
            made_for = str(header["target"])
            programs = tuple(map(_signature, header["programs"]))
            sizes = [int(size) for size in header["sizes"]]
            digests = [str(digest) for digest in header["sha256"]]
        except (KeyError, TypeError, ValueError) as error:
            raise CompileError(f"compiled code has a damaged header: {error}") from None
        if made_for != target:
            raise CompileError(f"the code was compiled for {made_for}, and this is {target}")
        if len(sizes) < 2 or min(sizes) < 0 or len(rest) != sum(sizes):
            raise CompileError("compiled code is cut short or too long")
        ends = list(accumulate(sizes))
        source, *objects = (rest[end - size : end] for size, end in zip(sizes, ends, strict=True))
        if [hashlib.sha256(part).hexdigest() for part in (source, *objects)] != digests:
            raise CompileError("compiled code is damaged")
        return Package(target, programs, source, tuple(objects))


def _signature(stored: dict[str, Any]) -> Signature:
    regions = tuple(Region(**r) for r in stored["regions"])
    shares, brief = bool(stored["shares"]), bool(stored["brief"])
    return Signature(str(stored["name"]), regions, int(stored["symbols"]), shares, brief, int(stored["stack_bytes"]))


@dataclass(frozen=True, slots=True)
class Program:
    """One entry: what it is called with, and where it is."""

    signature: Signature
    address: int


class NativeCode:
    """Implements `Code`: programs whose code is in this process for as long as somebody holds their `library`."""

    def __init__(
        self, package: Package, library: object, address: Callable[[str], int], team_code: Callable[[], TeamCode],
        direct: Callable[[], int],
    ) -> None:  # fmt: skip
        self.package = package
        self.direct = direct  # where the function is that comes with brief programs
        self.team_code = team_code
        self.library = library
        self.programs = {p.name: Program(p, address(p.name)) for p in package.programs}

    @property
    def source(self) -> str:
        return self.package.source

    @property
    def blob(self) -> bytes:
        return self.package.blob

    def link(self, name: str, queue: Queue, locations: Sequence[Location]) -> Entry:
        """Two threads must not call the same entry at once: it has one place for the values of its symbols."""
        assert isinstance(queue, CpuQueue)
        program = self.programs[name]
        regions, symbols = program.signature.regions, program.signature.symbols
        if len(locations) != len(regions):
            raise CompileError(f"`{name}` works on {len(regions)} regions of memory and is given {len(locations)}")
        starts = [queue.device.address(where) for where in locations]
        refuse_overlap(name, regions, starts)
        if program.signature.shares and queue.control.threads > 1:
            queue.control.team = team(queue.control.threads, self.team_code)
        addresses = (ctypes.c_void_p * max(1, len(starts)))(*starts)
        values = (ctypes.c_int64 * max(1, symbols))()
        native = ctypes.PYFUNCTYPE(ctypes.c_int32)(program.address)
        # Arguments by reference and no declared types: the fastest call that ctypes has. The program itself lets other
        # threads run (see `codegen.params`); a Python exception that it finds is raised by the call.
        run = partial(native, ctypes.byref(addresses), ctypes.byref(values), ctypes.byref(queue.control))
        needed = program.signature.stack_bytes
        entry = _with_symbols(with_room(run, needed, queue.control), values, symbols)
        entry.holds = (self, queue, tuple(locations))  # what must outlive the entry
        if program.signature.brief and needed <= ALWAYS_BYTES:
            make = partial(direct.made, self.direct(), program.address, addresses, queue.control, name)
            return BriefEntry(entry, make)
        return cast(Entry, entry)


@dataclass(frozen=True, slots=True)
class BriefEntry:
    """Implements `Brief`."""

    entry: Any
    make: Callable[..., Callable[..., None]]

    def __call__(self, *values: int) -> object:
        return self.entry(*values)

    def direct(
        self, state: Number, seen: Number, syms: Sequence[Sym], otherwise: Callable[..., object]
    ) -> Callable[..., None]:
        return self.make(state, seen, syms, otherwise, self.entry.holds)


def _with_symbols(run: Callable[[], object], values: Any, symbols: int) -> Any:
    """A function that puts the values of the static symbols where the program reads them, then runs it."""
    if symbols == 0:
        return run
    cells = memoryview(values).cast("B").cast("q")

    def entry(value: int) -> object:
        cells[0] = value
        return run()

    def general(*given: int) -> object:
        values[:] = given
        return run()

    return entry if symbols == 1 else general


def refuse_overlap(name: str, regions: Sequence[Region], starts: Sequence[int]) -> None:
    """Generated code relies on it that what it writes is in no other region."""
    end = end_written = 0
    for start, region in sorted(zip(starts, regions, strict=True), key=lambda pair: pair[0]):
        if region.nbytes and start < (end if region.written else end_written):
            raise CompileError(f"`{region.name}` shares memory with another array of `{name}`, and one is written")
        end = max(end, start + region.nbytes)
        if region.written:
            end_written = max(end_written, start + region.nbytes)
