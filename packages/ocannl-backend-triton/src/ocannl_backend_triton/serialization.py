"""Serialization of compiled programs: the generated modules, and the machine code of each kernel for each target.

    ocannl-triton 1
    <sha256 of the following> <bytes of the header> <header in JSON> <images, one after another>
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ocannl.backend import CompileError
from ocannl_backend_triton.kernel_module import Argument, Kernel, KernelModule

MAGIC = b"ocannl-triton 1\n"
HEADER_LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class Binary:
    """The machine code of one kernel and its launch parameters.

    `scratch` lists pointer parameters that follow the kernel's own ones, by their bytes per program; 0 passes null.
    """

    name: str
    image: bytes
    threads: int
    shared_bytes: int
    scratch: tuple[int, ...]


Binaries = Mapping[int, Sequence[Sequence[Binary]]]
"""By `Target.sm`, module and kernel; empty where kernels are interpreted."""


@dataclass(frozen=True, slots=True)
class KernelPackage:
    """Implements `CompiledCode`. `target` identifies the machines that can run the code."""

    target: str
    modules: tuple[KernelModule, ...]
    binaries: Binaries = field(default_factory=dict)

    @property
    def source(self) -> str:
        return "\n\n".join(module.source for module in self.modules)

    def module_index(self, name: str) -> int:
        """Index of the module of a program."""
        return next(n for n, module in enumerate(self.modules) if module.name == name)

    @property
    def blob(self) -> bytes:
        images: dict[bytes, int] = {}
        for binary in (b for of_target in self.binaries.values() for of_module in of_target for b in of_module):
            images.setdefault(binary.image, len(images))

        def encoded(binary: Binary) -> list[object]:
            return [binary.name, images[binary.image], binary.threads, binary.shared_bytes, binary.scratch]

        header = {
            "target": self.target,
            "modules": [asdict(module) for module in self.modules],
            "binaries": {
                sm: [[encoded(binary) for binary in of_module] for of_module in of_target]
                for sm, of_target in self.binaries.items()
            },
            "images": [len(image) for image in images],
        }
        line = json.dumps(header).encode()
        body = b"".join([len(line).to_bytes(HEADER_LENGTH_BYTES, "little"), line, *images])
        return MAGIC + hashlib.sha256(body).digest() + body

    @staticmethod
    def read(blob: bytes, target: str) -> KernelPackage:
        """Reads a package. Raises `CompileError` for damaged bytes and for code of another target."""
        start = len(MAGIC) + hashlib.sha256().digest_size
        digest, body = blob[len(MAGIC) : start], blob[start:]
        if not blob.startswith(MAGIC):
            raise CompileError("these bytes are not compiled code")
        if hashlib.sha256(body).digest() != digest:
            raise CompileError("compiled code is damaged")
        end = HEADER_LENGTH_BYTES + int.from_bytes(body[:HEADER_LENGTH_BYTES], "little")
        header = json.loads(body[HEADER_LENGTH_BYTES:end])
        if header["target"] != target:
            raise CompileError(f"the code was compiled for {header['target']}, and this is {target}")
        images = []
        for size in header["images"]:
            images.append(body[end : end + size])
            end += size
        binaries = {
            int(sm): [[_binary(stored, images) for stored in of_module] for of_module in of_target]
            for sm, of_target in header["binaries"].items()
        }
        return KernelPackage(target, tuple(map(_module, header["modules"])), binaries)


def _binary(stored: Sequence[Any], images: Sequence[bytes]) -> Binary:
    name, image, threads, shared_bytes, scratch = stored
    return Binary(name, images[image], threads, shared_bytes, tuple(scratch))


def _module(stored: Mapping[str, Any]) -> KernelModule:
    kernels = tuple(map(_kernel, stored["kernels"]))
    regions = tuple((name, nbytes) for name, nbytes in stored["regions"])
    return KernelModule(**{**stored, "kernels": kernels, "regions": regions})


def _kernel(stored: Mapping[str, Any]) -> Kernel:
    arguments = tuple(Argument(**argument) for argument in stored["arguments"])
    constants = tuple((name, value) for name, value in stored["constants"])
    return Kernel(**{**stored, "arguments": arguments, "grid": tuple(stored["grid"]), "constants": constants})
