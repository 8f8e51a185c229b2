"""Selection of the C compiler, and compilers that are missing, fail, hang or write invalid output."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from ocannl.backend import BackendUnavailable, CompileError
from ocannl.base import settings_files
from ocannl.base.config import settings
from ocannl.ir.loops import AccessMode, Buf, Const, MemorySpace, Proc, Ref, Store
from ocannl.ir.precision import float32
from ocannl_backend_c import ocannl_backend, toolchain

QUERYABLE = 'case "$*" in *-dM*) exec REAL "$@";; esac\n'  # beginning of stubs that answer the query of the compiler


@pytest.fixture
def stub(tmp_path, c):
    """Makes compilers from shell scripts; REAL stands for the command of a working compiler."""
    real = toolchain.command()

    def make(text, name="stub", folder=tmp_path):
        path = folder / name
        path.write_text("#!/bin/sh\n" + text.replace("REAL", " ".join(real)))
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in ("CC", "OCANNL_C_COMPILER", "OCANNL_COMPILE_SECONDS"):
        monkeypatch.delenv(name, raising=False)


def program(name="p", value=1.0):
    y = Buf("y", float32, (), (), MemorySpace.GLOBAL, AccessMode.OUT)
    return Proc(name, (y,), (), (Store(Ref(y, ()), Const(value, float32)),))


def compile_error(c, compiler, **more):
    with settings(c_compiler=compiler, **more), pytest.raises(CompileError) as caught:
        c.compile([program()])
    return str(caught.value)


def saved_source(message):
    """The source saved by an error."""
    path = Path(message.split("is kept in ")[1].splitlines()[0])
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    return path.read_text(encoding="ascii")


# ------------------------------------------------------------------------------------------------------------ selection


@pytest.mark.parametrize("present", [("gcc", "clang", "cc"), ("clang", "cc"), ("cc",)], ids="-".join)
def test_order_of_candidates(stub, tmp_path, monkeypatch, present):
    for name in present:
        stub("exit 1", name)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert toolchain.command() == (str(tmp_path / present[0]),)


def test_the_wheel_comes_last(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "find_spec", lambda name: name)
    assert toolchain.command() == (sys.executable, "-m", "ziglang", "cc")
    assert ocannl_backend().probe() is None


def test_the_probe_suggests_an_installation(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "find_spec", lambda name: None)
    reason = ocannl_backend().probe()
    assert "there is no C compiler: none of gcc, clang, cc" in reason
    assert reason.endswith("pip install ocannl-backend-c[zig]")


def test_the_setting_precedes_the_environment_variable(stub, tmp_path, monkeypatch):
    first, second, third = (stub("exit 1", name) for name in ("one", "two", "three"))
    monkeypatch.setenv("CC", f"{first} -m64")
    assert toolchain.command() == (first, "-m64")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    settings_files.trust(tmp_path)
    (tmp_path / "ocannl.toml").write_text(f"c_compiler = '{second}'")
    assert toolchain.command() == (second,)
    monkeypatch.setenv("OCANNL_C_COMPILER", third)
    assert toolchain.command() == (third,)
    with settings(c_compiler=f"'{first}' 'a b'"):
        assert toolchain.command() == (first, "a b")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("no-such-cc -O1", "the C compiler `no-such-cc`, requested by CC, is not installed"),
        ("gcc; touch x", "the C compiler `gcc;`, requested by CC, is not installed"),
        ("gcc 'x", "the C compiler `gcc 'x`, requested by CC, cannot be read"),
    ],
)
def test_a_named_compiler_is_never_replaced(c, monkeypatch, command, message):
    monkeypatch.setenv("CC", command)
    assert message in ocannl_backend().probe()
    with pytest.raises(BackendUnavailable, match=message):
        c.compile([program()])


def test_the_version_identifies_the_compiler(c, stub):
    version = c.version
    for part in (toolchain.command()[0], "-march=native", sys.platform):
        assert part in version
    assert "\n" not in version and c.version == version
    with settings(c_compiler=stub('exec REAL -mno-avx "$@"')):
        assert c.version != version


def test_code_for_another_target_is_refused(c, stub):
    code = c.compile([program()])
    with settings(c_compiler=stub('exec REAL -DOTHER "$@"')), pytest.raises(CompileError, match="was compiled for"):
        c.restore(code.blob)
    c.restore(code.blob)


@pytest.mark.parametrize(
    ("macros", "vectors"),
    [
        ("__SSE2__ __AVX__ __AVX2__ __AVX512F__", (64, 32)),
        ("__SSE2__ __AVX__ __AVX2__ __AVX512", (32, 16)),
        ("__SSE2__", (16, 16)),
        ("__ARM_NEON", (16, 32)),
        ("__riscv", (0, 16)),
    ],
)
def test_vector_registers_of_targets(c, stub, macros, vectors):
    """The vector registers follow from predefined macros."""
    lines = "".join(f"echo '#define {macro} 1'\n" for macro in ("__VERSION__ \"9\"", *macros.split()))
    with settings(c_compiler=stub(lines)):
        capabilities = c.capabilities
    assert (capabilities.vector_bytes, capabilities.vector_registers) == vectors


@pytest.mark.slow
def test_the_plugin_entry_runs_no_compiler():
    program = """
