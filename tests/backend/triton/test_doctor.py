"""What is told about a machine: what can be done there, and why not more."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest

from ocannl_backend_triton import driver, machine
from ocannl_backend_triton.driver import signatures

STUB = "int {}(void) {{ return 100; }}"  # what the real one says where it is installed and there is no device


@pytest.fixture
def anything(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(machine, "find_spec", lambda name: object())


@pytest.mark.usefixtures("anything")
def test_without_triton_nothing_is_possible(monkeypatch):
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    assert machine.obstacle() == "triton is not installed; run: pip install ocannl-backend-triton[triton]"


@pytest.mark.usefixtures("anything")
def test_without_a_driver_kernels_can_be_compiled_and_interpreted(monkeypatch):
    monkeypatch.setattr(driver, "LIBRARIES", {sys.platform: ("libnothing.so.1",)})
    said = machine.obstacle()
    assert said.startswith("no GPU: the CUDA driver cannot be loaded: libnothing.so.1: ")
    assert said.endswith("can be compiled here, and with TRITON_INTERPRET=1 set they run in triton's interpreter")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert machine.obstacle() is None


@pytest.mark.usefixtures("anything")
@pytest.mark.skipif(sys.platform != "linux", reason="asks for files of Linux")
def test_a_driver_without_a_device_is_told_from_none(monkeypatch, tmp_path):
    monkeypatch.setattr(driver, "_library", dict)
    monkeypatch.setattr(driver, "NODES", (str(tmp_path / "nvidiactl"), str(tmp_path / "dxg")))
    assert f"the system shows no GPU to this process: there is no {tmp_path}/nvidiactl nor" in machine.obstacle()
    (tmp_path / "dxg").touch()
    assert machine.obstacle() is None


def python(*arguments, **variables):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "COLUMNS": "400", **variables}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=100)


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("gcc") is None, reason="makes a library with gcc")
@pytest.mark.parametrize("missing", ["", "cuGraphLaunch"])
def test_a_library_is_loaded_and_asked(missing, tmp_path):
    functions = [STUB.format(name) for name in signatures() if name != missing]
    (tmp_path / "stub.c").write_text("\n".join(functions))
    command = ["gcc", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", tmp_path / "stub.c"]
    subprocess.run(command, check=True)
    asked = "from ocannl_backend_triton.driver import cuda; cuda()"
    said = python("-c", asked, LD_LIBRARY_PATH=str(tmp_path)).stderr
    wanted = f"too old: it has no {missing}" if missing else "no GPU can be used: "
    assert f"BackendUnavailable: the CUDA driver is {wanted}" in said or f"BackendUnavailable: {wanted}" in said
    assert missing or "cuInit says error 100" in said


@pytest.mark.skipif(find_spec("triton") is None or find_spec("typer") is None, reason="needs triton, and the commands")
def test_the_doctor_says_what_runs():
    judged = python("-m", "ocannl.cli", "doctor", "triton", "--limit", "90", TRITON_INTERPRET="1")
    assert judged.returncode == 0, judged.stdout
    assert "PASS" in judged.stdout and "interpreter" in judged.stdout
