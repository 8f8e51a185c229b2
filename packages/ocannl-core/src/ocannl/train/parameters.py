"""The parameters that an optimizer updates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ocannl.base.errors import CodeError
from ocannl.lang.blocks import Block
from ocannl.lang.core.tensor import Tensor

Trained = Block | Mapping[str, Tensor] | Iterable[Tensor] | Tensor | Callable[[str, Tensor], object] | None


def trainable_parameters(loss: Tensor, params: Trained = None) -> Mapping[str, Tensor]:
    """The parameters by path that gradients of the loss reach; with `params`, those of a block, mapping or list, or
    those for which a predicate of path and parameter holds.

    Raises: CodeError for a parameter that no gradient reaches.
    """
    reached = loss.params
    if params is None:
        return reached
    if isinstance(params, Tensor):
        params = [params]
    if isinstance(params, Block):
        params = params.params
    if callable(params):
        return {path: p for path, p in reached.items() if params(path, p)}
    chosen = list(params.values() if isinstance(params, Mapping) else params)
    for p in chosen:
        if not isinstance(p, Tensor) or not p.is_parameter:
            raise CodeError(f"`params` are parameters, such as those of a block, not {p!r}"[:200])
        if all(p is not q for q in reached.values()):
            raise CodeError(
                f"no gradient of `{loss.label}` reaches `{p.path or p.label}`; parameters that it reaches: "
                f"{', '.join(reached) or 'none'}"
            )
    return {path: p for path, p in reached.items() if any(p is q for q in chosen)}


def gradient_of(p: Tensor) -> Tensor:
    """The gradient of a parameter that is trained."""
    assert p.grad is not None
    return p.grad
