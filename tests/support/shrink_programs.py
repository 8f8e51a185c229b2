"""Shrinks a failing program while the kind of its failure stays the same, and saves it."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from ocannl.testing.oracles import Failure, OracleCase, case_by_evaluation
from ocannl.testing.program import Line, Program, build, constant
from ocannl.testing.random_einsums import Array

TRIES = 400
Verdict = Callable[[Program], Failure | None]


def shrunk(program: Program, wrong: Failure, verdict: Verdict) -> tuple[Program, Failure]:
    """The smallest failing program found, with its failure."""
    tries = 0
    progress = True
    while progress:
        progress = False
        for candidate in smaller(program):
            tries += 1
            failure = verdict(candidate)
            if failure is not None and failure.kind == wrong.kind:
                program, wrong, progress = candidate, failure, True
                break
            if tries == TRIES:
                return program, wrong
    return program, wrong


def smaller(program: Program) -> Iterator[Program]:
    """Smaller programs, the smallest first."""
    for count in range(1, len(program.calls)):
        yield replace(program, calls=program.calls[:count])
    for remaining in _without_one(program.updates):
        yield pruned(replace(program, updates=remaining))
    for remaining in _without_one(program.terms):
        if remaining:
            yield pruned(replace(program, terms=remaining))
    meaning = program.runs(before=True)[0]
    for n, line in reversed(list(enumerate(program.lines))):
        if line.compute is not None and line.name in meaning:
            lines = (*program.lines[:n], _as_leaf(line), *program.lines[n + 1 :])
            data = {**program.data, line.name: np.array(meaning[line.name], np.float64)}
            yield pruned(replace(program, lines=lines, data=data))


def _without_one(lines: tuple[Line, ...]) -> Iterator[tuple[Line, ...]]:
    if len(lines) > 2:
        yield lines[: len(lines) // 2]
        yield lines[len(lines) // 2 :]
    for n in range(len(lines)):
        yield (*lines[:n], *lines[n + 1 :])


def _as_leaf(line: Line) -> Line:
    """The line replaced by data that hold its value."""
    text = constant(line)
    return replace(line, text=f"{text[:-1]}, grad=True)" if line.gradient else text, compute=None)


def pruned(program: Program) -> Program:
    """Removes unused lines; updates may use leaves and values computed for the loss."""
    computed = {line.name for line in program.lines if line.compute is not None}
    reached = _needed(program.lines, program.terms)
    updates = tuple(line for line in program.updates if not line.identifiers & computed - reached)
    needed = _needed(program.lines, (*program.terms, *updates))
    lines = tuple(line for line in program.lines if (line.name or min(line.identifiers)) in needed)
    names = {line.name for line in lines}
    return replace(
        program,
        lines=lines,
        updates=updates,
        data={name: array for name, array in program.data.items() if name in names},
        calls=tuple({name: at for name, at in call.items() if name in names} for call in program.calls),
    )


def _needed(lines: tuple[Line, ...], by: tuple[Line, ...]) -> set[str]:
    needed = {word for line in by for word in line.identifiers}
    for line in reversed(lines):
        if line.name in needed:
            needed |= line.identifiers
    return needed


def kept(program: Program, kind: str, path: Path) -> Path:
    """Saves a program as a module: text, initial values, and the expected results of the last call."""
    names = {line.name for line in (*program.terms, *program.updates)}
    want = {name: array for name, array in program.runs()[-1].items() if name in names}
    written = "\n".join(
        (
            '"""A random program that something was wrong with, as small as it got."""',
            "# ruff: noqa: E501, F401",
            "",
            "import ml_dtypes",
            "import numpy as np",
            "",
            f"kind = {kind!r}",
            f"calls = {program.calls!r}",
            f"data = {_arrays(program.data)}",
            f"want = {_arrays(want)}",
            f"updated = {sorted({line.name for line in program.updates})!r}",
            f"text = '''\n{program.text}'''",
            "",
        )
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(written)
    return path


def recalled(path: Path) -> tuple[OracleCase, dict[str, Array]]:
    """Loads a saved program: the oracle case, and the expected results of the last call."""
    failure = runpy.run_path(str(path))
    want: dict[str, Array] = failure["want"]
    built = build(failure["text"], failure["kind"], failure["data"], {*want, "loss"}, failure["calls"][0])
    return case_by_evaluation(built, failure["kind"], failure["calls"], failure["updated"]), want


def _arrays(arrays: dict[str, Array]) -> str:
    rows = "".join(f"    {name!r}: {_array(np.asarray(array))},\n" for name, array in arrays.items())
    return f"{{\n{rows}}}"


def _array(array: Array) -> str:
    kind = array.dtype.name
    dtype = f"ml_dtypes.{kind}" if kind == "bfloat16" else repr(kind)
    cells = array.astype(np.float64).reshape(-1).tolist()
    return f"np.array({cells}, {dtype}).reshape({array.shape})"
