"""Compiled code: bytes that travel, refusals, linking, and what keeps what alive."""

import gc
import json
import subprocess
import sys
import threading
import weakref
from dataclasses import replace

import numpy as np
import pytest

from ocannl.backend import Capabilities, CompileError, Location, Unsupported
from ocannl.backend.native import MAGIC
from ocannl.ir.index import Affine, Sym, SymKind
from ocannl.ir.loops import Access, Apply, Idx, Load, Num, Proc, Ref, Store, Update, loop
from ocannl.ir.ops import ADD, BY_NAME, MUL
from ocannl.ir.precision import float32
from ocannl_backend_llvm import engine, ocannl_backend
from ocannl_backend_llvm.code import restored
from ocannl_backend_llvm.engine import compile_text, host

A = Affine.of


def scale(run, x, name="scale", by=2.0, syms=()):
    """`y[i] = tanh(x[i]) * by + sum of symbols`."""
    bufs = run.like("x", x, Access.IN), run.like("y", x, Access.OUT)
    i = Sym("i", 0, x.size - 1)
    value = Apply(MUL, (Apply(BY_NAME["tanh"], (Load(Ref(bufs[0], (A(i),))),)), Num(by, float32)))
    for sym in syms:
        value = Apply(ADD, (value, Idx(A(sym), float32)))
    return Proc(name, bufs, tuple(syms), (loop(i, (Store(Ref(bufs[1], (A(i),)), value),)),))


X = np.linspace(-2, 2, 9, dtype=np.float32)


def test_restored_code_is_the_same_code(llvm, run):
    n = Sym("n", 0, 9, SymKind.STATIC)
    procs = [scale(run, X), scale(run, X, "other", 3.0, [n])]
    code = llvm.compile(procs)
    again = llvm.restore(code.blob)
    assert again.blob == code.blob and again.source == code.source
    for proc, syms in zip(procs, ((), (7,)), strict=True):
        one = run(proc, X, X * 0, syms=syms, code=code)[1]
        two = run(proc, X, X * 0, syms=syms, code=again)[1]
        np.testing.assert_array_equal(one, two)
        np.testing.assert_allclose(one, np.tanh(X) * (3 if syms else 2) + sum(syms), rtol=1e-6)


def test_compiling_again_gives_the_same_bytes(llvm, run):
    assert llvm.compile([scale(run, X)]).blob == llvm.compile([scale(run, X)]).blob


def test_restoring_does_no_work_on_text(llvm, run, monkeypatch):
    blob = llvm.compile([scale(run, X)]).blob

    def never(*_):
        raise AssertionError

    monkeypatch.setattr(engine, "compile_text", never)
    monkeypatch.setattr(engine.llvm, "parse_assembly", never)
    assert "scale" in llvm.restore(blob).programs


@pytest.mark.parametrize(
    "change", [{"cpu": "i486"}, {"features": "+mmx"}, {"triple": "riscv64-unknown-linux-gnu"}], ids=str
)
def test_a_blob_for_another_target_is_refused(llvm, run, change):
    blob = llvm.compile([scale(run, X)]).blob
    line, _, rest = blob.partition(b"\n")
    header = json.loads(line[len(MAGIC) :])
    header["target"] = str(replace(host(), **change))
    with pytest.raises(CompileError, match="the code was compiled for .*, and this is "):
        llvm.restore(MAGIC + json.dumps(header).encode() + b"\n" + rest)
    with pytest.raises(CompileError, match="the code was compiled for"):
        restored(blob, replace(host(), **change))


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b"",
        lambda b: b"\n",
        lambda b: b"x" + b,
        lambda b: b[:10],
        lambda b: b[:-1],
        lambda b: b + b"\0",
        lambda b: b[: b.index(b"\n") + 1],
        lambda b: MAGIC + b"{}\n",
        lambda b: MAGIC + b"[]\n",
        lambda b: MAGIC + b'{"target": 3}\n',
        lambda b: MAGIC + b"{nonsense\n" + b.partition(b"\n")[2],
        lambda b: b.replace(b'"sizes": [', b'"sizes": [9'),
        lambda b: b.replace(b'"sizes": [', b'"sizes": [1, '),
        lambda b: b[:-9] + bytes([b[-9] ^ 1]) + b[-8:],
        lambda b: b.replace(b'"regions"', b'"reigons"'),
        lambda b: b.replace(b'"nbytes"', b'"mbytes"'),
        lambda b: b.replace(b"sha256", b"sha265"),
    ],
)
def test_a_damaged_header_is_refused(llvm, run, damage):
    blob = llvm.compile([scale(run, X)]).blob
    with pytest.raises(CompileError):
        llvm.restore(damage(blob))


def test_an_object_without_its_entry_is_refused(llvm, run):
    blob = llvm.compile([scale(run, X)]).blob
    with pytest.raises(CompileError, match="cannot link"):
        llvm.restore(blob.replace(b'"name": "scale"', b'"name": "skale"'))


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
def test_refused_text_is_kept_and_named(text, reason):
    with pytest.raises(CompileError, match=reason) as e:
        compile_text(text, host())
    path = str(e.value).split("kept in ")[1].split(": ")[0]
    with open(path, encoding="utf-8") as kept:
        assert kept.read() == text


def test_symbols_that_nobody_defines_are_an_error():
    text = "declare void @ocannl.nowhere()\ndefine void @ocannl.f() {\n  call void @ocannl.nowhere()\n  ret void\n}"
    with pytest.raises(CompileError, match=r"cannot link.*ocannl\.f"):
        engine.load(compile_text(text, host()), ["ocannl.f"])


