"""The oracle: values of code by the reference semantics, without a backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl.ir.assign import nodes
from ocannl.testing.evaluate import evaluate

Array = np.ndarray[Any, Any]


class Oracle:
    """Evaluates code on arrays, starting from the contents of data and parameters."""

    def __call__(self, t: oc.Tensor, feeds: Mapping[oc.Tensor, Any] | None = None, **symbols: int) -> Array:
        """The value of a tensor after initialization of its parameters."""
        return self.after(oc.seq(t.init_params, t.forward), t, feeds=feeds, **symbols)[0]

    def after(
        self, code: oc.Code, *outputs: oc.Tensor, feeds: Mapping[oc.Tensor, Any] | None = None, **symbols: int
    ) -> list[Array]:
        """The values of tensors after the code has run."""
        comp = code.elaborate().comp
        mentioned = [*nodes(comp), *(t.value for t in outputs)]
        values = {n: n.contents.array(n.dims, n.precision, 42) for n in mentioned if n.contents is not None}
        values |= {t.value: np.asarray(a) for t, a in (feeds or {}).items()}
        used = {s: symbols[s.name] for s in self._statics(comp)}
        state = {**values, **evaluate(comp, values, used)}
        return [state[t.value] for t in outputs]

    @staticmethod
    def _statics(comp: Any) -> tuple[Any, ...]:
        from ocannl.ir.canon import canonical

        return canonical(comp, {}).statics


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    return Oracle()


@pytest.fixture(scope="session")
def listing() -> Callable[[oc.Code], list[str]]:
    """The printed assignments of some code."""
    from ocannl.ir.printer import print_comp

    return lambda code: print_comp(code.elaborate().comp).splitlines()
