"""ocannl as one of the systems that are compared; what the peers' adapters are, see `systems.py`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

import ocannl as oc
from compare.models import Model, model
from compare.workloads import TRAINING, Workload


class Run:
    """A compiled model in its context: `call` starts a step, `sync` waits, `value` is the loss or the results."""

    def __init__(self, backend: str, workload: Workload) -> None:
        self.model: Model = model(workload)
        self.context = oc.Context(backend, threads=int(os.environ.get("BENCH_THREADS", "1")))
        for tensor, array in self.model.feeds.items():
            self.context[tensor] = array
        if workload["kind"] in TRAINING:
            self.context.init(self.model.results[0])
        self.call = self.context.compile(self.model.code, keep=self.model.results)
        self.sync = self.context.synchronize

    def value(self) -> tuple[np.ndarray[Any, Any], ...] | np.ndarray[Any, Any]:
        values = tuple(self.context[result] for result in self.model.results)
        return values if len(values) > 1 else values[0]


def adapter(backend: str) -> tuple[Callable[[], str], Callable[[Workload], Run]]:
    """The functions `version` and `build` of a system."""
    return lambda: f"ocannl {oc.__version__}", lambda workload: Run(backend, workload)