import subprocess, sys
subprocess.Popen = None
from ocannl_backend_c import ocannl_backend
info = ocannl_backend()
assert info.name == "c"
assert "ocannl_backend_c.toolchain" not in sys.modules
info.probe()
assert "ocannl_backend_c.backend" not in sys.modules
info.load()
"""
    subprocess.run([sys.executable, "-c", program], check=True)


# --------------------------------------------------------------------------------------------------------------- faults


def test_a_compiler_without_version(c, stub):
    message = compile_error(c, stub("echo what? >&2; exit 4"))
    assert "the C compiler does not report its version" in message
    assert "-march=native -dM -E" in message and "what?" in message


def test_unsupported_flags_are_omitted(c, run, stub):
    strict_stub = stub('case "$*" in *=native*) echo unknown >&2; exit 1;; esac\nexec REAL "$@"')
    with settings(c_compiler=strict_stub):
        assert "=native" not in c.version
        assert run(program(value=3.0), np.zeros((), np.float32))[0] == 3


def test_a_compiler_that_fails(c, stub):
    message = compile_error(c, failing := stub(f"{QUERYABLE}echo it is late >&2; exit 3"))
    assert "the C compiler failed with status 3" in message and message.endswith("it is late")
    assert f"{failing} -std=c99" in message and "code.c" in message
    assert "ocannl_p(" in saved_source(message)


def test_rejected_source_is_saved(c):
    with pytest.raises(CompileError) as caught:
        toolchain.build(["int f(void) { return 1 }\n"], toolchain.toolchain())
    assert "error:" in str(caught.value)
    assert saved_source(str(caught.value)) == "int f(void) { return 1 }\n"


def test_a_hanging_compiler_is_killed(c, stub, tmp_path):
    start = time.monotonic()
    message = compile_error(c, stub(f"{QUERYABLE}sleep 600 & echo $! > {tmp_path}/child; sleep 600"), compile_seconds=1)
    assert time.monotonic() - start < 30
    assert "did not finish within 1 s (`compile_seconds`)" in message and "ocannl_p(" in saved_source(message)
    child = int((tmp_path / "child").read_text())
    status = Path(f"/proc/{child}/status")
    for _ in range(100):
        if not status.exists() or "State:\tZ" in status.read_text():
            break
        time.sleep(0.05)
    else:
        pytest.fail("the child of the compiler goes on")


def test_a_compiler_that_cannot_be_run(c, tmp_path):
    path = tmp_path / "cc"
    path.write_bytes(b"\x7fELF nonsense")
    path.chmod(0o755)
    assert "the C compiler cannot be run" in compile_error(c, str(path))


OUTPUTS = {
    "nothing": ("exit 0", "succeeded but wrote no output"),
    "no bytes": (": > code.so", "invalid or truncated shared object"),
    "words": ("echo hello > code.so", "invalid or truncated shared object"),
    "random bytes": ("head -c 20000 /dev/urandom > code.so", "invalid or truncated shared object"),
    "a program": ("cp /bin/sh code.so", "cannot be loaded|no such entry"),
    "an object": ('REAL -c -o code.so -x c - < code.c; exit 0', "invalid or truncated shared object|cannot be loaded"),
}  # fmt: skip


@pytest.mark.parametrize("output", OUTPUTS)
def test_an_invalid_output(c, stub, output):
    script, message = OUTPUTS[output]
    with settings(c_compiler=stub(QUERYABLE + script)), pytest.raises(CompileError, match=message):
        c.compile([program()])


@pytest.mark.parametrize("cut", [1, 100, 1000, 4000, 8000])
def test_a_truncated_shared_object(c, stub, cut):
    part = f'REAL "$@" || exit 1\nhead -c -{cut} code.so > part\nmv part code.so'
    assert "invalid or truncated" in compile_error(c, stub(QUERYABLE + part))


def test_entries_that_are_missing(c, stub):
    renamed = 'sed -i s/ocannl_p/ocannl_q/ code.c\nREAL "$@"'
    assert "no such entry" in compile_error(c, stub(QUERYABLE + renamed))


def test_a_missing_temporary_folder(c, monkeypatch, tmp_path):
    toolchain.toolchain()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(CompileError, match="the C compiler's temporary files cannot be written"):
        c.compile([program()])


def test_a_full_disk():
    """Simulates a full disk by a limit on file sizes, which affects the source, the compiler and loading."""
    program = """
