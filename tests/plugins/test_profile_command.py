"""`ocannl profile`, and functions of files whose names are those of modules."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ocannl.runtime.profile import Profile, ProfileRow

pytest.importorskip("typer")
from rich.console import Console

from ocannl.base.errors import ArgumentError
from ocannl.cli.imported_function import imported_function
from ocannl.cli.profile import by_heading, flame, view
from ocannl.cli.script import named_routine, profile_of

SCRIPT = """\
import ocannl as oc


def make():
    y = (oc.tensor([1.0, 2.0], label="x") * 2).with_label("y")
    return oc.Context("numpy").compile(y.forward, name="double")


def number():
    return 3


def multiple():
    y = (oc.tensor([1.0, 2.0], label="x") * oc.symbol("n", 1, 3)).with_label("y")
    return oc.Context("numpy").compile(y.forward)
"""


def row(name: str, heading: str, us: int) -> ProfileRow:
    return ProfileRow(name, heading, 3, us * 1000, us * 1000, us * 3000, 4000, 400)


ROWS = (row("h", "forward", 30), row("y", "forward", 10), row("w", "sgd", 60), row("z", "sgd", 0))
PROFILE = Profile("step", "llvm", 3, 110_000, ROWS, ())


def test_bars_are_as_wide_as_their_times() -> None:
    headings, nests = flame(PROFILE, 50)
    assert headings.plain == "forward".ljust(20) + "sgd".ljust(30)
    assert nests.plain == "h".ljust(15) + "y".ljust(5) + "w".ljust(30)
    assert [[row.name for row in rows] for _, rows in by_heading(ROWS)] == [["h", "y"], ["w", "z"]]
    empty = Profile("step", "llvm", 3, 0, (), ())
    assert [line.plain for line in flame(empty, 50)] == ["", ""]


def test_the_view_lists_all_nests() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(view(PROFILE, 80))
    lines = console.export_text().splitlines()
    assert lines[0] == "step on llvm: a call takes 110.0 us, its nests 100.0 us (medians of 3 calls)"
    assert any("forward  40.0 us  40 %" in line for line in lines)
    (line,) = [line for line in lines if " h " in line and "30.0" in line]
    assert line.split()[-6:] == ["30.0", "30", "%", "4,000", "400", "0.15"]
    assert all(len(line) <= 80 for line in lines)


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text(SCRIPT)  # the name of a module that is loaded
    command = [Path(sys.executable).with_name("ocannl"), "profile"]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *arguments], cwd=tmp_path, capture_output=True, text=True)

    result = run("json.py:make", "--calls", "2", "--trace", "trace.json")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("routine double on numpy, 2 calls: a call takes")
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    for function, problem in {
        "json.py:number": "json.py:number must return a routine",
        "json.py:multiple": "call it in the script, or write routine.profile(10, n=1) in Python",
    }.items():
        result = run(function)
        assert result.returncode == 1 and problem in result.stderr


def test_files_named_as_loaded_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "json.py").write_text("def make():\n    return 'of the file'\n")
    assert imported_function(f"{tmp_path / 'json.py'}:make")() == "of the file"
    assert imported_function("json:loads")("3") == 3
    (tmp_path / "unloaded_name.py").write_text("def make():\n    return make.__module__\n")
    for _ in range(2):
        assert imported_function(f"{tmp_path / 'unloaded_name.py'}:make")() == "unloaded_name"
    (tmp_path / "failing.py").write_text("import module_that_does_not_exist\n")
    with pytest.raises(ArgumentError, match="cannot be imported: No module named 'module_that_does_not_exist'"):
        imported_function(f"{tmp_path / 'failing.py'}:make")
    assert "failing" not in sys.modules
    sys.modules.pop("unloaded_name"), sys.modules.pop("script_json")


SCRIPT_OF_TWO = """\
import sys
import helper
import ocannl as oc

if __name__ == "__main__":
    ctx = oc.Context("numpy")
    x = oc.tensor([1.0, 2.0], label="x")
    small, large = (x * 2).with_label("small"), oc.exp(oc.iota(100) * 2).with_label("large")
    routines = [ctx.compile(t.forward, name=t.label) for t in (small, large)]
    print(sys.argv, helper.NUMBER)
    if helper.NUMBER == 4:
        oc.tensor([1.0, 2.0]) + oc.tensor([1.0, 2.0, 3.0])
    sys.exit(0)
"""


def test_scripts(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT_OF_TWO)
    (tmp_path / "helper.py").write_text("NUMBER = 3\n")
    (tmp_path / "empty.py").write_text("")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ocannl.cli", "profile", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    largest = run("script.py")
    assert largest.returncode == 0 and largest.stdout.startswith("['script.py'] 3\nroutine large on numpy"), largest
    assert "routine small on numpy" in run("script.py", "--routine", "small").stdout
    for arguments, problem in {
        ("script.py", "--routine", "other"): "script.py compiles no routine `other`, but `small`, `large`",
        ("empty.py",): "empty.py compiles no routine; a function that returns one is named as empty.py:FUNCTION",
        ("missing.py",): "there is no file missing.py",
    }.items():
        refused = run(*arguments)
        assert refused.returncode == 1 and problem in refused.stderr and "Traceback" not in refused.stderr
    (tmp_path / "helper.py").write_text("NUMBER = 4\n")
    failed = run("script.py").stderr
    assert failed.startswith("Traceback (most recent call last):\n  File \"") and failed.count("  File ") == 1
    assert 'script.py", line 12' in failed and "ShapeError: " in failed


def test_symbols_have_the_values_of_the_last_call(tmp_path: Path) -> None:
    (tmp_path / "rows.py").write_text(
        "import ocannl as oc\n"
        "ctx, n = oc.Context(next(b.name for b in oc.backends() if b.usable)), oc.symbol('n', 1, 101)\n"
        "y = (oc.iota(100) * n).with_label('y')\n"
        "step = ctx.compile(y.forward, name='step')\n"
        "for value in (3, 7):\n"
        "    step(n=value)\n"
        "assert ctx[y][5] == 35\n"
    )
    routine = named_routine(str(tmp_path / "rows.py"), None)
    assert routine.last_symbols == {"n": 7}
    profile = profile_of(routine, 2)
    assert profile.calls == 2 and [row.name for row in profile.rows] == ["y"]
