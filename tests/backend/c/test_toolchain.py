"""The C compiler: which one is found, and what becomes of one that is missing, fails, hangs or lies."""

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
from ocannl.base.config import settings
from ocannl.ir.loops import Access, Buf, Home, Num, Proc, Ref, Store
from ocannl.ir.precision import float32
from ocannl_backend_c import ocannl_backend, toolchain

HONEST = 'case "$*" in *-dM*) exec REAL "$@";; esac\n'  # a stub that says what it is


@pytest.fixture
def stub(tmp_path, c):
    """Makes compilers out of shell scripts; REAL stands for one that works."""
    real = toolchain.command()

    def make(text, name="stub", folder=tmp_path):
        path = folder / name
        path.write_text("#!/bin/sh\n" + text.replace("REAL", " ".join(real)))
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture(autouse=True)
def nobody_says_otherwise(monkeypatch):
    for name in ("CC", "OCANNL_C_COMPILER", "OCANNL_COMPILE_SECONDS"):
        monkeypatch.delenv(name, raising=False)


def program(name="p", value=1.0):
    y = Buf("y", float32, (), (), Home.POOL, Access.OUT)
    return Proc(name, (y,), (), (Store(Ref(y, ()), Num(value, float32)),))


def refused(c, compiler, **more):
    with settings(c_compiler=compiler, **more), pytest.raises(CompileError) as caught:
        c.compile([program()])
    return str(caught.value)


def kept(words):
    """The source that an error names."""
    path = Path(words.split("is kept in ")[1].splitlines()[0])
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    return path.read_text(encoding="ascii")


# -------------------------------------------------------------------------------------------------------------- which


@pytest.mark.parametrize("present", [("gcc", "clang", "cc"), ("clang", "cc"), ("cc",)], ids="-".join)
def test_compilers_are_looked_for_in_order(stub, tmp_path, monkeypatch, present):
    for name in present:
        stub("exit 1", name)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert toolchain.command() == (str(tmp_path / present[0]),)


def test_the_wheel_comes_last(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "find_spec", lambda name: name)
    assert toolchain.command() == (sys.executable, "-m", "ziglang", "cc")
    assert ocannl_backend().probe() is None


def test_without_a_compiler_the_probe_says_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "find_spec", lambda name: None)
    reason = ocannl_backend().probe()
    assert "there is no C compiler: none of gcc, clang, cc" in reason
    assert reason.endswith("pip install ocannl-backend-c[zig]")


def test_the_setting_goes_before_the_custom_of_other_programs(stub, tmp_path, monkeypatch):
    one, two, three = (stub("exit 1", name) for name in ("one", "two", "three"))
    monkeypatch.setenv("CC", f"{one} -m64")
    assert toolchain.command() == (one, "-m64")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ocannl.toml").write_text(f"c_compiler = '{two}'")
    assert toolchain.command() == (two,)
    monkeypatch.setenv("OCANNL_C_COMPILER", three)
    assert toolchain.command() == (three,)
    with settings(c_compiler=f"'{one}' 'a b'"):
        assert toolchain.command() == (one, "a b")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("no-such-cc -O1", "there is no C compiler `no-such-cc`, asked for by CC"),
        ("gcc; touch x", "there is no C compiler `gcc;`, asked for by CC"),
        ("gcc 'x", "the C compiler `gcc 'x`, asked for by CC, cannot be read"),
    ],
)
def test_a_named_compiler_is_never_replaced(c, monkeypatch, asked, says):
    monkeypatch.setenv("CC", asked)
    assert says in ocannl_backend().probe()
    with pytest.raises(BackendUnavailable, match=says):
        c.compile([program()])


def test_the_version_names_what_decides_the_code(c, stub):
    found = c.version
    for part in (toolchain.command()[0], "-march=native", sys.platform):
        assert part in found
    assert "\n" not in found and c.version == found
    with settings(c_compiler=stub('exec REAL -mno-avx "$@"')):
        assert c.version != found


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
def test_vectors_are_those_of_the_target(c, stub, macros, vectors):
    """Without any there is nothing to have in lanes."""
    lines = "".join(f"echo '#define {macro} 1'\n" for macro in ("__VERSION__ \"9\"", *macros.split()))
    with settings(c_compiler=stub(lines)):
        claimed = c.capabilities
    assert (claimed.vector_bytes, claimed.vector_registers) == vectors


def test_the_description_runs_nothing():
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


# ------------------------------------------------------------------------------------------------------------- faults


def test_a_compiler_that_does_not_say_what_it_is(c, stub):
    words = refused(c, stub("echo what? >&2; exit 4"))
    assert "the C compiler does not say what it is" in words
    assert "-march=native -dM -E" in words and "what?" in words


def test_flags_that_a_compiler_does_not_know_are_left_out(c, run, stub):
    fussy = stub('case "$*" in *=native*) echo unknown >&2; exit 1;; esac\nexec REAL "$@"')
    with settings(c_compiler=fussy):
        assert "=native" not in c.version
        assert run(program(value=3.0), np.zeros((), np.float32))[0] == 3


