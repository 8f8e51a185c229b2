"""Availability of the backend: what a machine can run, and reasons why it cannot."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest

from ocannl_backend_triton import driver, machine
from ocannl_backend_triton.driver import signatures

STUB = "int {}(void) {{ return 100; }}"  # the status of the real driver without a device


@pytest.fixture
def triton_without_interpreter(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(machine, "find_spec", lambda name: object())


@pytest.mark.usefixtures("triton_without_interpreter")
def test_triton_is_required(monkeypatch):
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    reason = machine.unavailable_reason()
    assert reason == "triton is not installed; run: pip install ocannl-backend-triton[triton]"


@pytest.mark.usefixtures("triton_without_interpreter")
def test_without_a_driver_kernels_can_be_compiled_and_interpreted(monkeypatch):
    monkeypatch.setattr(driver, "LIBRARIES", {sys.platform: ("libnothing.so.1",)})
    reason = machine.unavailable_reason()
    assert reason.startswith("no GPU: the CUDA driver cannot be loaded: libnothing.so.1: ")
    assert reason.endswith("can be compiled here, and with TRITON_INTERPRET=1 set they run in triton's interpreter")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert machine.unavailable_reason() is None


@pytest.mark.usefixtures("triton_without_interpreter")
@pytest.mark.skipif(sys.platform != "linux", reason="asks for files of Linux")
def test_a_driver_without_device_files_is_unavailable(monkeypatch, tmp_path):
    monkeypatch.setattr(driver, "_library", dict)
    monkeypatch.setattr(driver, "DEVICE_FILES", (str(tmp_path / "nvidiactl"), str(tmp_path / "dxg")))
    reason = machine.unavailable_reason()
    assert f"the system shows no GPU to this process: there is no {tmp_path}/nvidiactl nor" in reason
    (tmp_path / "dxg").touch()
    assert machine.unavailable_reason() is None


def python(*arguments, **variables):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "COLUMNS": "400", **variables}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=100)


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("gcc") is None, reason="makes a library with gcc")
@pytest.mark.parametrize("missing", ["", "cuGraphLaunch"])
def test_driver_library_is_loaded(missing, tmp_path):
    functions = [STUB.format(name) for name in signatures() if name != missing]
    (tmp_path / "stub.c").write_text("\n".join(functions))
    command = ["gcc", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", tmp_path / "stub.c"]
    subprocess.run(command, check=True)
    program = "from ocannl_backend_triton.driver import system_driver; system_driver()"
    reason = python("-c", program, LD_LIBRARY_PATH=str(tmp_path)).stderr
    expected = f"too old: it has no {missing}" if missing else "no GPU can be used: "
    assert f"BackendUnavailable: the CUDA driver is {expected}" in reason or f"BackendUnavailable: {expected}" in reason
    assert missing or "cuInit returned error 100" in reason


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None or find_spec("typer") is None, reason="needs triton, and the commands")
def test_doctor_command():
    process = python("-m", "ocannl.cli", "doctor", "triton", "--limit", "90", TRITON_INTERPRET="1")
    assert process.returncode == 0, process.stdout
    assert "PASS" in process.stdout and "interpreter" in process.stdout
