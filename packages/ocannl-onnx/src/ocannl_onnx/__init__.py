"""ONNX models as tensors and parameters of ocannl: import, check, training, and any backend."""

from ocannl_onnx.errors import ModelError, NeedsConstant, UnsupportedModel
from ocannl_onnx.model import ImportedModel, ModelFunction, load
from ocannl_onnx.registry import OperatorRow, operator, operators

__version__ = "0.1.0"

__all__ = [
    "ImportedModel", "ModelError", "ModelFunction", "NeedsConstant", "OperatorRow", "UnsupportedModel", "load",
    "operator", "operators",
]  # fmt: skip
