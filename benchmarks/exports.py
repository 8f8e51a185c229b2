"""Exported libraries beside the C backend, and WebAssembly beside ONNX Runtime Web: times and sizes.

    npm install onnxruntime-web
    python benchmarks/exports.py [--workload lenet] [--modules node_modules]

The first table has a row for each training step, exported as a shared library for the processor at hand, for each
level of its family that it has, and as WebAssembly (in wasmtime; with the wheels ziglang and wasmtime). Times are the
shortest of several rounds in alternation, in process time on one thread; sizes are those of the files, stripped. The
second table has the inference of the same networks as WebAssembly in node, beside ONNX Runtime Web on one thread.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import ocannl as oc
from ocannl import nn, train
from ocannl_export.targets import NATIVE, host_levels

ROUNDS, SECONDS = 7, 0.2
BASELINE = "x86-64"
Values = dict[oc.Tensor, np.ndarray]
INFERENCE = """\
import { readFileSync } from "node:fs";
import * as ort from "onnxruntime-web";
import { load } from "./net.mjs";

const shape = JSON.parse(process.argv[2]), rounds = 7, milliseconds = 200;
const values = new Float32Array(readFileSync("x.bin").buffer.slice(0));
const net = await load(readFileSync("net.wasm"));
net.arrays.x.set(values);
ort.env.wasm.numThreads = 1;
const session = await ort.InferenceSession.create(new Uint8Array(readFileSync("net.onnx")));
const feeds = { x: new ort.Tensor("float32", values, shape) };
const calls = { net: () => net.infer(), ort: () => session.run(feeds) };
const best = { net: Infinity, ort: Infinity };
let outputs;
for (let round = 0; round < rounds; round++)
  for (const [name, call] of Object.entries(calls)) {
    const start = performance.now();
    let count = 0;
    for (; performance.now() - start < milliseconds; count++) outputs = (await call()) ?? outputs;
    best[name] = Math.min(best[name], (performance.now() - start) / count);
  }
