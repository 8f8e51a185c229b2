"""Compiled programs: an object loaded into this process, and the bytes that make the same one in another.

    ocannl-llvm 1 {"object_bytes": ..., "programs": [...], "source_bytes": ..., "target": {...}}
    <source text, compressed> <object>

The first line is JSON after two words; sizes are those of the two parts that follow it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

from ocannl.backend import CompileError
from ocannl.codegen import Region, Signature
from ocannl_backend_llvm import engine
from ocannl_backend_llvm.emit import symbol
from ocannl_backend_llvm.engine import Library, Target

MAGIC = b"ocannl-llvm 1 "


@dataclass(frozen=True, slots=True)
class Program:
    """One entry: what it is called with, and where it is."""

    signature: Signature
    address: int


class LlvmCode:
    """Implements `Code`."""

    def __init__(self, programs: Sequence[Signature], packed_source: bytes, code: bytes, target: Target) -> None:
        self._packed_source = packed_source
        self._code = code
        self._target = target
        self.library: Library = engine.load(code, [symbol(p.name) for p in programs])
        self.programs = {p.name: Program(p, self.library.address(symbol(p.name))) for p in programs}

    @staticmethod
    def of(programs: Sequence[Signature], source: str, target: Target) -> LlvmCode:
        packed = zlib.compress(source.encode("ascii"), 1)
        return LlvmCode(programs, packed, engine.compile_text(source, target), target)

    @property
    def source(self) -> str:
        return zlib.decompress(self._packed_source).decode("ascii")

    @cached_property
    def blob(self) -> bytes:
        header = {
            "object_bytes": len(self._code),
            "programs": [asdict(program.signature) for program in self.programs.values()],
            "source_bytes": len(self._packed_source),
            "target": asdict(self._target),
        }
        line = json.dumps(header, sort_keys=True).encode("ascii")
        return MAGIC + line + b"\n" + self._packed_source + self._code

    @staticmethod
    def restore(blob: bytes, target: Target) -> LlvmCode:
        """The same code, without any work by LLVM but loading it."""
        line, _, rest = blob.partition(b"\n")
        if not line.startswith(MAGIC):
            raise CompileError("these bytes are not compiled code of the LLVM backend")
        try:
            header = json.loads(line[len(MAGIC) :])
            made_for = Target(**header["target"])
            programs = [_signature(program) for program in header["programs"]]
            size = int(header["source_bytes"])
            complete = len(rest) == size + int(header["object_bytes"])
        except (KeyError, TypeError, ValueError) as error:
            raise CompileError(f"compiled code has a damaged header: {error}") from None
        if made_for != target:
            raise CompileError(f"the code was compiled for {made_for}, and this is {target}")
        if not complete:
            raise CompileError("compiled code is cut short or too long")
        return LlvmCode(programs, rest[:size], rest[size:], target)


def _signature(stored: dict[str, object]) -> Signature:
    regions = stored["regions"]
    assert isinstance(regions, list)
    return Signature(str(stored["name"]), tuple(Region(**r) for r in regions), int(str(stored["symbols"])))
