"""Common parts of native backends: validation, serialization of code, and entry points."""

from __future__ import annotations

import ctypes
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

from ocannl import codegen
from ocannl.backend.api import Entry, Location, Queue, SharedInt64
from ocannl.backend.cpu import vectorcall
from ocannl.backend.cpu.queue import CpuQueue
from ocannl.backend.cpu.stack_guard import GUARANTEED_STACK_BYTES, with_stack
from ocannl.backend.cpu.thread_pool import ThreadPoolCode, thread_pool
from ocannl.base.errors import CompileError, Unsupported
from ocannl.codegen.abi import MemoryRegion, Signature
from ocannl.ir.affine import Sym
from ocannl.ir.capabilities import ALL_OPERATIONS, Capabilities
from ocannl.ir.loops import Apply, Local, MemorySpace, Proc, ReadClock, Update
from ocannl.ir.name_mangling import identifier
from ocannl.ir.walk import walk

MAGIC = b"ocannl-native 1 "


@cache
def backend_version(distribution: str, file: str) -> str:
    """Returns the version of a backend's distribution, with a hash of the sources of its package (which contains
    `file`) and of `ocannl.codegen`, so that every change of the code generator changes the version."""
    from importlib import metadata  # its import takes longer than all else here

    digest = hashlib.sha256()
    for module in (file, codegen.__file__):
        for source in sorted(Path(module).parent.rglob("*.py")):
            digest.update(source.read_bytes())
    try:
        version = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        version = "uninstalled"  # imported from a source tree
    return f"{version}-{digest.hexdigest()[:12]}"


def validate(procs: Sequence[Proc], capabilities: Capabilities, backend: str) -> None:
    """Raises `CompileError` for invalid program names, and `Unsupported` for what is not claimed: precisions of
    arrays, operations, private arrays and timestamps."""
    names = [proc.name for proc in procs]
    if len(set(names)) != len(names) or any(identifier(name) != name for name in names):
        raise CompileError(f"names of programs must be distinct identifiers: {', '.join(names)}")
    for buf in (buf for proc in procs for buf in proc.bufs):
        if buf.precision.name not in capabilities.precisions:
            raise Unsupported(f"`{buf.name}` is {buf.precision}, not among the `precisions` of backend `{backend}`")
    if capabilities.private_arrays and capabilities.timestamps and capabilities.operations >= ALL_OPERATIONS:
        return
    for node in (node for proc in procs for node in walk(proc.body)):
        if isinstance(node, ReadClock) and not capabilities.timestamps:
            raise Unsupported(f"backend `{backend}` has no `timestamps`")
        if isinstance(node, Local) and node.buf.space is MemorySpace.PRIVATE and not capabilities.private_arrays:
            raise Unsupported(f"backend `{backend}` has no `private_arrays`")
        if isinstance(node, Apply | Update) and node.op.name not in capabilities.operations:
            raise Unsupported(f"`{node.op}` is not among the `operations` of backend `{backend}`")


class Source:
    """An incrementally compressed text; uncompressed sources would dominate the memory use of compilation."""

    __slots__ = ("_packer", "_parts")

    def __init__(self) -> None:
        self._packer = zlib.compressobj(1)
        self._parts: list[bytes] = []

    def add(self, text: str) -> None:
        self._parts.append(self._packer.compress(text.encode("ascii")))

    def packed(self) -> bytes:
        """Returns the compressed text; callable once."""
        return b"".join([*self._parts, self._packer.flush()])


def recorded(texts: Iterable[str], source: Source) -> Iterator[str]:
    """Yields the texts and adds them to the source, separated by empty lines."""
    for number, text in enumerate(texts):
        source.add(f"\n{text}" if number else text)
        yield text


