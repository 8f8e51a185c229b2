"""Arrays, routines, symbols and libraries may be called what C, C++, JavaScript and Python have a meaning for."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import ocannl as oc
from ocannl_export.forms.webassembly import module
from ocannl_export.library import describe
from ocannl_export.reserved_names import GENERATED_FUNCTIONS, routine_names
from ocannl_export.targets import TARGETS

GCC, CXX, NODE = shutil.which("gcc"), shutil.which("g++"), shutil.which("node")
pytestmark = pytest.mark.skipif(GCC is None, reason="there is no gcc")

NAMES = [
    # array, routine, symbol, library
    ("linux", "class", "checked", "run"),
    ("class", "constructor", "new", "step"),
    ("NULL", "text", "this", "random"),
    ("NAN", "init", "ctypes", "add"),
    ("INT8_MAX", "word", "BigInt", "random"),
    ("net", "1", "var", "threefry4x32_20"),
    ("workspace", "import", "run_step", "init"),
    ("code", "save", "self", "code"),
]


def gathering(array: str, routine: str, symbol: str) -> oc.Routine:
    n = oc.symbol(symbol, 0, 5)
    x = oc.placeholder(array, b=[5], o=[3])
    total = oc.node("total", output=[3])
    with oc.cd("add") as add:
        total += x[n]
    ctx = oc.Context("numpy")
    ctx[x] = np.zeros((5, 3), "f4")
    return ctx.compile(add, name=routine)


@pytest.mark.parametrize(("array", "routine", "symbol", "library"), NAMES)
def test_names_with_a_meaning(array: str, routine: str, symbol: str, library: str, tmp_path: Path) -> None:
    compiled = gathering(array, routine, symbol)
    assert GCC is not None
    for vectors, options in ((True, ["-std=gnu11", "-Wall"]), (False, ["-std=c99", "-pedantic", "-Wall", "-Wextra"])):
        oc.export(compiled, tmp_path / f"{library}.c", vectors=vectors)
        command = [GCC, *options, "-Werror", "-c", "-o", "code.o", f"{library}.c"]
        subprocess.run(command, cwd=tmp_path, check=True)
    if CXX:
        (tmp_path / "user.cpp").write_text(f'#include <cstdio>\n#include "{library}.h"\n')
        subprocess.run([CXX, "-std=gnu++17", "-fsyntax-only", "user.cpp"], cwd=tmp_path, check=True)
    if NODE:
        text = module(describe([compiled], library, [TARGETS["wasm32"]]), ["exp"])
        methods = re.findall(r"^  (\w+)\(", text, re.MULTILINE)
        assert len(set(methods)) == len(methods) > 4
        (tmp_path / "module.mjs").write_text(text)
        subprocess.run([NODE, "--check", "module.mjs"], cwd=tmp_path, check=True)


@pytest.mark.skipif(
    not any(row.name == "c" and row.usable for row in oc.backends()), reason="the C backend is not usable"
)
def test_names_and_numbers_in_wheels(tmp_path: Path) -> None:
    (path,) = oc.export(gathering("class", "import", "self"), tmp_path / "names.whl", target="native")
    with zipfile.ZipFile(path) as archive:
        for name in ("names/__init__.py", "names/__init__.pyi"):
            ast.parse(archive.read(name))
        archive.extractall(tmp_path)
    call = "import names; net = names.Net(); net.import_2(4); net.import_2({})"
    for number in (5, 2**64, -(2**64)):
        result = subprocess.run(
            [sys.executable, "-c", call.format(number)], cwd=tmp_path, capture_output=True, text=True
        )
        assert result.returncode == 1 and "a symbol is out of its range" in result.stderr
    for name in ("numpy", "ctypes"):
        with pytest.raises(oc.ArgumentError, match=f"`{name}` is a module of Python"):
            oc.export(gathering("x", "step", "n"), tmp_path / f"{name}.whl", target="native")


def test_loops_of_a_routine_are_not_called_as_functions_of_the_interface(tmp_path: Path) -> None:
    """`a_b_1` could be the first loop of the routine `a_b`, and the routine `b_1` of the library `a`."""
    x = oc.placeholder("x", o=[3])
    ctx = oc.Context("numpy")
    routines = [ctx.compile((x * n).forward, name=name) for n, name in ((2, "a_b"), (3, "b_1"))]
    oc.export(routines, tmp_path / "a.c")
    assert GCC is not None
    subprocess.run([GCC, "-Wall", "-Werror", "-c", "a.c"], cwd=tmp_path, check=True)


def test_all_static_functions_are_reserved(tmp_path: Path) -> None:
    """A library `random` with a routine `word` would define `random_word` twice."""
    params = [
        oc.param(f"p_{dtype}_{normal}", oc.kaiming(normal=normal), o=[4], i=[4], dtype=dtype)
        for dtype in ("float32", "float64", "bfloat16")
        for normal in (False, True)
    ]
    x = oc.placeholder("x", o=[4])
    total = sum(((p.astype("float32") @ x).sum() for p in params), x.sum())
    ctx = oc.Context("numpy")
    ctx.init(total)
    oc.export(ctx.compile(total.forward, name="f"), tmp_path / "net.c", init=total)
    text = (tmp_path / "net.c").read_text().split("const char *net_message", 1)[1]
    defined = set(re.findall(r"^static (?:const )?\w+ (\w+)\(", text, re.MULTILINE))
    assert {"random_word", "checked", "draw_normal_bfloat16"} <= defined <= GENERATED_FUNCTIONS
    assert "word" in set(routine_names("random"))


USER = """\
#include "mlp.h"
#include "Mlp.h"
#include "MLP.h"
int main(void)
{
  static struct mlp a; static struct Mlp b; static struct MLP c;
  if (mlp_step(0) != MLP_NULL_POINTER || Mlp_step(0) != Mlp_null_pointer || MLP_step(0) != MLP_null_pointer) return 1;
  if (mlp_init(&a, 0) || Mlp_init(&b, 0) || MLP_init(&c, 0) || mlp_step(&a) || Mlp_step(&b) || MLP_step(&c)) return 2;
  return a.total_x[0] == 2 && b.total_x[1] == 3 && c.total_x[2] == 4 ? 0 : 3;
}
"""


def test_names_in_different_case_in_one_program(tmp_path: Path) -> None:
    assert GCC is not None
    ctx = oc.Context("numpy")
    x = oc.param("x", 1.0, o=[3])
    ctx.init(x)
    for n, name in enumerate(("mlp", "Mlp", "MLP"), 2):
        total = oc.node("total", output=[3])
        with oc.cd("step") as code:
            total += x * n
        oc.export(ctx.compile(code, name="step", keep=total), tmp_path / f"{name}.c")
    (tmp_path / "main.c").write_text(USER)
    files = ["main.c", "mlp.c", "Mlp.c", "MLP.c"]
    subprocess.run([GCC, "-Wall", "-Werror", "-O1", "-o", "main", *files, "-lm"], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "main"], check=True)