@pytest.mark.parametrize("names", [["a", "a"], ["a b"], [""], ["\n"], ["1"]], ids=str)
def test_names_of_programs_are_distinct_identifiers(llvm, names):
    with pytest.raises(CompileError, match="names of programs must be distinct identifiers"):
        llvm.compile([Proc(name, (), (), ()) for name in names])


@pytest.mark.parametrize("name", ["exp", "tanhf", "memcpy", "main", "entry"])
def test_programs_may_be_called_like_functions_of_the_library(run, name):
    np.testing.assert_allclose(run(scale(run, X, name), X, X * 0)[1], np.tanh(X) * 2, rtol=1e-6)


def test_code_is_linked_many_times(llvm, run):
    code = llvm.compile([proc := scale(run, X)])
    for n in range(3):
        np.testing.assert_allclose(run(proc, X * n, X * 0, code=code)[1], np.tanh(X * n) * 2, rtol=1e-6)


def test_linking_the_wrong_number_of_locations_is_refused(llvm, run):
    code = llvm.compile([scale(run, X)])
    place = Location(run.device.alloc_pool(64), 0)
    with pytest.raises(CompileError, match="`scale` works on 2 regions of memory and is given 1"):
        llvm.link(code, "scale", run.queue, [place])


@pytest.mark.parametrize("shift", [-36, -35, -4, 0, 4, 35, 36])
def test_memory_that_is_written_may_not_overlap(llvm, run, shift):
    pool = run.device.alloc_pool(256)
    places = [Location(pool, 64), Location(pool, 64 + shift)]
    link = lambda: llvm.link(llvm.compile([scale(run, X)]), "scale", run.queue, places)  # noqa: E731
    if abs(shift) < X.nbytes:
        with pytest.raises(CompileError, match="`y` shares memory with another array of `scale`|`x` shares"):
            link()
    else:
        link()


def test_memory_that_is_only_read_may_overlap(llvm, run):
    x = [run.like(f"x{n}", X, Access.IN) for n in range(3)]
    y = run.like("y", X[:1], Access.INOUT)
    i = Sym("i", 0, 8)
    body = tuple(loop(i, (Update(Ref(y, (A(0),)), ADD, Load(Ref(b, (A(i),)))),)) for b in x)
    code = llvm.compile([Proc("sums", (*x, y), (), body)])
    pool = run.device.alloc_pool(256)
    same = Location(pool, 0)
    llvm.link(code, "sums", run.queue, [same, same, Location(pool, 4), Location(pool, 128)])
    for inside in (0, 20, 39):
        with pytest.raises(CompileError, match="shares memory"):
            llvm.link(code, "sums", run.queue, [same, same, Location(pool, 4), Location(pool, inside)])


@pytest.mark.parametrize("count", [1, 2, 3])
def test_symbols_are_counted(llvm, run, count):
    proc = scale(run, X, syms=[Sym(name, 0, 9, SymKind.STATIC) for name in "abc"[:count]])
    entry = llvm.link(llvm.compile([proc]), "scale", run.queue, run.locations(proc, [X, X]))
    entry(*range(count))
    for wrong in (range(count + 1), range(count - 1), [0.5] * count):
        with pytest.raises((TypeError, ValueError)):
            entry(*wrong)


def test_an_entry_keeps_code_and_memory_alive(llvm, run):
    proc = scale(run, X)
    places = run.locations(proc, [X, X * 0])
    code = llvm.compile([proc])
    entry = llvm.link(code, "scale", run.queue, places)
    slab, library = weakref.ref(places[1].pool.bytes), weakref.ref(code)
    kept = [run.device.free_pool(p.pool) for p in places]
    del places, code, kept
    gc.collect()
    entry()
    assert slab() is not None and library() is not None
    del entry
    gc.collect()
    assert slab() is None and library() is None


def test_threads_compile_and_run_side_by_side(llvm, run):
    failures = []

    def work(number):
        try:
            for n in range(5):
                by = float(number * 10 + n)
                got = run(scale(run, X, by=by), X, X * 0)[1]
                np.testing.assert_allclose(got, np.tanh(X) * by, rtol=1e-6, atol=1e-6)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_the_process_ends_quietly_with_code_alive():
    program = """
import numpy as np
from ocannl.backend import Location
from ocannl.ir.loops import *
from ocannl.ir.precision import float32
from ocannl_backend_llvm import ocannl_backend
backend = ocannl_backend().load()
y = Buf("y", float32, (), (), Home.POOL, Access.OUT)
code = backend.compile([Proc("p", (y,), (), (Store(Ref(y, ()), Num(1, float32)),))])
entry = backend.link(code, "p", backend.device(0).queue(False), [Location(backend.device(0).alloc_pool(4), 0)])
entry()
cycle = [entry]; cycle.append(cycle)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_the_description_imports_nothing_heavy():
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


def test_the_probe_says_what_is_missing(monkeypatch):
    monkeypatch.setattr("ocannl_backend_llvm.find_spec", lambda name: None)
    assert ocannl_backend().probe() == "llvmlite is not installed: pip install llvmlite"


def test_the_version_names_everything_that_decides_the_code(llvm):
    target = host()
    for part in ("llvmlite-", "llvm-", target.triple, target.cpu, "features-"):
        assert part in llvm.version
    assert llvm.version == llvm.version and "\n" not in llvm.version
    assert llvm.name == "llvm" and llvm.device_count() >= 8


def test_a_precision_that_is_not_claimed_is_refused(llvm, run, monkeypatch):
    monkeypatch.setattr("ocannl_backend_llvm.backend.CAPABILITIES", Capabilities(frozenset({"float64"})))
    with pytest.raises(Unsupported, match="`x` is float32, not among the `precisions` of backend `llvm`"):
        llvm.compile([scale(run, X)])
