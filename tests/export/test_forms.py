"""Wheels, WebAssembly, pages, object files for other machines, and the command."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from exported_library import Training, perceptron

import ocannl as oc
from ocannl_export.command import command as export_command

needs_zig = pytest.mark.skipif(find_spec("ziglang") is None, reason="the wheel ziglang is not installed")
USE = """\
import sys
import numpy as np
import mlp
assert "ocannl" not in sys.modules
net = mlp.Net(seed=7)
data = np.load("data.npz")
net.arrays["x"][...], net.arrays["t"][...] = data["x"], data["t"]
losses = []
for _ in range(100):
    net.step()
    losses.append(float(net.arrays["loss"]))
saved = net.save()
net.step()
last = float(net.arrays["loss"])
net.load(saved)
net.step()
assert float(net.arrays["loss"]) == last
try:
    net.load(b"")
except mlp.Error as error:
    print(error, file=sys.stderr)
print(losses)
"""


@pytest.fixture(scope="module")
def training() -> Training:
    return perceptron()


def losses_of(training: Training, steps: int, seed: int = 7) -> list[float]:
    training = perceptron(seed)
    training.ctx[training.x], training.ctx[training.t] = training.data
    losses = []
    for _ in range(steps):
        training.step()
        losses.append(training.ctx[training.loss].item())
    return losses


def test_wheels_need_numpy_alone(training: Training, tmp_path: Path) -> None:
    (path,) = oc.export([training.step, training.infer], tmp_path / "mlp.whl", init=training.loss, target="native")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path)
    records = (tmp_path / "mlp-0.1.0.dist-info" / "RECORD").read_text().splitlines()
    assert len(records) == 7
    assert "def step(self) -> None: ..." in (tmp_path / "mlp" / "__init__.pyi").read_text()
    np.savez(tmp_path / "data.npz", x=training.data[0], t=training.data[1])
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-c", USE], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(result.stdout) == losses_of(training, 100)
    assert result.stderr == "the bytes are no file of safetensors\n"


@needs_zig
def test_webassembly_trains(training: Training, tmp_path: Path) -> None:
    wasmtime = pytest.importorskip("wasmtime")
    oc.export([training.step, training.infer], tmp_path / "mlp.wasm", init=training.loss)
    code = (tmp_path / "mlp.wasm").read_bytes()
    assert len(gzip.compress(code)) < 40_000
    store = wasmtime.Store()
    module = wasmtime.Module(store.engine, code)
    assert not module.imports
    exports = wasmtime.Instance(store, module, []).exports(store)
    net, memory = exports["mlp_instance"](store), exports["memory"]
    script = (tmp_path / "mlp.js").read_text()
    members = {name: json.loads(text) for name, text in re.findall(r"^  (\w+): (\[.*\]),$", script, re.MULTILINE)}
    assert exports["mlp_init"](store, net, 7) == 0
    for name, array in zip("xt", training.data, strict=True):
        memory.write(store, array.tobytes(), net + members[name][3])
    losses = []
    for _ in range(300):
        assert exports["mlp_step"](store, net) == 0
        start = net + members["loss"][3]
        losses.append(np.frombuffer(memory.read(store, start, start + 4), "f4")[0].item())
    np.testing.assert_allclose(losses, losses_of(training, 300), rtol=1e-5, atol=1e-6)
    assert "step(): void;" in (tmp_path / "mlp.d.ts").read_text()


NODE = """\
import { load } from "./mlp.mjs";
import { readFileSync } from "node:fs";
const net = await load(readFileSync("mlp.wasm"), 7n);
const data = JSON.parse(readFileSync("data.json"));
net.arrays.x.set(data.x);
net.arrays.t.set(data.t);
const losses = [];
for (let n = 0; n < 100; n++) { net.step(); losses.push(net.arrays.loss[0]); }
const saved = net.save();
net.step();
const last = net.arrays.loss[0];
net.load(saved);
net.step();
if (net.arrays.loss[0] !== last) throw new Error("load and save differ");
try { net.load(new Uint8Array(3)); } catch (error) { console.error(error.message); }
console.log(JSON.stringify(losses));
"""


@needs_zig
@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_node_runs_the_module(training: Training, tmp_path: Path) -> None:
    oc.export([training.step, training.infer], tmp_path / "mlp.wasm", init=training.loss)
    (tmp_path / "mlp.js").rename(tmp_path / "mlp.mjs")
    x, t = (array.reshape(-1).tolist() for array in training.data)
    (tmp_path / "data.json").write_text(json.dumps({"x": x, "t": t}))
    (tmp_path / "use.mjs").write_text(NODE)
    result = subprocess.run(["node", "use.mjs"], cwd=tmp_path, capture_output=True, text=True, check=True)
    np.testing.assert_allclose(json.loads(result.stdout), losses_of(training, 100), rtol=1e-5, atol=1e-6)
    assert "the bytes are no file of safetensors" in result.stderr


FLOAT64 = """\
import { load } from "./functions.mjs";
import { readFileSync } from "node:fs";
const net = await load(readFileSync("functions.wasm"));
net.arrays.x.set([0.5, 1.25, -0.75]);
net.sum();
console.log(JSON.stringify(net.arrays.total[0]));
"""


@needs_zig
def test_functions_of_float64_are_those_of_javascript(tmp_path: Path) -> None:
    x = oc.placeholder("x", o=[3], dtype="float64")
    positive = oc.abs(x)
    total = (oc.exp(x) + positive**1.7 + oc.tanh(x) + oc.sin(x) * oc.cos(x) + oc.log(positive)).sum()
    ctx = oc.Context("numpy")
    ctx[x] = np.array([0.5, 1.25, -0.75])
    routine = ctx.compile(total.forward, name="sum", keep=total)
    routine()
    oc.export(routine, tmp_path / "functions.wasm")
    (tmp_path / "functions.js").rename(tmp_path / "functions.mjs")
    (tmp_path / "use.mjs").write_text(FLOAT64)
    if shutil.which("node"):
        result = subprocess.run(["node", "use.mjs"], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert json.loads(result.stdout) == pytest.approx(ctx[total].item(), rel=1e-14)
    error = ctx.compile(oc.erf(x).sum().forward, name="sum")
    with pytest.raises(oc.Unsupported, match="the program calls erf, which neither WebAssembly nor JavaScript has"):
        oc.export(error, tmp_path / "error.wasm")


@needs_zig
def test_pages_load_nothing_else(training: Training, tmp_path: Path) -> None:
    training.ctx[training.x], training.ctx[training.t] = training.data
    (path,) = oc.export([training.step, training.infer], tmp_path / "mlp.html", init=training.loss)
    text = path.read_text()
    assert not re.search(r"""(src|href)=|https?://|import\s*\(|from\s+["']""", text)
    binary = re.search(r'const WASM = "([^"]*)"', text)
    assert binary is not None
    assert gzip.decompress(base64.b64decode(binary[1]))[:4] == b"\0asm"
    assert "@" not in text
    script = re.search(r'<script type="module">(.*)</script>', text, re.DOTALL)
    assert script is not None
    (tmp_path / "page.mjs").write_text(script[1])
    if shutil.which("node"):
        subprocess.run(["node", "--check", "page.mjs"], cwd=tmp_path, check=True)


