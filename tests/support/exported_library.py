"""Programs for the tests of exported libraries, and libraries called by ctypes."""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ocannl as oc
from ocannl import train

Array = np.ndarray[Any, Any]


@dataclass
class Training:
    """A perceptron with Adam, its routines in a context of the C backend, and data."""

    ctx: oc.Context
    loss: oc.Tensor
    x: oc.Tensor
    t: oc.Tensor
    step: oc.Routine
    infer: oc.Routine
    params: dict[str, oc.Tensor]
    data: tuple[Array, Array]


def perceptron(seed: int = 7) -> Training:
    x, t = oc.placeholder("x", b=[8], o=[4]), oc.placeholder("t", b=[8], o=[2])
    w1, b1 = oc.param("w1"), oc.param("b1", 0.0, o=[16])
    w2, b2 = oc.param("w2", oc.kaiming(normal=True)), oc.param("b2", 0.0)
    y = w2 @ oc.relu(w1 @ x + b1) + b2
    loss = ((y - t) ** 2).mean()
    ctx = oc.Context("c")
    ctx.init(loss, seed=seed)
    step = ctx.compile(oc.seq(train.grad_update(loss), train.adam(loss, 1e-2)), name="step")
    infer = ctx.compile(y.forward, name="infer", keep=y)
    rng = np.random.default_rng(0)
    data = rng.standard_normal((8, 4)).astype("f4"), rng.standard_normal((8, 2)).astype("f4")
    return Training(ctx, loss, x, t, step, infer, {"w1": w1, "b1": b1, "w2": w2, "b2": b2}, data)


def guarded(size: int) -> Array:
    """Memory between pages that must not be accessed; it ends at such a page."""
    page = mmap.PAGESIZE
    pages = mmap.mmap(-1, (-(-size // page) + 2) * page)
    block = np.frombuffer(pages, np.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for start in (block.ctypes.data, block.ctypes.data + block.size - page):
        assert protect(ctypes.c_void_p(start), ctypes.c_size_t(page), 0) == 0
    return block[block.size - page - size : block.size - page]


class Library:
    """An exported shared library with one structure in the memory of NumPy."""

    def __init__(self, path: Path, name: str) -> None:
        self.library, self.name = ctypes.CDLL(str(path)), name
        self.function("size").restype = ctypes.c_size_t
        size = self.function("size")()
        self.memory = guarded(size)
        self.net = ctypes.c_void_p(self.memory.ctypes.data)

    def function(self, name: str) -> Any:
        return getattr(self.library, f"{self.name}_{name}")

    def init(self, seed: int = 0) -> int:
        return int(self.function("init")(self.net, ctypes.c_uint64(seed)))

    def call(self, name: str, *symbols: int) -> int:
        return int(self.function(name)(self.net, *map(ctypes.c_int64, symbols)))

    def set(self, name: str, values: Array) -> int:
        address = values.ctypes.data_as(ctypes.c_void_p)
        return int(self.function("set")(self.net, name.encode(), address, ctypes.c_size_t(values.nbytes)))

    def get(self, name: str, shape: tuple[int, ...] = (), kind: str = "f4") -> Array:
        values = np.zeros(shape, kind)
        address = values.ctypes.data_as(ctypes.c_void_p)
        code = self.function("get")(self.net, name.encode(), address, ctypes.c_size_t(values.nbytes))
        assert code == 0, self.message(code)
        return values

    def message(self, code: int) -> str:
        self.function("message").restype = ctypes.c_char_p
        return str(self.function("message")(code).decode())

    def save(self) -> bytes:
        self.function("saved_size").restype = ctypes.c_size_t
        data = ctypes.create_string_buffer(self.function("saved_size")())
        assert self.function("save")(self.net, data, ctypes.c_size_t(len(data))) == 0
        return data.raw

    def load(self, data: bytes) -> int:
        return int(self.function("load")(self.net, data, ctypes.c_size_t(len(data))))