@dataclass(frozen=True, slots=True)
class Package:
    """Serialized programs: compressed source, and object code for the target; code without objects is not stored.

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
        """Deserializes and verifies a blob; raises `CompileError` if it is damaged or for another target."""
        line, _, payload = blob.partition(b"\n")
        if not line.startswith(MAGIC):
            raise CompileError("these bytes are not compiled code")
        try:
            header = json.loads(line[len(MAGIC) :])
            stored_target = str(header["target"])
            programs = tuple(map(_signature, header["programs"]))
            sizes = [int(size) for size in header["sizes"]]
            digests = [str(digest) for digest in header["sha256"]]
        except (KeyError, TypeError, ValueError) as error:
            raise CompileError(f"compiled code has a damaged header: {error}") from None
        if stored_target != target:
            raise CompileError(f"the code was compiled for {stored_target}, and this is {target}")
        if len(sizes) < 2 or min(sizes) < 0 or len(payload) != sum(sizes):
            raise CompileError("compiled code is truncated or too long")
        ends = list(accumulate(sizes))
        source, *objects = (payload[end - size : end] for size, end in zip(sizes, ends, strict=True))
        if [hashlib.sha256(part).hexdigest() for part in (source, *objects)] != digests:
            raise CompileError("compiled code is damaged")
        return Package(target, programs, source, tuple(objects))


def _signature(stored: dict[str, Any]) -> Signature:
    regions = tuple(MemoryRegion(**r) for r in stored["regions"])
    is_parallel, holds_gil = bool(stored["is_parallel"]), bool(stored["holds_gil"])
    symbols, stack_bytes = int(stored["symbols"]), int(stored["stack_bytes"])
    has_private_arrays = bool(stored.get("has_private_arrays", False))
    return Signature(str(stored["name"]), regions, symbols, is_parallel, holds_gil, stack_bytes, has_private_arrays)


@dataclass(frozen=True, slots=True)
class NativeProgram:
    """The signature of a program and its address."""

    signature: Signature
    address: int


class NativeCode:
    """Implements `CompiledCode`: programs loaded into this process while `library` is alive.

    `address` returns the address of the entry function of a program. Parallel loops run on several threads if
    `pool_code` gives the functions of a thread pool, and programs that hold the GIL are called without ctypes if
    `vectorcall` gives the address of `direct` (see `codegen.abi`)."""

    def __init__(
        self, package: Package, library: object, address: Callable[[str], int],
        pool_code: Callable[[], ThreadPoolCode] | None = None, vectorcall: Callable[[], int] | None = None,
    ) -> None:  # fmt: skip
        self.package = package
        self.direct = vectorcall
        self.pool_code = pool_code
        self.library = library
        self.programs = {p.name: NativeProgram(p, address(p.name)) for p in package.programs}

    @property
    def source(self) -> str:
        return self.package.source

    @property
    def blob(self) -> bytes | None:
        return self.package.blob if self.package.objects else None

    @property
    def object_files(self) -> tuple[bytes, ...]:
        return self.package.objects

    def link(self, name: str, queue: Queue, locations: Sequence[Location]) -> Entry:
        """Binds a program to memory. An entry is not reentrant: its calls share one array of symbol values."""
        assert isinstance(queue, CpuQueue)
        program = self.programs[name]
        regions, symbols = program.signature.regions, program.signature.symbols
        if len(locations) != len(regions):
            raise CompileError(f"`{name}` takes {len(regions)} memory regions, but {len(locations)} are passed")
        starts = [queue.device.address(where) for where in locations]
        refuse_overlap(name, regions, starts)
        if program.signature.is_parallel and queue.control.threads > 1 and self.pool_code is not None:
            queue.control.pool = thread_pool(queue.control.threads, self.pool_code)
        if program.signature.has_private_arrays:
            queue.reserve_private_arrays()
        addresses = (ctypes.c_void_p * max(1, len(starts)))(*starts)
        values = (ctypes.c_int64 * max(1, symbols))()
        native = ctypes.PYFUNCTYPE(ctypes.c_int32)(program.address)
        # Arguments by reference without declared types: the fastest call of ctypes. The program releases the GIL itself
        # (see `codegen.abi`); `PYFUNCTYPE` raises the Python exception that it leaves set.
        run = partial(native, ctypes.byref(addresses), ctypes.byref(values), ctypes.byref(queue.control))
        stack_bytes = program.signature.stack_bytes
        entry = _with_symbols(with_stack(run, stack_bytes, queue.control), values, symbols)
        entry.holds = (self, queue, tuple(locations))  # keeps these alive
        if self.direct and program.signature.holds_gil and stack_bytes <= GUARANTEED_STACK_BYTES:
            make = partial(vectorcall.make_function, self.direct(), program.address, addresses, queue.control, name)
            return DirectEntry(entry, make)
        return cast(Entry, entry)


@dataclass(frozen=True, slots=True)
class DirectEntry:
    """Implements `DirectCallable`."""

    entry: Any
    make: Callable[..., Callable[..., None]]

    def __call__(self, *values: int) -> object:
        return self.entry(*values)

    def vectorcall(
        self, epoch: SharedInt64, checked_epoch: SharedInt64, syms: Sequence[Sym], fallback: Callable[..., object]
    ) -> Callable[..., None]:
        return self.make(epoch, checked_epoch, syms, fallback, self.entry.holds)


def _with_symbols(run: Callable[[], object], values: Any, symbols: int) -> Any:
    """Returns a function that stores the values of the static symbols and calls the program."""
    if symbols == 0:
        return run
    cells = memoryview(values).cast("B").cast("q")

    def entry(value: int) -> object:
        cells[0] = value
        return run()

    def general(*symbol_values: int) -> object:
        values[:] = symbol_values
        return run()

    return entry if symbols == 1 else general


def refuse_overlap(name: str, regions: Sequence[MemoryRegion], starts: Sequence[int]) -> None:
    """Raises `CompileError` if a written region overlaps another: generated code assumes no aliasing."""
    end = end_written = 0
    for start, region in sorted(zip(starts, regions, strict=True), key=lambda pair: pair[0]):
        if region.nbytes and start < (end if region.written else end_written):
            raise CompileError(f"`{region.name}` overlaps another array of `{name}`, and one of them is written")
        end = max(end, start + region.nbytes)
        if region.written:
            end_written = max(end_written, start + region.nbytes)
