"""Models of classical machine learning, of the domain `ai.onnx.ml`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import ocannl as oc
from ocannl_onnx.call import NodeCall
from ocannl_onnx.layout import along, reshaped, taken
from ocannl_onnx.operators.selection import RESTRICTION, STATIC, static_only
from ocannl_onnx.registry import operator
from ocannl_onnx.values import Value

DOMAIN = "ai.onnx.ml"
operator("TreeEnsemble", domain=DOMAIN, spelling=STATIC, restrictions=RESTRICTION)(static_only)

POST_TRANSFORMS: dict[str, Callable[[oc.Tensor], oc.Tensor]] = {
    "NONE": lambda x: x,
    "LOGISTIC": oc.sigmoid,
    "SOFTMAX": lambda x: oc.softmax(x, along(2, 1)),
}
NORMS: dict[str, Callable[[oc.Tensor], oc.Tensor]] = {
    "MAX": lambda x: x.max(along(2, 1, keep=True)),
    "L1": lambda x: oc.abs(x).sum(along(2, 1, keep=True)),
    "L2": lambda x: oc.sqrt((x * x).sum(along(2, 1, keep=True))),
}


def _vector(call: NodeCall, name: str) -> oc.Tensor:
    return oc.tensor(np.array(call.attribute(name), np.float32))


def _float(x: oc.Tensor) -> oc.Tensor:
    return oc.cast(x, oc.float32)


def _matrix(x: oc.Tensor) -> oc.Tensor:
    """Examples and features; one example may lack its axis."""
    return reshaped(x, (1, *x.dims)) if len(x.dims) == 1 else x


@operator("ArrayFeatureExtractor", domain=DOMAIN, spelling="oc.take(x, ids)")
def array_feature_extractor(call: NodeCall) -> Value:
    x = _matrix(call.tensor(0))
    ids = call.constant(1).reshape(-1)
    call.require(ids.size > 0 and ids.min() >= 0 and ids.max() < x.dims[-1], f"features {ids} of {x.dims[-1]}")
    return taken(x, ids, len(x.dims) - 1)


@operator("Binarizer", domain=DOMAIN, spelling="oc.where(x > threshold, 1, 0)")
def binarizer(call: NodeCall) -> Value:
    x = call.tensor(0)
    return oc.cast(x > call.attribute("threshold", 0.0), x.dtype)


@operator("Scaler", domain=DOMAIN, spelling="(x - offset) * scale")
def scaler(call: NodeCall) -> Value:
    return (_float(call.tensor(0)) - _vector(call, "offset")) * _vector(call, "scale")


@operator("Normalizer", domain=DOMAIN, spelling="x / norm", restrictions=("other than two axes",))
def normalizer(call: NodeCall) -> Value:
    x = _float(_matrix(call.tensor(0)))
    call.require(len(x.dims) == 2, f"{len(x.dims)} axes")
    norm = NORMS[call.attribute("norm", "MAX")](x)
    return x / oc.where(oc.eq(norm, 0), 1.0, norm)


@operator(
    "LinearRegressor",
    domain=DOMAIN,
    spelling='oc.einsum("b,k; n,k => b,n", x, w) + b',
    restrictions=("post transformations but NONE, LOGISTIC and SOFTMAX",),
)
def linear_regressor(call: NodeCall) -> Value:
    x = _float(_matrix(call.tensor(0)))
    transform = call.attribute("post_transform", "NONE")
    call.require(transform in POST_TRANSFORMS, f"post_transform {transform!r}")
    targets = call.attribute("targets", 1)
    weights = reshaped(_vector(call, "coefficients"), (targets, x.dims[-1]))
    y = oc.einsum("b,k; n,k => b,n", x, weights)
    y = y + _vector(call, "intercepts") if call.attribute("intercepts", ()) else y
    return POST_TRANSFORMS[transform](y)
