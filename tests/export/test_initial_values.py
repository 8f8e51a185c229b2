"""What `init` of a library sets: new parameters, states, and values of a context."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from exported_library import Library

import ocannl as oc
from ocannl import nn, train

GCC = shutil.which("gcc")
pytestmark = pytest.mark.skipif(GCC is None, reason="there is no gcc")


def compiled(folder: Path, name: str, *options: str) -> Library:
    """The library of the source of that name."""
    assert GCC is not None
    flags = ["-Wall", "-Werror", "-ffp-contract=off", "-O1", "-shared", "-fPIC", *options]
    subprocess.run([GCC, *flags, "-o", f"{name}.so", f"{name}.c", "-lm"], cwd=folder, check=True)
    return Library(folder / f"{name}.so", name)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e5m2", "float8_e4m3fn", "float64"])
@pytest.mark.parametrize("normal", [False, True])
def test_drawn_numbers_of_all_types_follow_the_seed(dtype: str, normal: bool, tmp_path: Path) -> None:
    w = oc.param("w", oc.kaiming(normal=normal), o=[30], i=[40], dtype=dtype)
    y = w @ oc.placeholder("x", o=[40], dtype=dtype)
    ctx = oc.Context("numpy")
    ctx.init(y, seed=11)
    infer = ctx.compile(y.forward, name="infer", keep=y)
    for name, vectors in (("gnu", True), ("iso", False)):
        oc.export(infer, tmp_path / f"{name}.c", init=y, vectors=vectors)
        library = compiled(tmp_path, name, *([] if vectors else ["-std=c99", "-pedantic", "-Wextra"]))
        assert library.init(11) == 0
        kind = f"u{w.node.precision.nbytes}"
        bits, expected = library.get("w", (30, 40), kind), ctx[w]
        if dtype == "float64":
            np.testing.assert_allclose(bits.view("f8"), expected, rtol=0, atol=1e-15 if normal else 0)
        else:
            assert (bits == expected.view(kind)).all()


def test_dropout_and_batch_statistics_in_one_source(tmp_path: Path) -> None:
    """The program and `init` use the generator of random numbers, which the source defines once."""
    x, w = oc.placeholder("x", b=[8], o=[6]), oc.param("w", o=[5])
    loss = (nn.dropout(oc.relu(nn.batch_norm(w @ x)), rate=0.5) ** 2).mean()
    ctx = oc.Context("numpy")
    ctx.init(loss, seed=42)
    step = ctx.compile(oc.seq(train.grad_update(loss), train.sgd(loss, 0.1)), name="step")
    oc.export(step, tmp_path / "net.c", init=loss)
    library = compiled(tmp_path, "net")
    assert library.init(42) == 0
    ctx[x] = np.random.default_rng(0).standard_normal((8, 6)).astype("f4")
    library.set("x", ctx[x])
    for _ in range(20):
        step()
        assert library.call("step") == 0
    np.testing.assert_allclose(library.get("w", (5, 6)), ctx[w], rtol=1e-5, atol=1e-6)


def test_new_values_do_not_depend_on_calls_before(tmp_path: Path) -> None:
    """A library with `init=` starts as a new context does, whatever the context has computed."""
    v, w = oc.param("v", 1.5, o=[3]), oc.param("w", oc.uniform(-1, 1, o=[3]) * 0.5 + 2, o=[3])
    part, total = (v**2).sum(), (v * w).sum()
    ctx = oc.Context("numpy")
    ctx.init(total, seed=5)
    infer = ctx.compile(total.forward, name="infer", keep=total)
    oc.export(infer, tmp_path / "net.c", init=total)
    before = (tmp_path / "net.c").read_text()
    expected = ctx[w]
    infer()
    oc.export(infer, tmp_path / "net.c", init=total)
    assert (tmp_path / "net.c").read_text() == before
    library = compiled(tmp_path, "net")
    library.init(5)
    assert library.get("total") == 0
    np.testing.assert_allclose(library.get("w", (3,)), expected, rtol=1e-6)

    second = oc.Context("numpy")
    second.init(part)
    infer = second.compile(total.forward, name="infer", keep=total)
    with pytest.raises(oc.UninitializedError, match="`w` has no value to export"):
        oc.export(infer, tmp_path / "part.c", init=part)
    second.init(total)
    oc.export(infer, tmp_path / "part.c", init=part)
    library = compiled(tmp_path, "part")
    library.init(0)
    assert (library.get("w", (3,)) == second[w]).all()
    second.close()
    with pytest.raises(oc.CodeError, match="this context is closed"):
        oc.export(infer, tmp_path / "closed.c")


def test_files_are_replaced_as_wholes(tmp_path: Path) -> None:
    """A process that has loaded a library keeps the file that it has loaded."""
    total = oc.placeholder("x", o=[3]).sum()
    infer = oc.Context("numpy").compile(total.forward, name="infer")
    for _ in range(2):
        oc.export(infer, tmp_path / "net.c")
        with (tmp_path / "net.c").open() as loaded:
            content = loaded.read()
            loaded.seek(0)
            oc.export([infer, infer], tmp_path / "net.c")
            assert loaded.read() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.c", "net.h"]
    with pytest.raises(oc.ArgumentError, match="net.c is that of the form `c`, not of `so`"):
        oc.export(infer, tmp_path / "net.c", form="so")
    with pytest.raises(oc.ArgumentError, match="net.c' cannot be written"):
        oc.export(infer, tmp_path / "net.c" / "net.c")
