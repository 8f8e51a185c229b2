"""What all optimizers share: groups of parameters, learning rates, weight decay, and nodes of state.

An optimizer is an `UpdateRule`, which records the update of one parameter, and options. The parameters of a group have
the same rate and options; `Shared` records what they have in common once, such as corrections of bias.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ocannl.base.errors import ArgumentError, CodeError
from ocannl.base.gc_pause import gc_paused
from ocannl.base.keyword_answers import keyword_answer
from ocannl.ir.precision import Precision, float32, float64, promote
from ocannl.lang.core.leaf_constructors import node, state_like
from ocannl.lang.core.literals import is_bool, is_number
from ocannl.lang.core.symbolic_terms import Term, convert
from ocannl.lang.core.symbols import Symbol
from ocannl.lang.core.tensor import Tensor
from ocannl.lang.ops.elementwise_decorator import cellwise
from ocannl.lang.record.code import Code, seq, titled
from ocannl.lang.record.recorder import cd
from ocannl.train.parameters import Trained, gradient_of, trainable_parameters
from ocannl.train.rates import Rate, rate_of

Betas = tuple[float, float]
Group = Mapping[str, Any]
"""Options of some parameters: `params`, and those options that differ, `learning_rate` among them."""


@dataclass(frozen=True, slots=True)
class Scalars:
    """The learning rate of a group, and nodes without axes that all its parameters use."""

    rate: Tensor | float
    title: str
    first_path: str
    """The path of the first parameter of the group, which makes names of nodes unique."""

    def state(self, name: str, init: float = 0.0) -> Tensor:
        """A number that is kept between steps, in double precision."""
        label = f"{self.title}_{name}.{self.first_path}"
        return node(label, init=init, dtype=float64, batch=[], input=[], output=[])


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter to be updated. State and arithmetic are in float32 at least."""

    tensor: Tensor
    path: str
    title: str
    rate: Tensor | float

    @property
    def kind(self) -> Precision:
        return promote(self.tensor.dtype, float32)

    def state(self, name: str, init: float = 0.0) -> Tensor:
        """A node of the shape of the parameter that is kept between steps."""
        return state_like(f"{self.title}_{name}.{self.path}", self.tensor, self.kind, init)

    def converted(self, scalar: Term) -> Term:
        """A number of the group in the type of the arithmetic."""
        return convert(scalar, self.kind)

    def gradient(self, decay: float = 0.0) -> Tensor:
        """The gradient, with that of an L2 penalty."""
        p, gradient = self.tensor, gradient_of(self.tensor)
        return gradient + decay * p if decay else gradient

    def shrink(self, decay: float) -> None:
        """Decoupled weight decay: multiplies the parameter by `1 - rate * decay`."""
        if not decay:
            return
        p, kind = self.tensor, self.kind
        if isinstance(self.rate, Tensor):
            p *= cellwise("shrink", lambda rate: convert(1.0 - decay * rate, kind), self.rate)
        else:
            p *= 1 - self.rate * decay

    def descend(self, formula: Callable[..., Term], *operands: Tensor, factor: Tensor | float | None = None) -> None:
        """Subtracts `formula(rate, *operands)`; `factor` stands for the rate, by default that of the group."""
        p, kind, rate = self.tensor, self.kind, self.rate if factor is None else factor
        if isinstance(rate, Tensor):
            p -= cellwise(self.title, lambda r, *xs: formula(convert(r, kind), *xs), rate, *operands)
        else:
            p -= cellwise(self.title, lambda *xs: formula(rate, *xs), *operands)


UpdateRule = Callable[..., None]
"""Records the update of a `Parameter`; keywords are the options, and the nodes of `Shared`."""
Shared = Callable[..., Mapping[str, Tensor | float]]
"""Records what the parameters of a group share, from `Scalars` and the options."""


@gc_paused
def optimizer_code(
    title: str, rule: UpdateRule, loss: Tensor, learning_rate: Rate, params: Trained, groups: Iterable[Group],
    options: Mapping[str, Any], shared: Shared | None = None,
) -> Code:  # fmt: skip
    """The updates of all parameters that gradients of the loss reach, or of `params`, by group."""
    codes = []
    for members, rate, settings in _groups(title, loss, learning_rate, params, groups, options):
        first_path = next(iter(members))
        code, value = rate_of(rate, title, first_path)
        with cd() as prepare:
            common = {} if shared is None else shared(Scalars(value, title, first_path), **settings)
        codes += [code, prepare]
        for path, p in members.items():
            with cd(f"{title}_one") as update:
                rule(Parameter(p, path, title, value), **settings, **common)
            codes.append(update)
    return titled(lambda: f"{loss.label} {title} update", seq(*codes))


def _groups(
    title: str, loss: Tensor, learning_rate: Rate, params: Trained, groups: Iterable[Group], options: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Tensor], Rate, dict[str, Any]]]:
    """The parameters of each group by path, with rate and options; the parameters in no group come first."""
    settings = {"learning_rate": learning_rate, **options}
    remaining = dict(trainable_parameters(loss, params))
    divided = []
    for group in groups:
        if not isinstance(group, Mapping) or "params" not in group:
            raise ArgumentError(f'train.{title}: a group is a mapping {{"params": block, ...}}, not {group!r}'[:200])
        unknown = [name for name in group if name not in settings and name != "params"]
        if unknown:
            raise ArgumentError(
                f"train.{title}: a group has no option {unknown[0]!r}; its options are {', '.join(settings)}"
                f"{keyword_answer(unknown[0], settings)}"
            )
        members = dict(trainable_parameters(loss, group["params"]))
        for path in members:
            if path not in remaining:
                raise CodeError(f"train.{title}: `{path}` is in two groups, or not among `params`")
            del remaining[path]
        divided.append((members, {**settings, **{k: v for k, v in group.items() if k != "params"}}))
    for members, chosen in [(remaining, settings), *divided]:
        _check_options(title, chosen)
        if members:
            yield members, chosen["learning_rate"], {k: v for k, v in chosen.items() if k != "learning_rate"}


# --- options ---------------------------------------------------------------------------------------------------------


def _check_betas(title: str, name: str, value: Any) -> None:
    if not (isinstance(value, tuple | list) and len(value) == 2 and all(is_number(b) and 0 <= b < 1 for b in value)):
        raise CodeError(f"{name} must be numbers in [0, 1), not {value}")


def _check_flag(title: str, name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ArgumentError(f"train.{title}: `{name}` is True or False, not {value!r}"[:200])


def _check_number(title: str, name: str, value: Any) -> None:
    if not isinstance(value, Tensor | Symbol) and (is_bool(value) or not is_number(value)):
        raise ArgumentError(f"train.{title}: `{name}` is a number, not {value!r}"[:200])


_CHECKS: Mapping[str, Callable[[str, str, Any], None]] = {
    "betas": _check_betas,
    "nesterov": _check_flag,
    "centered": _check_flag,
    "decoupled_weight_decay": _check_flag,
    "learning_rate": lambda title, name, value: None,  # checked by `rate_of`
}


def _check_options(title: str, options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        _CHECKS.get(name, _check_number)(title, name, value)