MACHINES = {"aarch64": 183, "riscv64": 243, "armv7": 40, "thumb": 40}


@needs_zig
@pytest.mark.parametrize("target", MACHINES)
def test_object_files_for_other_machines(target: str, training: Training, tmp_path: Path) -> None:
    oc.export(training.step, tmp_path / "mlp.o", init=training.loss, target=target)
    code = (tmp_path / "mlp.o").read_bytes()
    assert code[:4] == b"\x7fELF" and int.from_bytes(code[18:20], "little") == MACHINES[target]
    assert b"__aeabi_fmul" not in code  # which computes products of float32 without instructions for them
    assert b"__aeabi_unwind" not in code


MICROCONTROLLER = """\
#include "mlp.h"
static struct mlp net;
void _start(void)
{
  mlp_init(&net, 0);
  for (;;) mlp_infer(&net);
}
"""


@needs_zig
@pytest.mark.slow
def test_programs_of_microcontrollers_hold_what_they_call(training: Training, tmp_path: Path) -> None:
    oc.export([training.step, training.infer], tmp_path / "mlp.o", init=training.loss, target="thumb")
    (tmp_path / "main.c").write_text(MICROCONTROLLER)
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "thumb-freestanding-eabihf"]
    command += ["-mcpu=cortex_m4+vfp4d16sp", "-Os", "-nodefaultlibs", "-Wl,--gc-sections", "-Wl,-s"]
    subprocess.run([*command, "-o", "program.elf", "main.c", "mlp.o"], cwd=tmp_path, check=True)
    program, code = (tmp_path / "program.elf").read_bytes(), (tmp_path / "mlp.o").read_bytes()
    assert len(program) < len(code)
    assert b"safetensors" in code and b"safetensors" not in program