const expected = Object.values(outputs)[0].data;
const difference = expected.reduce((most, cell, n) => Math.max(most, Math.abs(cell - net.arrays.y[n])), 0);
console.log(JSON.stringify({ ...best, difference }));
"""


def perceptron() -> tuple[oc.Tensor, oc.Tensor, Values]:
    x = oc.placeholder("x", batch=[64], output=[784])
    return _classifier(x, nn.mlp(widths=[128, 10])(x).with_label("y"))


def lenet() -> tuple[oc.Tensor, oc.Tensor, Values]:
    x = oc.placeholder("x", batch=[32], output=[28, 28, 1])
    return _classifier(x, nn.lenet(classes=10)(x).with_label("y"))


def _classifier(x: oc.Tensor, y: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor, Values]:
    t, rng = oc.placeholder("t", batch=x.node.dims[:1], output=[10]), np.random.default_rng(0)
    images = rng.standard_normal(x.node.dims).astype("float32")
    labels = np.eye(10, dtype="float32")[rng.integers(0, 10, len(images))]
    return oc.cross_entropy(y, t).mean().with_label("loss"), y, {x: images, t: labels}


def decoder() -> tuple[oc.Tensor, oc.Tensor, Values]:
    sizes = {"batch": [8, 32], "output": [], "dtype": "int32"}
    x, t = oc.placeholder("x", **sizes), oc.placeholder("t", **sizes)
    y = nn.gpt(vocabulary=65, length=32, width=64, layers=2, heads=4)(x).with_label("y")
    ids = np.random.default_rng(0).integers(0, 65, (8, 33)).astype("int32")
    return oc.cross_entropy(y, t).mean().with_label("loss"), y, {x: ids[:, :-1].copy(), t: ids[:, 1:].copy()}


WORKLOADS = {"perceptron": perceptron, "lenet": lenet, "decoder": decoder}


def targets() -> list[str]:
    """The instruction sets that this processor has."""
    cpuinfo = Path("/proc/cpuinfo")
    features = set(cpuinfo.read_text().split()) if cpuinfo.exists() else set()
    return [NATIVE, *(level.name for level in host_levels() if features.issuperset(level.features))]


def shared_library(path: Path, values: Values) -> Callable[[], object]:
    """A step of the library."""
    library = ctypes.CDLL(str(path))
    library.net_size.restype = ctypes.c_size_t
    block = np.zeros(library.net_size() + 64, np.uint8)
    net = ctypes.c_void_p(block.ctypes.data + -block.ctypes.data % 64)
    assert library.net_init(net, ctypes.c_uint64(0)) == 0
    for leaf, array in values.items():
        address = array.ctypes.data_as(ctypes.c_void_p)
        assert library.net_set(net, leaf.label.encode(), address, ctypes.c_size_t(array.nbytes)) == 0

    def step(memory: np.ndarray = block) -> None:
        library.net_step(net)

    return step


def webassembly(folder: Path, values: Values) -> Callable[[], object]:
    """A step of the module, in wasmtime."""
    import wasmtime

    store = wasmtime.Store()
    module = wasmtime.Module(store.engine, (folder / "net.wasm").read_bytes())
    exports = wasmtime.Instance(store, module, []).exports(store)
    net, memory, step = exports["net_instance"](store), exports["memory"], exports["net_step"]
    script = (folder / "net.js").read_text()
    members = {name: json.loads(text) for name, text in re.findall(r"^  (\w+): (\[.*\]),$", script, re.MULTILINE)}
    exports["net_init"](store, net, 0)
    for leaf, array in values.items():
        memory.write(store, array.tobytes(), net + members[leaf.label][3])
    return lambda: step(store, net)


def seconds_per_call(step: Callable[[], object]) -> float:
    calls, start = 0, time.process_time()
    while time.process_time() - start < SECONDS:
        step()
        calls += 1
    return (time.process_time() - start) / calls


def measure_training(name: str, folder: Path) -> None:
    """Prints times and sizes of a training step."""
    loss, _, values = WORKLOADS[name]()
    ctx = oc.Context("c", threads=1)
    ctx.init(loss, seed=0)
    for leaf, array in values.items():
        ctx[leaf] = array
    step = ctx.compile(oc.seq(train.grad_update(loss), train.adam(loss, 1e-3)), name="step")
    forms, sizes = {"C backend": step}, {}
    for target in targets():
        oc.export(step, folder / target / "net.so", init=loss, target=target)
        forms[target] = shared_library(folder / target / "net.so", values)
        sizes[target] = f"{(folder / target / 'net.so').stat().st_size} bytes stripped"
    if find_spec("ziglang") and find_spec("wasmtime"):
        oc.export(step, folder / "net.wasm", init=loss)
        forms["wasm32"] = webassembly(folder, values)
        sizes["wasm32"] = f"{len(gzip.compress((folder / 'net.wasm').read_bytes()))} bytes gzipped"
    else:
        print("no WebAssembly: install the wheels ziglang and wasmtime")
    times: dict[str, list[float]] = {form: [] for form in forms}
    for _ in range(ROUNDS):
        for form, call in forms.items():
            times[form].append(seconds_per_call(call))
    best = {form: min(seconds) for form, seconds in times.items()}
    for form, seconds in best.items():
        ratio = seconds / best["C backend"]
        print(f"{name:<11} {form:<10} {seconds * 1e3:8.3f} ms {ratio:6.2f}  {sizes.get(form, '')}")
    if "wasm32" in best and BASELINE in best:
        print(f"{name:<11} WebAssembly takes {best['wasm32'] / best[BASELINE]:.2f} times as long as {BASELINE}")


def measure_inference(name: str, folder: Path, modules: Path) -> None:
    """Prints the times of an inference in node."""
    _, y, values = WORKLOADS[name]()
    x, array = next(iter(values.items()))
    ctx = oc.Context("c", threads=1)
    ctx.init(y, seed=0)
    infer = ctx.compile(y.forward, name="infer", keep=y)
    oc.export(infer, folder / "net.wasm")
    (folder / "net.js").rename(folder / "net.mjs")
    oc.onnx.export(y, folder / "net.onnx", inputs={"x": x}, ctx=ctx)
    (folder / "x.bin").write_bytes(array.tobytes())
    (folder / "infer.mjs").write_text(INFERENCE)
    (folder / "node_modules").symlink_to(modules.resolve())
    command = ["node", "infer.mjs", json.dumps(array.shape)]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    seen = json.loads(result.stdout.splitlines()[-1])
    times = f"WebAssembly {seen['net']:8.3f} ms, ONNX Runtime Web {seen['ort']:8.3f} ms"
    size = len(gzip.compress((folder / "net.wasm").read_bytes()))
    print(f"{name:<11} {times} {seen['net'] / seen['ort']:6.2f}  {size} bytes gzipped, weights included; ", end="")
    print(f"results differ by {seen['difference']:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=list(WORKLOADS), action="append", help="default: all")
    parser.add_argument("--modules", type=Path, default=Path("node_modules"), help="the folder of onnxruntime-web")
    arguments = parser.parse_args()
    chosen = arguments.workload or list(WORKLOADS)
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            measure_training(name, Path(folder))
    missing = [program for program in ("node",) if shutil.which(program) is None]
    missing += [wheel for wheel in ("ziglang", "onnx") if find_spec(wheel) is None]
    if not (arguments.modules / "onnxruntime-web").is_dir():
        missing.append(f"onnxruntime-web in {arguments.modules} (npm install onnxruntime-web)")
    if missing:
        print(f"no inference beside ONNX Runtime Web: there is no {', no '.join(missing)}")
        return
    for name in chosen:
        if name != "decoder":  # whose input are integers
            with tempfile.TemporaryDirectory() as folder:
                measure_inference(name, Path(folder), arguments.modules)


if __name__ == "__main__":
    main()
