"""C sources: ISO C99 without warnings, sanitizers without findings, and the same numbers as the C backend."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from exported_library import perceptron

import ocannl as oc
from ocannl import train

GCC = shutil.which("gcc")
pytestmark = pytest.mark.skipif(GCC is None, reason="there is no gcc")

SEMANTICS = ["-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off"]
STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]
MAIN = """\
#include <stdio.h>
#include <stdlib.h>
#include "mlp.h"

static const float x[8][4] = { X };
static const float t[8][2] = { T };

int main(void)
{
  struct mlp *net = aligned_alloc(64, (mlp_size() + 63) / 64 * 64);
  unsigned char *file = malloc(mlp_saved_size());
  if (mlp_init(net, 7) || mlp_set(net, "x", x, sizeof x) || mlp_set(net, "t", t, sizeof t)) return 1;
  for (int n = 0; n < 100; n++)
    if (mlp_step(net)) return 2;
  if (mlp_save(net, file, mlp_saved_size()) || mlp_step(net)) return 3;
  float last = net->loss;
  if (mlp_load(net, file, mlp_saved_size()) || mlp_step(net) || net->loss != last) return 4;
  if (mlp_save(net, file, mlp_saved_size() - 1) != MLP_SMALL_BUFFER || mlp_step(NULL) != MLP_NULL_POINTER) return 5;
  if (mlp_load(net, file, 7) != MLP_NOT_SAFETENSORS || mlp_infer(net)) return 6;
  printf("%.9g\\n", last);
  free(file);
  free(net);
  return 0;
}
"""


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
    x, t = (", ".join(f"{cell!r}f" for cell in array.reshape(-1).tolist()) for array in training.data)
    (tmp_path / "main.c").write_text(MAIN.replace("{ X }", f"{{ {x} }}").replace("{ T }", f"{{ {t} }}"))
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g"] if form == "sanitized" else []
    strict = [] if form == "vectors" else STRICT
    braces = ["-Wno-missing-braces"]
    main_flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", *braces, *sanitizers]
    loss = run_program(tmp_path, [*strict, *sanitizers], main_flags)
    training.ctx[training.x], training.ctx[training.t] = training.data
    for _ in range(101):
        training.step()
    assert loss == pytest.approx(training.ctx[training.loss].item(), rel=1e-4)


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
    """Labels that C cannot spell, types that C lacks, random numbers, gathers and empty arrays."""
    x = oc.placeholder('x*/ ??/ é "q" int', b=[3], o=[4], dtype="bfloat16")
    ids = oc.placeholder("struct", b=[3], o=[], dtype="int32")
    mask = oc.placeholder("NAME@NAME@", b=[3], o=[4], dtype="bool")
    w = oc.param("w", oc.uniform(-1, 1) * 0.5, o=[4], i=[4])
    table = oc.tensor([[float(n), 1.5] * 2 for n in range(5)], dtype="float64")
    noise = oc.uniform(key="noise", b=[3], o=[4])
    y = oc.where(mask, w @ x.astype("float32"), 0) * noise + table.take(ids).astype("float32")
    loss = (y**2).mean()
    empty = oc.placeholder("empty", b=[0], o=[3]).sum()
    ctx = oc.Context("c")
    ctx.init(loss)
    step = ctx.compile(oc.seq(train.grad_update(loss), train.sgd(loss, 0.1, momentum=0.9)), name="step")
    total = ctx.compile(empty.forward, name="total", keep=empty)
    for options, vectors in ((STRICT, False), (STRICT[2:], True)):
        oc.export([step, total], tmp_path / "odd.c", init=loss, vectors=vectors)
        assert GCC is not None
        subprocess.run([GCC, *options, *SEMANTICS, "-O1", "-c", "odd.c"], cwd=tmp_path, check=True)
