"""The optimizer Muon, which orthogonalizes the momentum of matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod, sqrt

from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.einsum import maximum
from ocannl.lang.ops.elementwise_decorator import cellwise
from ocannl.lang.ops.primitives import PRIMITIVES
from ocannl.lang.record.code import Code, seq, titled
from ocannl.train.adam import adamw_rule, bias_corrections
from ocannl.train.optimizer import Betas, Group, Parameter, optimizer_code
from ocannl.train.parameters import Trained, trainable_parameters
from ocannl.train.rates import Rate

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the quintic polynomial `a*x + b*x**3 + c*x**5`, whose iteration moves singular values towards 1 (Jordan 2024)."""

NORM_EPS, ADAMW_EPS = 1e-7, 1e-10  # as in the program of Jordan 2024


def muon(
    loss: Tensor, learning_rate: Rate = 0.02, *, params: Trained = None, groups: Iterable[Group] = (),
    momentum: float = 0.95, nesterov: bool = True, steps: int = 5, weight_decay: float = 0.0,
    adamw_learning_rate: Rate = 3e-4, adamw_betas: Betas = (0.9, 0.95),
) -> Code:  # fmt: skip
    """A Muon update of matrices, the parameters with input and output axes, and an AdamW update of the others.

    The momentum of a matrix is replaced by the nearest orthogonal matrix, which `steps` Newton-Schulz iterations
    approximate, times `sqrt(max(1, outputs / inputs))`. AdamW updates embeddings, which have output axes alone,
    and biases, with the same `weight_decay`. `params`, `groups` and learning rates are those of `train.sgd`.

    Source: Jordan 2024, "Muon: an optimizer for hidden layers in neural networks".
    """
    matrices, vectors = _by_kind(trainable_parameters(loss, params))
    matrix_groups, vector_groups = [], []
    for group in groups:
        chosen = _by_kind(trainable_parameters(loss, group.get("params")))
        adamw = {name.removeprefix("adamw_"): value for name, value in group.items() if name.startswith("adamw_")}
        muon_options = {name: value for name, value in group.items() if not name.startswith("adamw_")}
        decay = {"weight_decay": group["weight_decay"]} if "weight_decay" in group else {}
        matrix_groups.append({**muon_options, "params": chosen[0]})
        vector_groups.append({**decay, **adamw, "params": chosen[1]})
    options: dict[str, object] = {
        "momentum": momentum, "nesterov": nesterov, "steps": steps, "weight_decay": weight_decay
    }  # fmt: skip
    code = optimizer_code("muon", _muon, loss, learning_rate, matrices, matrix_groups, options)
    options = {"betas": adamw_betas, "eps": ADAMW_EPS, "weight_decay": weight_decay}
    vector_code = optimizer_code(
        "muon_adamw", adamw_rule, loss, adamw_learning_rate, vectors, vector_groups, options, bias_corrections
    )
    return titled(lambda: f"{loss.label} muon update", seq(code, vector_code))


def _by_kind(params: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters that are matrices, and the others."""
    matrices = {path: p for path, p in params.items() if _is_matrix(p)}
    return matrices, {path: p for path, p in params.items() if path not in matrices}


def _is_matrix(p: Tensor) -> bool:
    return bool(p.shape.input and p.shape.output and not p.shape.batch)


def _muon(p: Parameter, *, momentum: float, nesterov: bool, steps: int, weight_decay: float) -> None:
    gradient, velocity = p.gradient(), p.state("momentum")
    velocity[...] = cellwise("muon_momentum", lambda v, g: momentum * v + (1 - momentum) * g, velocity, gradient)
    direction = velocity
    if nesterov:
        direction = cellwise("muon_nesterov", lambda v, g: momentum * v + (1 - momentum) * g, velocity, gradient)
    p.shrink(weight_decay)
    outputs, inputs = (prod(axis.size for axis in row) for row in (p.tensor.shape.output, p.tensor.shape.input))
    scale = sqrt(max(1.0, outputs / inputs))
    p.descend(lambda rate, d: scale * rate * d, orthogonalized(direction, steps, is_tall=outputs > inputs))


def orthogonalized(x: Tensor, steps: int, *, is_tall: bool) -> Tensor:
    """An approximation of the nearest orthogonal matrix by Newton-Schulz iterations."""
    a, b, c = COEFFICIENTS
    x = x / maximum(PRIMITIVES["sqrt"]((x * x).sum()), NORM_EPS)  # so that no singular value exceeds 1
    for _ in range(steps):
        gram = x.T @ x if is_tall else x @ x.T
        polynomial = b * gram + c * (gram @ gram)
        x = a * x + (x @ polynomial if is_tall else polynomial @ x)
    return x
