"""Exported libraries beside the C backend: time of a step, size, and difference of losses.

    python benchmarks/exports.py

Each row is a training step, exported as a shared library for the processor at hand, for each level of its family, and
as WebAssembly (in wasmtime, with the wheels ziglang and wasmtime). Times are the shortest of several rounds in
alternation, in process time on one thread; sizes are those of the files, stripped.
"""

from __future__ import annotations

import ctypes
import gzip
import json
import re
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import ocannl as oc
from ocannl import nn, train

ROUNDS, SECONDS = 7, 0.2


def perceptron() -> tuple[oc.Tensor, oc.Tensor, oc.Tensor]:
    x, t = oc.placeholder("x", batch=[64], output=[784]), oc.placeholder("t", batch=[64], output=[10])
    loss = oc.cross_entropy(nn.mlp(x, widths=[128, 10]), t).mean()
    return loss, x, t


def lenet() -> tuple[oc.Tensor, oc.Tensor, oc.Tensor]:
    x, t = oc.placeholder("x", batch=[32], output=[28, 28, 1]), oc.placeholder("t", batch=[32], output=[10])
    loss = oc.cross_entropy(nn.lenet(classes=10)(x), t).mean()
    return loss, x, t


WORKLOADS = {"perceptron": perceptron, "lenet": lenet}


def shared_library(path: Path, values: dict[str, np.ndarray]) -> tuple[Callable[[], object], Callable[[], float]]:
    """A step of the library, and the loss."""
    library = ctypes.CDLL(str(path))
    library.net_size.restype = ctypes.c_size_t
    block = np.zeros(library.net_size() + 64, np.uint8)
    net = ctypes.c_void_p(block.ctypes.data + -block.ctypes.data % 64)
    assert library.net_init(net, ctypes.c_uint64(0)) == 0
    for name, array in values.items():
        address = array.ctypes.data_as(ctypes.c_void_p)
        assert library.net_set(net, name.encode(), address, ctypes.c_size_t(array.nbytes)) == 0
    loss = np.zeros((), "float32")

    def read() -> float:
        address = loss.ctypes.data_as(ctypes.c_void_p)
        assert library.net_get(net, b"loss", address, ctypes.c_size_t(4)) == 0
        return loss.item()

    def step(memory: np.ndarray = block) -> None:
        library.net_step(net)

    return step, read


def webassembly(folder: Path, values: dict[str, np.ndarray]) -> tuple[Callable[[], object], Callable[[], float]]:
    import wasmtime

    store = wasmtime.Store()
    module = wasmtime.Module(store.engine, (folder / "net.wasm").read_bytes())
    exports = wasmtime.Instance(store, module, []).exports(store)
    net, memory, step = exports["net_instance"](store), exports["memory"], exports["net_step"]
    script = (folder / "net.js").read_text()
    members = {name: json.loads(text) for name, text in re.findall(r"^  (\w+): (\[.*\]),$", script, re.MULTILINE)}
    exports["net_init"](store, net, 0)
    for name, array in values.items():
        memory.write(store, array.tobytes(), net + members[name][3])
    start = net + members["loss"][3]

    def read() -> float:
        return np.frombuffer(memory.read(store, start, start + 4), "f4")[0].item()

    return lambda: step(store, net), read


def seconds_per_call(step: Callable[[], object]) -> float:
    calls, start = 0, time.process_time()
    while time.process_time() - start < SECONDS:
        step()
        calls += 1
    return (time.process_time() - start) / calls


def measure(name: str) -> None:
    loss, x, t = WORKLOADS[name]()
    loss = loss.relabel("loss") if hasattr(loss, "relabel") else loss
    rng = np.random.default_rng(0)
    images = rng.standard_normal(x.node.dims).astype("float32")
    labels = np.eye(10, dtype="float32")[rng.integers(0, 10, x.node.dims[0])]
    ctx = oc.Context("c", threads=1)
    ctx.init(loss, seed=0)
    ctx[x], ctx[t] = images, labels
    step = ctx.compile(oc.seq(train.grad_update(loss), train.adam(loss, 1e-3)), name="step")
    values = {"x": images, "t": labels}
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        forms = {}
        for target in ("native", "x86-64", "x86-64-v3", "x86-64-v4"):
            oc.export(step, folder / target / "net.so", init=loss, target=target)
            forms[target] = shared_library(folder / target / "net.so", values)
        sizes = {target: (folder / target / "net.so").stat().st_size for target in forms}
        if find_spec("ziglang") and find_spec("wasmtime"):
            oc.export(step, folder / "net.wasm", init=loss)
            forms["wasm32"] = webassembly(folder, values)
            sizes["wasm32"] = len(gzip.compress((folder / "net.wasm").read_bytes()))
        times: dict[str, list[float]] = {"C backend": []}
        for _ in range(ROUNDS):
            times["C backend"].append(seconds_per_call(step))
            for form, (call, _) in forms.items():
                times.setdefault(form, []).append(seconds_per_call(call))
        base = min(times["C backend"])
        print(f"{name}: C backend {base * 1e3:.3f} ms")
        for form in forms:
            kind, best = "gzipped" if form == "wasm32" else "stripped", min(times[form])
            print(f"  {form:<10} {best * 1e3:8.3f} ms  {best / base:6.2f}  {sizes[form]:8} bytes {kind}")


if __name__ == "__main__":
    for workload in WORKLOADS:
        measure(workload)
