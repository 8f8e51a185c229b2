"""Files that cannot be written, and paths that are too long: errors that name the path, from every function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import ocannl as oc
from ocannl.cli.app import build
from ocannl.cli.ops import _write
from ocannl.lang.declare.catalogue import installed_rows

LONG = "a" * 300


def routine() -> oc.Routine:
    x = oc.placeholder("x", output=[3])
    y = (x + 1.0).with_label("y")
    context = oc.Context("numpy")
    made = context.compile(y.forward, name="step", keep=[y])
    context.set(x, np.ones(3, np.float32))
    return made


WRITERS: dict[str, Callable[[Path], object]] = {
    "profile": lambda path: routine().profile(calls=1).chrome_trace(path),
    "save_text": lambda path: routine().save_text(path),
    "export": lambda path: oc.export(routine(), path / "step.c", "c"),
    "explore": lambda path: oc.explore(routine(), path),
    "onnx": lambda path: oc.onnx.export(oc.relu(oc.placeholder("x", output=[2])), path),
    "ops": lambda path: _write(list(installed_rows())[:2], "functions", path),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("end", ["file/page", LONG, "null\0byte"])
def test_errors_name_the_path(name: str, end: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(oc.ArgumentError, match="cannot be written"):
        WRITERS[name](tmp_path / end)


@pytest.mark.parametrize(
    "arguments",
    [["run", LONG], ["profile", f"{LONG}.py"], ["show", f"{LONG}.py:build"], ["train", LONG], ["replay", LONG]],
)
def test_commands_with_long_paths(arguments: list[str]) -> None:
    result = CliRunner().invoke(build(), arguments)
    assert result.exit_code and isinstance(result.exception, SystemExit | oc.OcannlError)


def test_checkpoints_with_long_paths(tmp_path: Path) -> None:
    context = oc.Context("numpy")
    w = oc.param("w", 0.0, output=[2])
    context.init(w)
    for call in (lambda: oc.save(tmp_path / LONG, context, w), lambda: oc.load(tmp_path / LONG, context, w)):
        with pytest.raises(oc.CheckpointError):
            call()
