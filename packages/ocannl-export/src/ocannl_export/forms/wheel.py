"""Wheels: the shared library with a module of Python that needs NumPy alone."""

from __future__ import annotations

import base64
import hashlib
import io
import platform
import re
import sys
import zipfile

from ocannl.base.errors import ArgumentError
from ocannl_export import __version__
from ocannl_export.forms.native import host_cpu, linked
from ocannl_export.library import ExportedFunction, Field, Library
from ocannl_export.request import Files, Request
from ocannl_export.targets import host_levels
from ocannl_export.templates import fill, names

MODULE = '''\
"""@NAME@: a program compiled by ocannl-export @VERSION@.

    net = @NAME@.Net(seed=0)
    net.arrays["@INPUT@"][...] = values
@CALLS@"""

from __future__ import annotations

import ctypes
import os

import numpy as np

__version__ = "0.1.0"

_library = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "@NAME@.so"))
_library.@NAME@_message.restype = ctypes.c_char_p

_MEMBERS = {
@MEMBERS@
}


class Error(ValueError):
    """An argument that the library refuses."""


def _check(code):
    if code:
        raise Error(_library.@NAME@_message(code).decode())


def _size(function):
    function.restype = ctypes.c_size_t
    return function()


def _int64(number):
    return ctypes.c_int64(min(max(number, -(2**63)), 2**63 - 1))  # ctypes would wrap it around


class Net:
    """The arrays of the program, views of one block of memory by name, and its functions."""

    def __init__(self, seed: int = 0):
        block = np.zeros(_size(_library.@NAME@_size) + 64, np.uint8)
        self._memory = block[-block.ctypes.data % 64 :]
        self._address = ctypes.c_void_p(self._memory.ctypes.data)
        self.arrays = {
            name: np.ndarray(shape, kind, self._memory, offset)
            for name, (kind, shape, offset) in _MEMBERS.items()
        }
        self.init(seed)

    def init(self, seed: int = 0) -> None:
        """Sets all arrays to their initial values."""
        _check(_library.@NAME@_init(self._address, ctypes.c_uint64(seed)))
@FUNCTIONS@@SAVING@'''
SAVING = '''
    def save(self) -> bytes:
        """The parameters and states as a file of safetensors, which `oc.load` reads."""
        data = ctypes.create_string_buffer(_size(_library.@NAME@_saved_size))
        _check(_library.@NAME@_save(self._address, data, ctypes.c_size_t(len(data))))
        return data.raw

    def load(self, data: bytes) -> None:
        """Loads a file of safetensors; raises `Error`, and changes nothing, if an array is missing."""
        _check(_library.@NAME@_load(self._address, data, ctypes.c_size_t(len(data))))
'''
STUB = '''\
from typing import Any

import numpy as np

__version__: str

class Error(ValueError): ...

class Net:
    arrays: dict[str, np.ndarray[Any, Any]]
    def __init__(self, seed: int = 0) -> None: ...
    def init(self, seed: int = 0) -> None: ...
@FUNCTIONS@@SAVING@'''
STUB_SAVING = """\
    def save(self) -> bytes: ...
    def load(self, data: bytes) -> None: ...
"""
NUMPY_TYPES = {"bfloat16": "uint16", "float8_e5m2": "uint8", "float8_e4m3fn": "uint8"}
"""Types that NumPy lacks are given as their bits."""


def wheel(request: Request) -> Files:
    """The wheel, for all processors of the family at hand."""
    levels = host_levels() if request.target is None else (request.target,)
    name = request.name
    if name in sys.stdlib_module_names | {"numpy"}:
        raise ArgumentError(f"`{name}` is a module of Python that wheels must not replace: choose another name")
    library = request.library(levels, host_cpu())
    module = _module_text(library)
    files = {
        f"{name}/__init__.py": module.encode(),
        f"{name}/__init__.pyi": _stub(library).encode(),
        f"{name}/py.typed": b"",
        f"{name}/{name}.so": linked(library, levels),
    }
    system = re.sub(r"[^a-z0-9]+", "_", f"{sys.platform}_{platform.machine()}".lower())
    return {f"{name}-0.1.0-py3-none-{system}.whl": _archive(name, f"py3-none-{system}", files)}


def _module_text(library: Library) -> str:
    inputs = [field.name for field in library.members if field.kind == "input"]
    functions = "".join(f"\n{_method(library.name, function)}" for function in library.functions)
    calls = "".join(f"    net.{_example(function)}\n" for function in library.functions)
    texts = {
        "MEMBERS": "\n".join(map(_member, library.members)), "FUNCTIONS": functions, "CALLS": calls,
        "SAVING": fill(SAVING, names(library.name)) if library.saved else "",
        "INPUT": inputs[0] if inputs else library.members[0].name,
        "VERSION": __version__, **names(library.name),
    }  # fmt: skip
    return fill(MODULE, texts)


def _example(function: ExportedFunction) -> str:
    return f"{function.name}({', '.join(f'{symbol.name}={symbol.low}' for symbol in function.symbols)})"


def _member(field: Field) -> str:
    name = field.node.precision.name
    kind = NUMPY_TYPES.get(name, name)
    return f'    "{field.name}": ("{kind}", {field.dims!r}, {field.offset_bytes}),'


def _method(name: str, function: ExportedFunction) -> str:
    symbols = "".join(f", {s.name}: int" for s in function.symbols)
    ranges = "; ".join(f"{s.low} <= {s.name} <= {s.high}" for s in function.symbols)
    arguments = "".join(f", _int64({s.name})" for s in function.symbols)
    doc = f'        """{ranges}"""\n' if ranges else ""
    call = f"        _check(_library.{name}_{function.name}(self._address{arguments}))\n"
    return f"    def {function.name}(self{symbols}) -> None:\n{doc}{call}"


def _stub(library: Library) -> str:
    functions = "".join(
        f"    def {f.name}(self{''.join(f', {s.name}: int' for s in f.symbols)}) -> None: ...\n"
        for f in library.functions
    )
    return fill(STUB, {"FUNCTIONS": functions, "SAVING": STUB_SAVING if library.saved else ""})


def _archive(name: str, tag: str, files: dict[str, bytes]) -> bytes:
    info = f"{name}-0.1.0.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\nRequires-Dist: numpy>=2.0\n"
    described = f"Wheel-Version: 1.0\nGenerator: ocannl-export {__version__}\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files = {**files, f"{info}/METADATA": metadata.encode(), f"{info}/WHEEL": described.encode()}
    rows = [f"{path},sha256={_digest(content)},{len(content)}\n" for path, content in files.items()]
    files[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\n"]).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path)  # of 1980, so that equal programs have equal archives
            entry.external_attr = (0o755 if path.endswith(".so") else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return out.getvalue()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
