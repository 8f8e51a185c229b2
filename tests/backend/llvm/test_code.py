"""Compiled code: serialization, rejected inputs, linking and lifetimes."""

import ctypes
import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from ocannl.backend import CompileError
from ocannl.backend.cpu.native_code import MAGIC
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.loops import AccessMode, Apply, Const, IndexValue, Load, Proc, Ref, Store, loop
from ocannl.ir.ops import ADD, BY_NAME, MUL
from ocannl.ir.precision import float32
from ocannl_backend_llvm import jit, ocannl_backend, parallel_codegen
from ocannl_backend_llvm.compiled_code import restore_package
from ocannl_backend_llvm.jit import host
from ocannl_backend_llvm.parallel_codegen import compile_text

A = Affine.of


def scale(run, x, name="scale", by=2.0, syms=()):
    """`y[i] = tanh(x[i]) * by + sum of symbols`."""
    bufs = run.like("x", x, AccessMode.IN), run.like("y", x, AccessMode.OUT)
    i = Sym("i", 0, x.size - 1)
    value = Apply(MUL, (Apply(BY_NAME["tanh"], (Load(Ref(bufs[0], (A(i),))),)), Const(by, float32)))
    for sym in syms:
        value = Apply(ADD, (value, IndexValue(A(sym), float32)))
    return Proc(name, bufs, tuple(syms), (loop(i, (Store(Ref(bufs[1], (A(i),)), value),)),))


X = np.linspace(-2, 2, 9, dtype=np.float32)


def test_restoring_compiles_nothing(llvm, run, monkeypatch):
    blob = llvm.compile([scale(run, X)]).blob

    def never(*_):
        raise AssertionError

    monkeypatch.setattr(parallel_codegen, "compile_text", never)
    monkeypatch.setattr(parallel_codegen.llvm, "parse_assembly", never)
    assert "scale" in llvm.restore(blob).programs


@pytest.mark.parametrize(
    "change", [{"cpu": "i486"}, {"features": "+mmx"}, {"triple": "riscv64-unknown-linux-gnu"}], ids=str
)
def test_a_blob_for_another_target_is_refused(llvm, run, change):
    blob = llvm.compile([scale(run, X)]).blob
    line, _, parallel_codegen = blob.partition(b"\n")
    header = json.loads(line[len(MAGIC) :])
    header["target"] = str(replace(host(), **change))
    with pytest.raises(CompileError, match="the code was compiled for .*, and this is "):
        llvm.restore(MAGIC + json.dumps(header).encode() + b"\n" + parallel_codegen)
    with pytest.raises(CompileError, match="the code was compiled for"):
        restore_package(blob, replace(host(), **change))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("define void @f() { ret i32 0 }", "function result type"),
        ("define void @f( {", "expected"),
        (
            "define void @f() {\n  br label %a\na:\n  %x = add i32 %y, 1\n  %y = add i32 %x, 1\n  ret void\n}",
            "dominate",
        ),
    ],
)
def test_rejected_source_is_saved(text, reason):
    with pytest.raises(CompileError, match=reason) as e:
        compile_text(text, host())
    path = str(e.value).split("kept in ")[1].split(": ")[0]
    with open(path, encoding="utf-8") as kept:
        assert kept.read() == text


def test_undefined_symbols_are_an_error():
    text = "declare void @ocannl.nowhere()\ndefine void @ocannl.f() {\n  call void @ocannl.nowhere()\n  ret void\n}"
    with pytest.raises(CompileError, match=r"cannot link.*ocannl\.f"):
        jit.load([compile_text(text, host())], ["ocannl.f"])


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="the size of the process is unknown")
def test_unloaded_libraries_leave_no_memory_behind():
    """LLVM alone keeps nine KiB for each library."""

    def resident_bytes():
        with open("/proc/self/statm", encoding="ascii") as sizes:
            return int(sizes.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    code, count = compile_text("define void @ocannl.f() {\n  ret void\n}", host()), 1000
    sizes = []
    for _ in range(2):
        for _ in range(count):
            jit.load([code], ["ocannl.f"])
        sizes.append(resident_bytes())
    assert sizes[1] - sizes[0] < count * 1024


def test_libraries_outlive_others_of_their_engine():
    code = compile_text("define i64 @ocannl.f() {\n  ret i64 7\n}", host())
    libraries = [jit.load([code], ["ocannl.f"]) for _ in range(100)]
    survivors = libraries[::17]
    del libraries
    assert [ctypes.CFUNCTYPE(ctypes.c_int64)(library.address("ocannl.f"))() for library in survivors] == [7] * 6


def test_the_plugin_entry_imports_no_llvm():
    program = """
import sys
from ocannl_backend_llvm import ocannl_backend
info = ocannl_backend()
assert info.name == "llvm" and info.probe() is None
assert "llvmlite" not in sys.modules and "ocannl_backend_llvm.backend" not in sys.modules
info.load()
assert "llvmlite" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_probe_names_the_missing_package(monkeypatch):
    monkeypatch.setattr("ocannl_backend_llvm.find_spec", lambda name: None)
    assert ocannl_backend().probe() == "llvmlite is not installed: pip install llvmlite"


def test_the_version_identifies_the_target(llvm):
    target = host()
    for part in ("llvmlite-", "llvm-", target.triple, target.cpu, "features-"):
        assert part in llvm.version
    assert llvm.version == llvm.version and "\n" not in llvm.version
    assert llvm.name == "llvm" and llvm.device_count() >= 8
