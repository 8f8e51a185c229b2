"""Shared libraries compute what the C backend does, start with the numbers of `ctx.init`, and check their arguments."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from exported_library import Library, Training, perceptron

import ocannl as oc
from ocannl import nn, train
from ocannl_export.forms.native import native_target
from ocannl_export.library import describe

pytestmark = pytest.mark.skipif(
    not any(row.name == "c" and row.usable for row in oc.backends()), reason="the C backend is not usable"
)

LEVELS = ["native", None]
if platform.machine() == "x86_64":
    LEVELS += ["x86-64", "x86-64-v3"]

Network = Callable[[], tuple[oc.Tensor, dict[oc.Tensor, np.ndarray[Any, Any]]]]


@pytest.fixture(scope="module")
def training() -> Training:
    return perceptron()


@pytest.fixture(scope="module")
def library(training: Training, tmp_path_factory: pytest.TempPathFactory) -> Library:
    path = tmp_path_factory.mktemp("library") / "mlp.so"
    oc.export([training.step, training.infer], path, init=training.loss, target="native")
    return Library(path, "mlp")


@pytest.mark.parametrize("level", LEVELS)
def test_training_computes_what_the_c_backend_does(level: str | None, tmp_path: Path) -> None:
    """1 000 steps: equal to the bit with the instructions of this processor; with those of other levels, whose vectors
    are shorter, the losses agree to 1e-5."""
    training = perceptron()
    oc.export([training.step, training.infer], tmp_path / "mlp.so", init=training.loss, target=level)
    library = Library(tmp_path / "mlp.so", "mlp")
    assert library.init(7) == 0
    for path, p in training.params.items():
        np.testing.assert_allclose(library.get(path, p.node.dims), training.ctx[p], rtol=1e-7, atol=1e-9)
    training.ctx[training.x], training.ctx[training.t] = training.data
    assert library.set("x", training.data[0]) == library.set("t", training.data[1]) == 0
    losses = []
    for _ in range(1000):
        training.step()
        assert library.call("step") == 0
        losses.append((training.ctx[training.loss].item(), library.get("loss").item()))
    expected, actual = np.array(losses).T
    if level == "native":
        assert (expected == actual).all()
        assert (training.ctx[training.params["w1"]] == library.get("w1", (16, 4))).all()
    else:
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-7)
    assert expected[-1] < 0.1 * expected[0]


def lenet() -> tuple[oc.Tensor, dict[oc.Tensor, np.ndarray[Any, Any]]]:
    x, t = oc.placeholder("x", batch=[8], output=[28, 28, 1]), oc.placeholder("t", batch=[8], output=[10])
    loss = oc.cross_entropy(nn.lenet(classes=10)(x), t).mean()
    rng = np.random.default_rng(0)
    images = rng.standard_normal((8, 28, 28, 1)).astype("f4")
    return loss, {x: images, t: np.eye(10, dtype="f4")[rng.integers(0, 10, 8)]}


def decoder() -> tuple[oc.Tensor, dict[oc.Tensor, np.ndarray[Any, Any]]]:
    tokens = oc.placeholder("tokens", batch=[4, 12], output=[], dtype="int32")
    following = oc.placeholder("following", batch=[4, 12], output=[], dtype="int32")
    scores = nn.gpt(vocabulary=17, length=12, width=32, layers=2, heads=4)(tokens)
    loss = oc.cross_entropy(scores, following).mean()
    ids = np.random.default_rng(0).integers(0, 17, (4, 13)).astype("i4")
    return loss, {tokens: np.ascontiguousarray(ids[:, :-1]), following: np.ascontiguousarray(ids[:, 1:])}


@pytest.mark.slow
@pytest.mark.parametrize("network", [lenet, decoder])
def test_networks_train_with_the_bits_of_the_c_backend(network: Network, tmp_path: Path) -> None:
    """1 000 steps from a file of `oc.save`: all losses, and at the end all parameters and states."""
    loss, data = network()
    ctx = oc.Context("c", threads=1)
    ctx.init(loss, seed=5)
    step = ctx.compile(oc.seq(train.grad_update(loss), train.adam(loss, 1e-3)), name="step")
    for leaf, array in data.items():
        ctx[leaf] = array
    oc.export(step, tmp_path / "net.so", init=loss, target="native")
    library = Library(tmp_path / "net.so", "net")
    oc.save(tmp_path / "start.safetensors", ctx, step)
    assert library.init(1) == library.load((tmp_path / "start.safetensors").read_bytes()) == 0
    assert all(library.set(leaf.label, array) == 0 for leaf, array in data.items())
    losses = []
    for _ in range(1000):
        step()
        assert library.call("step") == 0
        losses.append((ctx[loss].item(), library.get("loss").item()))
    assert all(expected == actual for expected, actual in losses)
    assert losses[-1][0] < 0.2 * losses[0][0]
    oc.save(tmp_path / "end.safetensors", ctx, step)
    saved = safetensors.numpy.load(library.save())
    expected = safetensors.numpy.load_file(tmp_path / "end.safetensors")
    assert saved.keys() == expected.keys()
    assert all(saved[key].tobytes() == expected[key].tobytes() for key in saved)


def test_uniform_numbers_are_those_of_a_context(library: Library, training: Training) -> None:
    for seed in (0, 7, 2**40 + 3):
        ctx = oc.Context("c")
        ctx.init(training.loss, seed=seed)
        assert library.init(seed) == 0
        assert (library.get("w1", (16, 4)) == ctx[training.params["w1"]]).all()
        np.testing.assert_allclose(library.get("w2", (2, 16)), ctx[training.params["w2"]], rtol=1e-6)


def test_files_are_those_of_a_context(library: Library, training: Training, tmp_path: Path) -> None:
    """`oc.load` reads what a library saves, and a library loads what `oc.save` writes."""
    library.init(3)
    library.set("x", training.data[0])
    library.call("step")
    (tmp_path / "from_library.safetensors").write_bytes(library.save())
    oc.load(tmp_path / "from_library.safetensors", training.ctx, training.step)
    assert (training.ctx[training.params["w1"]] == library.get("w1", (16, 4))).all()
    training.ctx.init(training.params["w1"])
    training.ctx[training.params["b1"]] = np.arange(16, dtype="f4")
    oc.save(tmp_path / "from_context.safetensors", training.ctx, training.step)
    library.init(4)
    assert library.load((tmp_path / "from_context.safetensors").read_bytes()) == 0
    assert (library.get("b1", (16,)) == np.arange(16)).all()


def test_training_with_dropout_resumes_to_the_bit(tmp_path: Path) -> None:
    """Files hold the streams of random numbers and the state of the optimizer: another structure, with another seed,
    and a context continue as the library does that wrote them."""
    x, w = oc.placeholder("x", b=[8], o=[6]), oc.param("w", o=[5])
    loss = (nn.dropout(oc.relu(nn.batch_norm(w @ x)), rate=0.5) ** 2).mean()
    ctx = oc.Context("c")
    ctx.init(loss, seed=42)
    step = ctx.compile(oc.seq(train.grad_update(loss), train.adam(loss, 1e-2)), name="step")
    oc.export(step, tmp_path / "net.so", init=loss, target="native")
    first, second = (Library(tmp_path / "net.so", "net") for _ in range(2))
    ctx[x] = np.random.default_rng(0).standard_normal((8, 6)).astype("f4")
    assert first.init(2**40 + 3) == second.init(5) == first.set("x", ctx[x]) == second.set("x", ctx[x]) == 0
    for _ in range(5):
        first.call("step")
        second.call("step")
    saved = first.save()
    (tmp_path / "saved.safetensors").write_bytes(saved)
    assert second.load(saved) == 0
    assert oc.load(tmp_path / "saved.safetensors", ctx, step).seed == 2**40 + 3
    for _ in range(5):
        assert first.call("step") == second.call("step") == 0
        step()
    assert first.save() == second.save() != saved
    assert (first.get("w", (5, 6)) == ctx[w]).all()


@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_training_of_a_context_with_dropout_continues_in_a_library(seed: int, tmp_path: Path) -> None:
    """From `oc.save` through a library back to another context: parameters, states, streams and seed are those of
    training in the first context alone."""
    x, w = oc.placeholder("x", b=[8], o=[6]), oc.param("w", o=[5])
    loss = (nn.dropout(oc.relu(nn.batch_norm(w @ x)), rate=0.5) ** 2).mean()
    values = np.random.default_rng(0).standard_normal((8, 6)).astype("f4")
    code = oc.seq(train.grad_update(loss), train.adam(loss, 1e-2))
    paths = [tmp_path / f"{name}.safetensors" for name in ("early", "late")]
    with oc.settings(seed=seed):
        first, second = oc.Context("c"), oc.Context("c")
        first.init(loss)
        step = first.compile(code, name="step")
        first[x] = values
        for _ in range(3):
            step()
        oc.save(paths[0], first, step)
    oc.export(step, tmp_path / "net.so", init=loss, target="native")
    library = Library(tmp_path / "net.so", "net")
    assert library.init(5) == library.load(paths[0].read_bytes()) == library.set("x", values) == 0
    for _ in range(3):
        step()
        assert library.call("step") == 0
    paths[1].write_bytes(library.save())
    second.init(loss, seed=9)
    resumed = second.compile(code, name="step")
    assert oc.load(paths[1], second, resumed).seed == seed
    second[x] = values
    for _ in range(3):
        step()
        resumed()
    assert first[loss] == second[loss]
    assert (first[w] == second[w]).all()


def test_mutated_files_change_nothing(library: Library) -> None:
    library.init(5)
    valid, memory = library.save(), library.memory.copy()
    random = Random(0)
    refused = 0
    for _ in range(300):
        data = bytearray(valid)
        kind = random.randrange(3)
        if kind == 0:
            data = data[: random.randrange(len(data))]
        elif kind == 1:
            data[random.randrange(8)] = random.randrange(256)
        else:
            for _ in range(random.randrange(1, 4)):
                data[8 + random.randrange(900)] = random.randrange(256)
        code = library.load(bytes(data))
        if code:
            refused += 1
            assert (library.memory == memory).all()
        library.load(valid)
    assert refused > 100


def test_wrong_arguments_have_codes(library: Library) -> None:
    library.init()
    null, wrong = ctypes.c_void_p(), ctypes.c_void_p(library.memory.ctypes.data + 4)
    message = library.message
    assert message(library.function("step")(null)) == "a pointer is null"
    assert message(library.function("step")(wrong)) == "the address of the structure is not a multiple of its alignment"
    assert message(library.set("x", np.zeros(3, "f4"))) == "the number of bytes is not that of the array"
    assert message(library.set("y_2", np.zeros(3, "f4"))) == "there is no array of this name"
    assert message(library.load(b"")) == message(library.load(b"\xff" * 64)) == "the bytes are no file of safetensors"
    data = ctypes.create_string_buffer(10)
    assert message(library.function("save")(library.net, data, ctypes.c_size_t(10))) == "the buffer is too small"
    assert message(0) == "no error" and message(-1) == message(99) == "an unknown code"


def test_symbols_are_arguments_within_their_ranges(tmp_path: Path) -> None:
    n = oc.symbol("n", 0, 5)
    x = oc.tensor(np.arange(15, dtype="f4").reshape(5, 3), batch_axes=1)
    total = oc.node("total", output=[3])
    ctx = oc.Context("c")
    with oc.cd("add") as add:
        total += x[n]
    routine = ctx.compile(add, name="add")
    oc.export(routine, tmp_path / "sums.so", target="native")
    library = Library(tmp_path / "sums.so", "sums")
    assert library.init() == 0
    assert library.call("add", 1) == library.call("add", 4) == 0
    assert library.get("total", (3,)).tolist() == [15.0, 17.0, 19.0]
    assert library.message(library.call("add", 5)) == library.message(library.call("add", -1)) == (
        "a symbol is out of its range"
    )


def test_arrays_without_cells_have_the_described_offsets(tmp_path: Path) -> None:
    x = oc.placeholder("x", b=[5, 7, 3], o=[0])
    y, total = (x * 2).with_label("y"), (x.sum() + 1).with_label("total")
    ctx = oc.Context("c")
    routine = ctx.compile(oc.seq(total.forward, y.forward), name="compute", keep=[y, total])
    oc.export(routine, tmp_path / "sums.so", target="native", inputs=True)
    library = Library(tmp_path / "sums.so", "sums")
    description = describe([routine], "sums", [native_target()], inputs=True)
    assert len(library.memory) == description.size_bytes
    assert library.init() == library.call("compute") == 0
    assert library.get("total", ()) == 1


def test_values_of_the_context_are_part_of_the_library(training: Training, tmp_path: Path) -> None:
    training.ctx[training.x] = training.data[0]
    oc.export(training.infer, tmp_path / "model.so", target="native", inputs=True)
    library = Library(tmp_path / "model.so", "model")
    assert library.init() == 0
    assert library.call("infer") == 0
    training.infer()
    dims = (8, 2)
    assert (library.get("y", dims) == training.ctx.get(training.infer.outputs[-1]).reshape(dims)).all()


def test_unsupported_routines_are_refused(training: Training, tmp_path: Path) -> None:
    x = oc.placeholder("x", o=[4, 4])
    ctx = oc.Context("c")
    inverse = ctx.compile(oc.linalg.inv(x).forward)
    with pytest.raises(oc.Unsupported, match="calls libraries of Python"):
        oc.export(inverse, tmp_path / "inverse.c")
    p = oc.param("p", o=[3])
    fresh = oc.Context("c")
    code = fresh.compile((p * 2).forward)
    with pytest.raises(oc.UninitializedError, match="`p` has no value to export"):
        oc.export(code, tmp_path / "code.c")
    for arguments, message in [
        ((training.step, tmp_path / "a.xyz"), "the form of an export is one of"),
        ((training.loss, tmp_path / "a.c"), "takes compiled routines"),
        (([], tmp_path / "a.c"), "takes compiled routines"),
        (([training.step, code], tmp_path / "a.c"), "routines of one context"),
    ]:
        with pytest.raises(oc.ArgumentError, match=message):
            oc.export(*arguments)
    for name, message in [("a b", "is an identifier"), ("struct", "has a meaning in C"), ("control", "has a meaning")]:
        with pytest.raises(oc.ArgumentError, match=message):
            oc.export(training.step, tmp_path / "a.c", name=name, init=training.loss)
    with pytest.raises(oc.ArgumentError, match="the target is one of"):
        oc.export(training.step, tmp_path / "a.c", target="z80")
    with pytest.raises(oc.ArgumentError, match="not code"):
        oc.export(training.step, tmp_path / "a.c", init=train.grad_update(training.loss))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="sizes are those of x86-64")
@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_training_steps_are_small(target: str, tmp_path: Path) -> None:
    """A step of LeNet with Adam for one instruction set is at most 80 kB."""
    x, t = oc.placeholder("x", b=[32], o=[28, 28, 1]), oc.placeholder("t", b=[32], o=[10])
    loss = oc.cross_entropy(nn.lenet(classes=10)(x), t).mean()
    ctx = oc.Context("c")
    step = ctx.compile(oc.seq(train.grad_update(loss), train.adam(loss, 1e-3)), name="step")
    oc.export(step, tmp_path / "lenet.so", init=loss, target=target)
    assert (tmp_path / "lenet.so").stat().st_size <= 80_000
