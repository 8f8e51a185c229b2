"""C sources: ISO C99 without warnings, sanitizers without findings, and the same numbers as the C backend."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from exported_library import Training, perceptron

import ocannl as oc
from ocannl import train
from ocannl_export.c_text import characters

GCC = shutil.which("gcc")
pytestmark = pytest.mark.skipif(GCC is None, reason="there is no gcc")

ZIG = [sys.executable, "-m", "ziglang", "cc"]  # a clang
COMPILERS = [[str(GCC)], *([ZIG] if find_spec("ziglang") else [])]
SEMANTICS = ["-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off"]
STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]
MAIN = """\
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "mlp.h"

static const float x[8][4] = { X };
static const float t[8][2] = { T };

/* Memory that ends at a page that must not be accessed, and begins near another. */
static void *guarded(size_t bytes)
{
  size_t page = 65536, room = (bytes + page - 1) / page * page;
  char *block = mmap(0, room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED || mprotect(block + page, room, PROT_READ | PROT_WRITE)) exit(9);
  return block + page + room - bytes;
}

int main(void)
{
  struct mlp *net = guarded(mlp_size());
  unsigned char *file = guarded(mlp_saved_size());
  if (mlp_init(net, 7) || mlp_set(net, "x", x, sizeof x) || mlp_set(net, "t", t, sizeof t)) return 1;
  for (int n = 0; n < 100; n++)
    if (mlp_step(net)) return 2;
  if (mlp_save(net, file, mlp_saved_size()) || mlp_step(net)) return 3;
  float last = net->loss;
  if (mlp_load(net, file, mlp_saved_size()) || mlp_step(net) || net->loss != last) return 4;
  if (mlp_save(net, file, mlp_saved_size() - 1) != MLP_SMALL_BUFFER || mlp_step(NULL) != MLP_NULL_POINTER) return 5;
  if (mlp_init(NULL, 0) != MLP_NULL_POINTER || mlp_load(net, NULL, 7) != MLP_NULL_POINTER) return 6;
  if (mlp_get(net, NULL, file, 4) != MLP_NULL_POINTER || mlp_set(net, "x", NULL, 4) != MLP_NULL_POINTER) return 6;
  if (mlp_set(net, "x", x, sizeof x - 1) != MLP_WRONG_SIZE || mlp_find(NULL)) return 6;
  if (mlp_load(net, file, 7) != MLP_NOT_SAFETENSORS || mlp_infer(net)) return 6;
  printf("%.9g\\n", last);
  return 0;
}
"""


def write_main(folder: Path, training: Training) -> None:
    """The program `MAIN` with the data of the training."""
    x, t = (", ".join(f"{cell!r}f" for cell in array.reshape(-1).tolist()) for array in training.data)
    (folder / "main.c").write_text(MAIN.replace("{ X }", f"{{ {x} }}").replace("{ T }", f"{{ {t} }}"))


def expected_loss(training: Training) -> float:
    """The loss of the C backend after the steps of `MAIN`."""
    training.ctx[training.x], training.ctx[training.t] = training.data
    for _ in range(101):
        training.step()
    return float(training.ctx[training.loss].item())


def run_program(folder: Path, flags: list[str], main_flags: list[str]) -> float:
    """Compiles the library and a program that calls it, runs that, and returns the loss that it prints."""
    assert GCC is not None
    for source, options in (("mlp.c", flags), ("main.c", main_flags)):
        subprocess.run([GCC, *options, *SEMANTICS, "-O1", "-c", source], cwd=folder, check=True)
    subprocess.run([GCC, *main_flags, "-o", "main", "main.o", "mlp.o", "-lm"], cwd=folder, check=True)
    return float(subprocess.run([folder / "main"], check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize("form", ["iso", "vectors", "sanitized"])
def test_a_program_of_c_trains(form: str, tmp_path: Path) -> None:
    training = perceptron()
    routines = [training.step, training.infer]
    oc.export(routines, tmp_path / "mlp.c", init=training.loss, vectors=form == "vectors")
    write_main(tmp_path, training)
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g"] if form == "sanitized" else []
    strict = [] if form == "vectors" else STRICT
    braces = ["-Wno-missing-braces"]
    main_flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", *braces, *sanitizers]
    loss = run_program(tmp_path, [*strict, *sanitizers], main_flags)
    assert loss == pytest.approx(expected_loss(training), rel=1e-4)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ziglang") is None, reason="the wheel ziglang is not installed")
@pytest.mark.sample(1)  # since zig compiles a C library for each target, once
@pytest.mark.parametrize("target", ["x86-64", "aarch64", "riscv64"])
def test_objects_are_linked_by_zig_to_static_programs(target: str, tmp_path: Path) -> None:
    """With the C library of the wheel, a program needs nothing else; those of other machines run in qemu-user."""
    machine = target.replace("x86-64", "x86_64")
    emulator = [] if platform.machine() == machine else [f"qemu-{machine}"]
    if emulator and shutil.which(*emulator) is None:
        pytest.skip(f"there is no {emulator[0]} (Debian's package qemu-user)")
    training = perceptron()
    oc.export([training.step, training.infer], tmp_path / "mlp.o", init=training.loss, target=target)
    write_main(tmp_path, training)
    command = [*ZIG, "-target", f"{machine}-linux-musl", "-static", "-O1"]
    subprocess.run([*command, "-o", "main", "main.c", "mlp.o"], cwd=tmp_path, check=True)
    result = subprocess.run([*emulator, tmp_path / "main"], check=True, capture_output=True, text=True)
    assert float(result.stdout) == pytest.approx(expected_loss(training), rel=1e-4)


def test_headers_are_c_plus_plus(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no g++")
    training = perceptron()
    for vectors in (True, False):
        oc.export(training.step, tmp_path / "mlp.c", init=training.loss, vectors=vectors)
        (tmp_path / "user.cpp").write_text('#include "mlp.h"\nint use(mlp *net) { return mlp_step(net); }\n')
        command = [compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "user.cpp"]
        subprocess.run(command, cwd=tmp_path, check=True)


def test_any_label_and_type_is_c_without_warnings(tmp_path: Path) -> None:
    """Labels that C cannot spell, types that C lacks, random numbers, gathers, empty arrays, and so many parameters
    that the header of saved files is longer than strings of ISO C."""
    x = oc.placeholder('x*/ ??/ é "q" int', b=[3], o=[4], dtype="bfloat16")
    ids = oc.placeholder("struct", b=[3], o=[], dtype="int32")
    mask = oc.placeholder("NAME@NAME@", b=[3], o=[4], dtype="bool")
    w = oc.param("w", oc.uniform(-1, 1) * 0.5, o=[4], i=[4])
    table = oc.tensor([[float(n), 1.5] * 2 for n in range(5)], dtype="float64")
    noise = oc.maximum(oc.uniform(key="noise", b=[3], o=[4]), oc.normal(key="more", b=[3], o=[4]))
    y = oc.where(mask, w @ x.astype("float32"), 0) * noise + table.take(ids).astype("float32")
    for n in range(40):
        y = y + oc.param(f"b{n}", 0.0, o=[4])
    loss = (y**2).mean()
    empty = oc.placeholder("empty", b=[0], o=[3]).sum()
    ctx = oc.Context("c")
    ctx.init(loss)
    step = ctx.compile(oc.seq(train.grad_update(loss), train.sgd(loss, 0.1, momentum=0.9)), name="step")
    total = ctx.compile(empty.forward, name="total", keep=empty)
    for options, vectors in ((STRICT, False), (STRICT[2:], True)):
        oc.export([step, total], tmp_path / "odd.c", init=loss, vectors=vectors)
        for compiler in COMPILERS if options is STRICT else COMPILERS[:1]:
            subprocess.run([*compiler, *options, *SEMANTICS, "-O1", "-c", "odd.c"], cwd=tmp_path, check=True)


def test_long_text_is_an_array_of_characters_without_overflow(tmp_path: Path) -> None:
    source = tmp_path / "text.c"
    source.write_text(f"const char text[] = {characters(bytes(range(256)) * 20)};\n")
    for compiler in COMPILERS:
        subprocess.run([*compiler, *STRICT, "-c", str(source), "-o", str(tmp_path / "text.o")], check=True)
