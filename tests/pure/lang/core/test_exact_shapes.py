"""Shapes are what operands, declarations and data determine, also where axes have size 1 or a unit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ocannl as oc


def ones(*dims: int) -> oc.Tensor:
    return oc.tensor(np.ones(dims, "float32"))


def value(t: oc.Tensor) -> np.ndarray:
    return t.numpy(oc.Context("numpy"))


def test_a_node_with_declared_rows_has_no_others() -> None:
    running = oc.node(output=[4], label="running")
    for batch in 16, 7:
        assert (oc.placeholder("y", b=[batch], o=[4]) - running).dims == (batch, 4)
    assert running.dims == (4,)


@pytest.mark.parametrize("source", ["file", "infer"])
def test_data_without_a_shape_is_a_batch_of_what_its_map_takes(source: str, tmp_path: Path) -> None:
    numbers = np.arange(12, dtype="float32")
    numbers.tofile(tmp_path / "numbers.bin")
    data = oc.from_file(tmp_path / "numbers.bin", "float32") if source == "file" else oc.tensor(numbers, shape="infer")
    weights = np.array([[1, 10], [0, 1], [2, 2]], "float32")
    y = oc.tensor(weights, input_axes=1) @ data
    assert (str(data.shape), str(y.shape)) == ("6|2", "6|3")
    np.testing.assert_array_equal(value(y), numbers.reshape(6, 2) @ weights.T)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (lambda: oc.stack([ones(1, 4)]), np.ones((1, 1, 4))),
        (lambda: oc.block([[ones(1, 4)]]), np.ones((1, 1, 1, 4))),
        (lambda: oc.concat("a,d; b,d => a^b,d", ones(0, 4), ones(1, 4)), np.ones((1, 4))),
    ],
    ids=["stack", "block", "concat"],
)
def test_results_of_stack_block_and_concat_broadcast(result: Callable[[], oc.Tensor], expected: np.ndarray) -> None:
    t = oc.relu(result())
    wide = np.ones((3, *expected.shape), "float32") * np.arange(3, dtype="float32").reshape(3, *[1] * expected.ndim)
    np.testing.assert_array_equal(value(t + wide), expected + wide)
    assert t.dims == expected.shape


@pytest.mark.parametrize("spec", ["...|i => ..v..|i", "i => ..v.., i"])
def test_a_row_variable_of_the_result_alone_is_refused(spec: str) -> None:
    with pytest.raises(oc.ShapeError, match="`..v..` stands only in the result"):
        oc.einsum(spec, oc.tensor(np.ones(4, "float32")))


def test_row_variables_named_after_rows_are_their_own() -> None:
    x = oc.tensor(np.arange(6, dtype="float32").reshape(2, 3), batch_axes=1)
    assert str(oc.einsum("...|i => ..batch..|i", x).shape) == "2|3"
    np.testing.assert_array_equal(value(oc.einsum("...|i => ..batch.., i", x)), np.arange(6).reshape(2, 3))


def test_windows_without_a_mark_size_no_axis() -> None:
    with pytest.raises(oc.ShapeError, match=r"does not say how large `oh` is[\s\S]*`oh<\+kh`[\s\S]*`oh=\+kh`"):
        oc.einsum("oh+kh, ow+kw; kh, kw => oh, ow", ones(8, 8), ones(3, 3))
    for mark, size in ("<", 6), ("=", 8):
        assert oc.einsum(f"oh{mark}+kh, ow{mark}+kw; kh, kw => oh, ow", ones(8, 8), ones(3, 3)).dims == (size, size)
    assert oc.einsum("oh+kh, ow+kw; kh, kw => oh, ow", ones(8, 8), ones(3, 3), oh=6, ow=6).dims == (6, 6)
    assert oc.einsum("i; j => i+j", ones(3), ones(1)).dims == (3,)


def test_an_axis_of_size_1_with_a_unit_does_not_stretch() -> None:
    column = oc.tensor(np.ones((3, 1), "float32"), units=["row", "rgb"])
    wide = oc.tensor(np.ones((3, 2), "float32"), units=["row", "rgb"])
    plain = oc.tensor(np.ones((3, 1), "float32"), units=["row", None])
    with pytest.raises(oc.ShapeError):
        column + wide
    assert str((oc.relu(plain) + wide).shape) == "row=3,rgb=2"


def test_units_of_numbers_are_kept() -> None:
    volts = oc.tensor(2.0, units=["volt"])
    assert [str(t.shape) for t in (volts, volts * volts, oc.relu(volts) + 1.0)] == ["volt=1"] * 3
    assert volts.shape == oc.tensor([3.0], units=["volt"]).shape != oc.tensor([3.0], units=["ampere"]).shape