SCRIPT = """\
import ocannl as oc
from ocannl import train

def make():
    x = oc.placeholder("x", b=[4], o=[2])
    w = oc.param("w", o=[3])
    loss = ((w @ x) ** 2).mean()
    ctx = oc.Context("c")
    step = ctx.compile(oc.seq(train.grad_update(loss), train.sgd(loss, 0.1)), name="step")
    return {"routines": step, "init": loss, "name": "tiny"}

def extra():
    return {**make(), "nonsense": 1}

def iso():
    return {**make(), "form": "c", "vectors": False}
"""


def test_the_command_writes_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [str(Path(sys.executable).parent / "ocannl"), "export", "script.py:make", "-o", "out/tiny.c"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["tiny.c", "tiny.h"]
    assert "int tiny_step(struct tiny *net);" in (tmp_path / "out" / "tiny.h").read_text()
    failed = subprocess.run([*command[:-1], "out/tiny.xyz"], cwd=tmp_path, capture_output=True, text=True)
    assert failed.returncode == 1 and "the form of an export is one of" in failed.stderr
    assert "Traceback" not in failed.stderr
    monkeypatch.chdir(tmp_path)
    for function, out, form, message in [
        ("extra", "out/tiny.c", None, "oc.export has no argument `nonsense=`"),
        ("iso", "out", "so", "`vectors=False` is ISO C99, of the form `c`, not of `so`"),
        ("make", "script.py/tiny.c", None, "the folder 'script.py' cannot be written: "),
    ]:
        with pytest.raises(oc.OcannlError, match=re.escape(message)):
            export_command(f"script.py:{function}", Path(out), form)


@pytest.mark.slow
@needs_zig
def test_the_page_of_digits_is_small(tmp_path: Path) -> None:
    example = Path(__file__).resolve().parents[2] / "examples" / "export_digits.py"
    result = subprocess.run(
        [sys.executable, example, "digits.html"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert result.stdout.startswith("digits.html")
    assert (tmp_path / "digits.html").stat().st_size < 60_000


CLICKS = """\
<script type="module">
const status = () => document.getElementById("status").textContent;
while (status() === "loading") await new Promise((done) => setTimeout(done, 20));
const first = [];
for (let n = 0; n < 200; n++) { document.getElementById("once").click(); first.push(status()); }
document.body.append(Object.assign(document.createElement("pre"), { id: "seen", textContent: first.join("\\n") }));
</script>
"""
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@needs_zig
@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
def test_the_page_trains_in_a_browser(training: Training, tmp_path: Path) -> None:
    assert BROWSER is not None
    training.ctx[training.x], training.ctx[training.t] = training.data
    (path,) = oc.export([training.step, training.infer], tmp_path / "mlp.html", init=training.loss)
    path.write_text(path.read_text() + CLICKS)
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command = [BROWSER, *options, "--virtual-time-budget=20000", "--dump-dom", f"file://{path}"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    seen = re.search(r'<pre id="seen">(.*?)</pre>', result.stdout, re.DOTALL)
    assert seen is not None, result.stdout[-2000:] + result.stderr[-2000:]
    losses = [float(line.rpartition(" ")[2]) for line in seen[1].splitlines()]
    np.testing.assert_allclose(losses[:100], losses_of(training, 100, seed=0), rtol=1e-4, atol=1e-5)
    assert losses[-1] < 0.1 * losses[0]
