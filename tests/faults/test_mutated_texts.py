"""Mutated specs, settings, command lines and names: an error of the framework, or a result that is consistent.

OCANNL_TEST_TEXTS is the number of texts (400 by default), OCANNL_TEST_FIRST the seed of the first 100 of each kind.
"""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
import typer.testing
from mutated_texts import ODD, mutated, mutated_list
from time_limit import time_limit

import ocannl as oc
from ocannl.base import config
from ocannl.base.errors import ConfigError
from ocannl.cli import app, backends, demo, doctor, run, train
from ocannl.infer.parse import parse, parse_shape
from ocannl.infer.spec import print_shape, print_spec

COUNT = int(os.environ.get("OCANNL_TEST_TEXTS", "400"))
FIRST = int(os.environ.get("OCANNL_TEST_FIRST", "0"))
TEXTS = 100  # of one seed
KINDS = 4
SECONDS = 10
SEEDS = range(FIRST, FIRST + max(1, COUNT // (KINDS * TEXTS)))


def failures(random: Random, make: Callable[[Random], tuple[str, Callable[[], object]]]) -> Iterator[str]:
    """Yields texts with errors that are not those of the framework."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(TEXTS):
            title, call = make(random)
            try:
                with time_limit(SECONDS):
                    call()
            except oc.OcannlError as error:
                if len(str(error)) <= 10:
                    yield f"{title}\n    the message says nothing: {error}"
            except Exception as error:
                frame = traceback.extract_tb(error.__traceback__)[-1]
                location = f"{os.path.basename(frame.filename)}:{frame.lineno}"
                yield f"{title}\n    {type(error).__name__}: {str(error)[:200]} at {location}"


def check(seed: int, kind: str, make: Callable[[Random], tuple[str, Callable[[], object]]]) -> None:
    found = list(failures(Random(f"{kind} {seed}"), make))
    assert not found, f"{len(found)} of seed {seed}\n" + "\n".join(found)


# --------------------------------------------------------------------------------------------------------------- specs

SPECS = (
    "ij; jk => ik", "...|ab; ...|bc => ...|ac", "...|a->b; ...|a => ...|b", "rows, cols => cols, rows", "ij => ji",
    "b|2*o<+k, c; c, k->d => b|o, d", "o=+3*k; k => o", "a; b => a^b", "(ab) => a b", "i => i, 2", "i, _ => i",
    "ii => i",
    "..batch..|x; ..batch..|x => ..batch..|", "...|...->...; ...|... => ...|...", "3*i[1,-2]+k; k => i", "s*i+2 => i",
    "a, (b c) => a, b, c", "i; j => ", "0|i => i", "a&b => a",
)  # fmt: skip
SHAPES = ("32|784->128", "...|a, b->c", "b|->4", "..rows..|(a b)", "2|3", "a^b", "i, 5, _")
NOTATION = (*";=>|-,.*+^&<[]()_ ", "=>", "->", "...", "..v..", "1", "2", "12", "i", "j", "ab", "_", "-1", "9" * 19)


def spec(random: Random) -> tuple[str, Callable[[], object]]:
    text = mutated(random.choice(SPECS), random, NOTATION if random.random() < 0.8 else ODD)
    if random.random() < 0.2:
        shape = mutated(random.choice(SHAPES), random, NOTATION)
        return f"shape {shape!r}", lambda: reprinted(shape, parse_shape, print_shape)
    sizes = [[random.randint(1, 4) for _ in range(random.randint(0, 3))] for _ in range(random.randint(1, 3))]
    computes = random.random() < 0.1

    def call() -> None:
        reprinted(text, parse, print_spec)
        result = oc.einsum(text, *(np.ones(shape, np.float32) for shape in sizes))
        dims = result.dims
        if computes and np.prod(dims, dtype=float) < 1e4:
            assert oc.evaluate(result).shape == tuple(dims)

    return f"spec {text!r} of {sizes}", call


def reprinted(text: str, read: Callable[[str], object], write: Callable[..., str]) -> None:
    parsed = read(text)
    assert read(write(parsed)) == parsed, f"printed as {write(parsed)!r}"


@pytest.mark.parametrize("seed", SEEDS)
def test_mutated_specs(seed: int) -> None:
    with oc.use_backend("numpy"):
        check(seed, "spec", spec)


# ------------------------------------------------------------------------------------------------------------ settings

VALUES = ("on", "off", "7", "llvm", "float32", "ieee", "user", "inline", "~/cache", "gcc -O2", "0", "1024", "every")
OBJECTS = (None, True, 0, -1, 2**70, 1.5, float("nan"), b"on", [], {}, (1,), object(), 1j, np.float32(2), np.zeros(3))


def setting(random: Random) -> tuple[str, Callable[[], object]]:
    row = random.choice(config.SETTINGS)
    value = random.choice(OBJECTS) if random.random() < 0.2 else mutated(random.choice(VALUES), random)
    match random.randrange(4):
        case 0:
            name = mutated(row.name, random)
            return f"oc.settings(**{{{name!r}: {value!r}}})", lambda: oc.settings(**{name: value}).__enter__
        case 1:
            return f"{row.name} = {value!r} in a file", lambda: from_file(row, f"{row.name} = '{value}'\n")
        case 2:
            text = mutated("seed = 3\n[tool.ocannl]\nthreads = 2\nbackend = 'llvm'\n", random)
            return f"the file {text!r}", lambda: from_file(row, text)
        case _:
            return f"{row.name} = {value!r}", lambda: parsed_twice(row, value)


def parsed_twice(row: config.ConfigSetting[object], value: object) -> None:
    result = row.parse(value, "a test")
    assert row.parse(result, "a test") == result
    with oc.settings(**{row.name: value}):
        assert value is None or row.get() == result


def from_file(row: config.ConfigSetting[object], text: str) -> None:
    for name in ("ocannl.toml", "pyproject.toml"):
        with open(name, "w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(text)
        try:
            row.get()
        finally:
            os.remove(name)


@pytest.mark.parametrize("seed", SEEDS)
def test_mutated_settings(seed: int, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    check(seed, "setting", setting)


@pytest.mark.parametrize("seed", SEEDS[: max(1, len(SEEDS) // 10)])
def test_mutated_variables(seed: int, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # a variable may name a cache folder
    random = Random(f"variable {seed}")
    for _ in range(TEXTS):
        row = random.choice(config.SETTINGS)
        name, value = row.variable, mutated(random.choice(VALUES), random).replace("\0", "")
        if random.random() < 0.3:
            name = mutated(name, random).replace("\0", "").replace("=", "") or "OCANNL_"
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            try:
                config.check()
                row.get()
            except ConfigError:
                continue


# ------------------------------------------------------------------------------------------------------- command lines

MODEL = """
import ocannl as oc

def build():
    x = oc.placeholder("x", batch=[2], output=[3])
    return oc.relu(oc.param("w", output=[4]) @ x)
"""
RUN = "model = 'mlp'\nhidden = [8]\nbatch = 4\nepochs = 1\n[data]\nfile = 'data.npz'\n"
LINES = (
    "--version", "--help", "config", "config --explain", "config trust", "config trust folder",
    "config trust folder --remove",
    "ops conv", "ops conv?d relu", "ops --generate functions", "ops --generate json --output folder",
    "replay defect.json",
    "replay defect.json --show", "run script.py a b", "run -n 2 script.py", "run --processes 4 script.py -x",
    "train run.toml",
    "train run.toml --epochs 2", "show model.py:build", "show model.py:build --nodes", "show model.py:build --size n=3",
    "profile model.py:build", "profile model.py:build -n 2 --trace trace.json", "doctor", "doctor llvm c --limit 5",
    "doctor --save-cpu cpu.json", "demo", "demo digits --epochs 2 --rate 0.1 --out digits.png", "demo moons --seed 3",
    "backends", "export model.py:build -o folder --form c", "explore model.py:build -o page.html",
    "onnx ops conv --json",
    "onnx check model.onnx", "onnx export model.py:build model.onnx --opset 21",
)  # fmt: skip


def no_training(*_: object, **__: object) -> None:
    raise oc.ArgumentError("a test does not train")


class Launched:
    """Stands for a process that ends at once."""

    def __init__(self, *_: object, **__: object) -> None: ...
    def __enter__(self) -> Launched:
        return self

    def __exit__(self, *_: object) -> None: ...
    def wait(self) -> int:
        return 0


@pytest.fixture
def command_line(tmp_path, monkeypatch):
    """Runs command lines in this process, in a folder with their files; nothing is trained, tested or launched."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(doctor, "examine", lambda names, limit: [])
    monkeypatch.setattr(run, "subprocess", SimpleNamespace(Popen=Launched))
    monkeypatch.setattr(train, "_run", no_training)
    monkeypatch.setattr(demo, "Context", no_training)
    monkeypatch.setattr(backends, "backends", list)
    (tmp_path / "folder").mkdir()
    for name, text in {"model.py": MODEL, "script.py": "", "run.toml": RUN, "defect.json": "{}"}.items():
        (tmp_path / name).write_text(text)
    runner, application = typer.testing.CliRunner(), app.build()
    command = typer.main.get_command(application)
    monkeypatch.setattr(typer.testing, "_get_command", lambda _: command)  # made once

    def make(random: Random) -> tuple[str, Callable[[], object]]:
        arguments = mutated_list(random.choice(LINES).split(), random)
        if "run.toml" in arguments:
            text = mutated(RUN, random)
            (tmp_path / "run.toml").write_text(text, encoding="utf-8", errors="surrogatepass")

        def call() -> None:
            result = runner.invoke(application, arguments)
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                raise result.exception
            assert result.exit_code in (0, 1, 2)

        return f"ocannl {arguments}", call

    return make


@pytest.mark.parametrize("seed", SEEDS)
def test_mutated_command_lines(seed: int, command_line) -> None:
    check(seed, "command line", command_line)


# --------------------------------------------------------------------------------------------------------------- names

NAMES = ("x", "w", "w.grad", "loss", "layer 1", "for", "int", "main", "printf", "y_2", "n", "float", "i0", "range")


@pytest.mark.parametrize("seed", SEEDS)
def test_mutated_names(seed: int, backend: str) -> None:
    """All accepted names of a seed in one program, which comes to what it should."""
    random = Random(f"name {seed}")
    total, expected = oc.placeholder("x", output=[2]) * 0.0, 0.0
    leaves = {}
    for n in range(TEXTS):
        name = mutated(random.choice(NAMES), random)
        try:
            match random.randrange(4):
                case 0:
                    leaves[n] = oc.param(name, 0.0, output=[2])
                case 1:
                    leaves[n] = oc.placeholder(name, output=[2])
                case 2:
                    oc.symbol(name, 0, 9)
                    continue
                case _:
                    total, expected = (total * 2.0).with_label(name), expected * 2 % 1000
                    total = total % 1000.0
                    continue
        except oc.OcannlError:
            continue
        total, expected = total + leaves[n], expected + n
    total = total + 1.0
    with suppress(oc.OcannlError):
        total = total.with_label(mutated("result", random))
    names = [mutated("program", random), "program"]
    with oc.settings(cache=False):
        context = oc.Context(backend)
        for name in names:
            try:
                routine = context.compile(total.forward, name=name, keep=[total])
                break
            except oc.OcannlError:
                assert name != "program"
        for leaf in routine.inputs:
            context.set(leaf, np.zeros(2, np.float32))
        for n, leaf in leaves.items():
            context.set(leaf, np.full(2, n, np.float32))
        routine()
    np.testing.assert_array_equal(context.get(total), np.full(2, expected + 1, np.float32))