import resource, signal
from tests_programs import program
from ocannl.backend import CompileError
from ocannl_backend_c import ocannl_backend
backend = ocannl_backend().load()
code = backend.compile([program])
limit = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for room in (0, 100, 4000, 10000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limit))
    for attempt in (lambda: backend.compile([program]), lambda: backend.restore(code.blob)):
        try:
            attempt()
        except CompileError as refused:
            print(room, str(refused)[:60])
        else:
            assert room > 9000
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
backend.restore(code.blob)
print("alive")
""".replace("from tests_programs import program", SCALAR)
    command = [sys.executable, "-B", "-c", program]  # -B: the byte code of a module would be truncated
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("alive\n"), done.stderr


SCALAR = """
from ocannl.ir.loops import AccessMode, Buf, Const, MemorySpace, Proc, Ref, Store
from ocannl.ir.precision import float32
y = Buf("y", float32, (), (), MemorySpace.GLOBAL, AccessMode.OUT)
program = Proc("p", (y,), (), (Store(Ref(y, ()), Const(1.0, float32)),))
"""


# -------------------------------------------------------------------------------------------- resources and concurrency


def test_programs_are_compiled_together(c, stub, tmp_path):
    counting = stub(f'{QUERYABLE}echo run >> {tmp_path}/runs\nexec REAL "$@"')
    with settings(c_compiler=counting):
        code = c.compile([program(f"p{n}") for n in range(5)])
    assert len(code.programs) == 5 and (tmp_path / "runs").read_text() == "run\n"


def test_nothing_is_left_on_the_disk(c, run, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run(program(), np.zeros((), np.float32))[0] == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no list of what is mapped")
def test_code_is_unloaded(c, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = c.compile([program()])
    restored = c.restore(code.blob)
    mapped = lambda: str(tmp_path) in Path("/proc/self/maps").read_text()  # noqa: E731
    assert mapped()
    del code
    assert mapped()
    del restored
    assert not mapped()


@pytest.mark.slow
def test_concurrent_processes(tmp_path):
    """Processes that share a cache may load each other's code."""
    program = """
import numpy as np, ocannl as oc
for n in range(6):
    x = oc.tensor(np.arange(8, dtype="float32"))
    with oc.settings(cache_dir=CACHE):
        np.testing.assert_array_equal((x * (n % 3) + 1).eval(oc.Context("c")), np.arange(8) * (n % 3) + 1)
""".replace("CACHE", repr(str(tmp_path)))
    running = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", program], stderr=subprocess.PIPE) for _ in range(3)
    ]
    for process in running:
        _, errors = process.communicate()
        assert (process.returncode, errors) == (0, b"")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_goes_on(c, run):
    code = c.compile([program(value=2.0)])
    child = os.fork()
    if child == 0:
        y = np.zeros((), np.float32)
        good = run(program(value=2.0), y, code=code)[0] == 2 and run(program(value=5.0), y)[0] == 5
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert run(program(value=2.0), np.zeros((), np.float32), code=code)[0] == 2


def test_the_compiler_of_the_wheel(c, run):
    """Compiles with the compiler of the `ziglang` wheel, if it is installed."""
    pytest.importorskip("ziglang")
    with settings(c_compiler=f"{shutil.which(sys.executable)} -m ziglang cc"):
        assert run(program(value=7.0), np.zeros((), np.float32))[0] == 7