def test_a_compiler_that_fails(c, stub):
    words = refused(c, failing := stub(f"{HONEST}echo it is late >&2; exit 3"))
    assert "the C compiler failed with status 3" in words and words.endswith("it is late")
    assert f"{failing} -std=c99" in words and "code.c" in words
    assert "ocannl_p(" in kept(words)


def test_text_that_is_refused_is_kept(c):
    with pytest.raises(CompileError) as caught:
        toolchain.build("int f(void) { return 1 }\n", toolchain.toolchain())
    assert "error:" in str(caught.value)
    assert kept(str(caught.value)) == "int f(void) { return 1 }\n"


def test_a_compiler_that_hangs_is_ended_with_all_it_started(c, stub, tmp_path):
    words = refused_after = time.monotonic()
    words = refused(c, stub(f"{HONEST}sleep 600 & echo $! > {tmp_path}/child; sleep 600"), compile_seconds=1)
    assert time.monotonic() - refused_after < 30
    assert "did not end within 1 s (`compile_seconds`)" in words and "ocannl_p(" in kept(words)
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
    assert "the C compiler cannot be run" in refused(c, str(path))


OUTPUTS = {
    "nothing": ("exit 0", "succeeded and made nothing"),
    "no bytes": (": > code.so", "no shared object"),
    "words": ("echo hello > code.so", "no shared object"),
    "random bytes": ("head -c 20000 /dev/urandom > code.so", "no shared object"),
    "a program": ("cp /bin/sh code.so", "cannot be loaded|no such entry"),
    "an object": ('REAL -c -o code.so -x c - < code.c; exit 0', "no shared object|cannot be loaded"),
}  # fmt: skip


@pytest.mark.parametrize("what", OUTPUTS)
def test_a_compiler_that_makes_something_else(c, stub, what):
    script, says = OUTPUTS[what]
    with settings(c_compiler=stub(HONEST + script)), pytest.raises(CompileError, match=says):
        c.compile([program()])


@pytest.mark.parametrize("cut", [1, 100, 1000, 4000, 8000])
def test_a_compiler_that_makes_only_a_part(c, stub, cut):
    part = f'REAL "$@" || exit 1\nhead -c -{cut} code.so > part\nmv part code.so'
    assert "only a part of one" in refused(c, stub(HONEST + part))


def test_entries_that_are_missing(c, stub):
    renamed = 'sed -i s/ocannl_p/ocannl_q/ code.c\nREAL "$@"'
    assert "no such entry" in refused(c, stub(HONEST + renamed))


def test_no_folder_to_work_in(c, monkeypatch, tmp_path):
    toolchain.toolchain()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(CompileError, match="no room for the C compiler to work"):
        c.compile([program()])


def test_no_room_on_the_disk():
    """A limit on the size of files stands for a disk that is full: for the source, for the compiler, for loading."""
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
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("alive\n"), done.stderr


SCALAR = """
from ocannl.ir.loops import Access, Buf, Home, Num, Proc, Ref, Store
from ocannl.ir.precision import float32
y = Buf("y", float32, (), (), Home.POOL, Access.OUT)
program = Proc("p", (y,), (), (Store(Ref(y, ()), Num(1.0, float32)),))
"""


# ------------------------------------------------------------------------------------------------------------ manners


def test_all_programs_are_compiled_in_one_run(c, stub, tmp_path):
    counting = stub(f'{HONEST}echo run >> {tmp_path}/runs\nexec REAL "$@"')
    with settings(c_compiler=counting):
        code = c.compile([program(f"p{n}") for n in range(5)])
    assert len(code.programs) == 5 and (tmp_path / "runs").read_text() == "run\n"


def test_nothing_is_left_on_the_disk(c, run, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run(program(), np.zeros((), np.float32))[0] == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no list of what is mapped")
def test_code_leaves_the_process_with_its_last_holder(c, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = c.compile([program()])
    again = c.restore(code.blob)
    mapped = lambda: str(tmp_path) in Path("/proc/self/maps").read_text()  # noqa: E731
    assert mapped()
    del code
    assert mapped()
    del again
    assert not mapped()


def test_processes_work_side_by_side(tmp_path):
    """On one cache: what one compiles, another may load."""
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
        _, said = process.communicate()
        assert (process.returncode, said) == (0, b"")


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
    """If it is installed: the same program, by another compiler."""
    pytest.importorskip("ziglang")
    with settings(c_compiler=f"{shutil.which(sys.executable)} -m ziglang cc"):
        assert run(program(value=7.0), np.zeros((), np.float32))[0] == 7


def test_what_killed_processes_have_left_is_swept(tmp_path, monkeypatch):
    monkeypatch.setattr(toolchain.tempfile, "gettempdir", lambda: str(tmp_path))
    names = (f"{toolchain.WORK}old", f"{toolchain.WORK}new", "ocannl-c-kept-old", "another")
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "code.c").touch()
        if not name.endswith("new"):
            os.utime(tmp_path / name, (0, 0))
    (tmp_path / f"{toolchain.WORK}link").symlink_to(tmp_path / "another")
    toolchain.sweep(-1)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted({*names, f"{toolchain.WORK}link"} - {names[0]})
