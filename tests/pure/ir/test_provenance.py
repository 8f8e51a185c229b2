"""Every line of every stage leads to a line of Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.base.source_positions import path_of
from ocannl.ir.affine import Affine, Sym
from ocannl.ir.assign import NOWHERE, Origin
from ocannl.ir.loops import AccessMode, Buf, Const, Load, MemorySpace, Proc, Ref, Store, loop, row_major
from ocannl.ir.merged_origins import OriginReaders
from ocannl.ir.precision import float32
from ocannl.ir.printer import print_proc
from ocannl.ir.provenance import body_lines, buffer_lifetimes, buffer_origins, nest_origins, program_lines


def batch_statistics() -> oc.Tensor:
    x, k = oc.placeholder("x", b=[16], o=[8, 8, 32]), oc.param("k", o=[3, 3, 32, 32])
    h = oc.conv2d(x, k, padding="same")
    h = oc.relu(h - h.mean("...|h,w,c => c"))
    h = oc.conv2d(h, k, padding="same")
    return ((h - h.mean("...|h,w,c => c")) ** 2).mean()


def attention() -> oc.Tensor:
    x = oc.placeholder("x", b=[2, 64], o=[48])
    return (oc.nn.attention(heads=4, causal=True)(x) ** 2).mean()


def recurrence() -> oc.Tensor:
    x = oc.placeholder("x", b=[4, 12], o=[8])
    return (oc.nn.lstm(width=16)(x) ** 2).mean()


def perceptron() -> oc.Tensor:
    x, t = oc.placeholder("x", b=[64], o=[100]), oc.placeholder("t", b=[64], o=[10])
    return oc.squared_error(oc.nn.mlp(x, widths=[300, 10]), t)


@pytest.mark.parametrize("network", [batch_statistics, attention, recurrence, perceptron])
@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_every_line_of_every_stage_leads_to_a_source_line(network: Callable[[], oc.Tensor], backend: str) -> None:
    if backend not in {row.name for row in oc.backends() if row.usable}:
        pytest.skip(f"{backend} is not installed")
    loss = network()
    code = oc.seq(train.grad_update(loss), train.adam(loss, 0.01))
    routine = oc.Context(backend).compile(code, name="step")
    stages: dict[str, Proc] = {}
    routine.program.rebuild(lambda name, proc: stages.__setitem__(name, proc))
    for name, proc in stages.items():
        lines = program_lines(proc)
        assert "".join(f"{line.text}\n" for line in lines) == print_proc(proc)
        lost = [line.text for line in lines if path_of(line.origin.where) is None]
        assert not lost, (name, lost[:5])
        assert any(path_of(line.origin.where) == str(Path(__file__)) for line in lines)


def array(name: str) -> Buf:
    return Buf(name, float32, (4,), row_major((4,)), MemorySpace.GLOBAL, AccessMode.INOUT)


def test_a_copy_has_the_origin_of_its_reader() -> None:
    a, packed, y, z = map(array, ("a", "packed", "y", "z"))
    i = Sym("i", 0, 3)

    def copy(target: Buf, source: Buf, origin: Origin = NOWHERE) -> object:
        at = (Affine.of(i),)
        return loop(i, (Store(Ref(target, at), Load(Ref(source, at)), origin),))

    first, second = Origin("z", "model.py:3"), Origin("y", "model.py:8")
    body = (
        copy(packed, a),
        copy(z, a, first),
        copy(y, packed, second),
        Store(Ref(z, (Affine.of(0),)), Const(0, float32)),
    )
    proc = Proc("p", (a, packed, y, z), (), body)  # type: ignore[arg-type]
    origins = [line.origin for line in program_lines(proc)[5:]]
    assert origins == [second, second, first, first, second, second, second]
    arrays = buffer_origins(proc)
    assert arrays == {a: second, packed: second, y: second, z: first}
    assert nest_origins(proc.body, arrays) == (first, second)
    assert nest_origins(proc.body[:1], arrays) == (second,)
    assert buffer_lifetimes(proc) == {a: (0, 1), packed: (0, 2), y: (2, 2), z: (1, 3)}


def test_a_program_without_origins() -> None:
    a = array("a")
    proc = Proc("p", (a,), (), (Store(Ref(a, (Affine.of(0),)), Const(0, float32)),))
    assert {line.origin for line in program_lines(proc)} == {NOWHERE}


def test_copies_of_states_and_results_have_the_origin_of_their_array() -> None:
    xs = oc.tensor(np.ones((5, 2), "float32"), label="xs")
    sums = oc.scan(lambda c, x: (c + x, c * x), oc.tensor([0.0, 0.0], label="start"), xs)[1].with_label("sums")
    total = sums.sum().with_label("total")
    chosen = oc.cond(total > 0, lambda: total * 2, lambda: total * 3).with_label("chosen")
    proc = oc.Context("numpy").compile(chosen.forward).program.rebuild()
    origins = {line.text.split("=")[0].strip(): line.origin.label for line in program_lines(proc)}
    assert origins["sums[t, i0]"] == "sums" and origins["start_2[i0_2]"] == "start" and origins["chosen"] == "chosen"


def test_merged_statements_are_followed_to_their_readers() -> None:
    x = oc.placeholder("x", o=[4])
    h = oc.exp(x).with_label("h")
    y = (h * 2).with_label("y")
    stages: list[Proc] = []
    oc.Context("numpy").compile(y.forward).program.rebuild(lambda name, proc: stages.append(proc))
    readers = OriginReaders(stages[0])
    first, last = ({line.origin.label: line.origin for line in body_lines(proc)} for proc in (stages[0], stages[-1]))
    assert first.keys() == {"h", "y"} and last.keys() == {"y"}
    assert readers.merged(first.values()) == {}
    assert readers.merged(last.values()) == {first["h"]: (first["y"],)}
    assert readers.merged([first["h"]]) == {first["y"]: ()}
