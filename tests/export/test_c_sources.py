"""C sources: ISO C99 without warnings, sanitizers without findings, and the same numbers as the C backend."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from exported_library import perceptron

import ocannl as oc

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
