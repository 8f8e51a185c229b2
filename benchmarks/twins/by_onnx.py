"""Functions of `by_torch` in ONNX Runtime, as models that PyTorch exports."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnxruntime
import torch

from twins import by_torch


class Twin(torch.nn.Module):
    """A module that calls a function of a library and of named arrays."""

    def __init__(self, f: Any, names: list[str]) -> None:
        super().__init__()
        self.f, self.names = f, names

    def forward(self, *arrays: torch.Tensor) -> Any:
        return self.f(by_torch.LIBRARY, **dict(zip(self.names, arrays, strict=True)))


def call_of(f: Any, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Callable[[], Any]:
    """Computes a function of arrays.

    Raises: an exception of PyTorch if an operation of the function cannot be exported.
    """
    names, exported = list(arrays), io.BytesIO()
    inputs = tuple(map(torch.tensor, arrays.values()))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of the exporter that needs no further package
        torch.onnx.export(Twin(f, names), inputs, exported, input_names=names, opset_version=17, dynamo=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(exported.getvalue(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, dict(arrays))


def model_of(f: Any, weights: Mapping[str, Any], inputs: Mapping[str, Any]) -> Callable[[], Any]:
    """Computes a model for given weights."""
    on_weights = {path: by_torch.put(path, array) for path, array in weights.items()}
    return call_of(lambda lib, **xs: f(lib, on_weights, **xs), inputs)
