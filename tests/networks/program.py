"""A network as text in two languages: what it prints is what is built, and what PyTorch computes for it."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from . import torch_layers

Array = np.ndarray[Any, Any]
Dims = tuple[int, ...]


FORMS = {"vector": ("c",), "sequence": ("t", "c"), "image": ("h", "w", "c"), "planes": ("c", "h", "w")}


@dataclass(frozen=True)
class Value:
    """A tensor of the network; `form` says what its output axes are."""

    name: str
    form: str
    batch: Dims
    dims: Dims

    @property
    def shape(self) -> Dims:
        return (*self.batch, *self.dims)

    @property
    def cells(self) -> int:
        return prod(self.shape)

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the output axes."""
        return FORMS[self.form]

    @property
    def channels(self) -> int:
        return self.dims[self.axes.index("c")]

    @property
    def extents(self) -> Dims:
        """The axes in time or space."""
        return tuple(n for n, axis in zip(self.dims, self.axes, strict=True) if axis != "c")

    def with_channels(self, channels: int) -> Dims:
        return tuple(channels if axis == "c" else n for n, axis in zip(self.dims, self.axes, strict=True))

    def positions(self, names: str) -> tuple[int, ...]:
        """Where these axes are in the array, from its end; `b` stands for all batch axes."""
        count = len(self.shape)
        batch = tuple(range(-count, -len(self.dims))) if "b" in names else ()
        return batch + tuple(n - len(self.dims) for n, axis in enumerate(self.axes) if axis in names)


@dataclass(frozen=True)
class Leaf:
    """An array that the network starts from, drawn by its number; `classes` bounds integers."""

    name: str
    dims: Dims
    number: int
    scale: float = 1.0
    mean: float = 0.0
    classes: int = 0
    learned: bool = False
    steps: bool = False  # the first axis counts the steps of training

    @property
    def text(self) -> str:
        if self.classes:
            return f'integers({self.number}, {self.classes}, {self.dims}).astype("int32")'
        return f"normal({self.number}, {self.dims}, {self.scale}, {self.mean}).astype(kind)"

    def array(self, kind: str) -> Array:
        array: Array = eval(self.text, {"kind": kind, "normal": normal, "integers": integers})
        return array


def normal(number: int, dims: Dims, scale: float, mean: float) -> Array:
    return mean + scale * np.random.default_rng(number).normal(size=dims)


def integers(number: int, classes: int, dims: Dims) -> Array:
    return np.random.default_rng(number).integers(0, classes, size=dims)


@dataclass(frozen=True)
class Line:
    """One statement in both languages; parameters and other leaves have none in PyTorch."""

    name: str
    ocannl: str
    torch: str = ""

    @property
    def words(self) -> set[str]:
        """Names that the statement depends on."""
        parsed = ast.parse(f"{self.ocannl}\n{self.torch}")
        return {node.id for node in ast.walk(parsed) if isinstance(node, ast.Name)} - {self.name}


@dataclass(frozen=True)
class Network:
    """Leaves, statements and the loss `loss`; `fed` are leaves set before each step, `keep` what is looked at."""

    leaves: tuple[Leaf, ...]
    lines: tuple[Line, ...]
    optimizer: str
    torch_optimizer: str
    keep: tuple[str, ...]
    fed: tuple[str, ...]
    is_sliced: bool  # a symbol `n` counts the steps
    work: int  # multiply-adds and cells of the forward pass
    asks: bool = False  # for the sizes of each result at once, or only for those of the loss

    STEPS = 3

    @property
    def is_smooth(self) -> bool:
        text = "\n".join(line.torch for line in self.lines)
        return not any(f"{name}(" in text for name in torch_layers.KINKED)

    @property
    def learned(self) -> tuple[str, ...]:
        return tuple(leaf.name for leaf in self.leaves if leaf.learned)

    @property
    def ocannl(self) -> str:
        shape_request = "; {0}.dims" if self.asks else ""
        return "\n".join(line.ocannl + (shape_request.format(line.name) if line.torch else "") for line in self.lines)

    @property
    def torch(self) -> str:
        return "\n".join(line.torch for line in self.lines if line.torch)

    def script(self, kind: str, backend: str, threads: int) -> str:
        """A complete program that trains the network in both languages and prints how far they are apart."""
        entries = "\n".join(f'    "{leaf.name}": {leaf.text},' for leaf in self.leaves)
        stepwise = tuple(leaf.name for leaf in self.leaves if leaf.steps)
        draws, functions = (inspect.getsource(f) for f in (normal, integers)), functions_in(self.torch)
        return _SCRIPT.format(
            kind=kind, arrays=entries, draws="\n\n".join(draws), learned=self.learned, stepwise=stepwise, fed=self.fed,
            keep=self.keep, ocannl=indented(self.ocannl), optimizer=self.optimizer, backend=backend, threads=threads,
            call="n=number" if self.is_sliced else "", steps=self.STEPS, functions="\n\n".join(functions),
            torch=indented(self.torch), torch_optimizer=self.torch_optimizer,
        )  # fmt: skip


def indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def functions_in(text: str) -> list[str]:
    """Sources of the functions that a text calls, and of those that these call."""
    called: set[str] = set()
    waiting = [text]
    while waiting:
        calls = set(re.findall(r"\w+(?=\()", waiting.pop()))
        for name in calls & set(torch_layers.FUNCTIONS) - called:
            called.add(name)
            waiting.append(inspect.getsource(getattr(torch_layers, name)))
    return [inspect.getsource(getattr(torch_layers, name)) for name in torch_layers.FUNCTIONS if name in called]


_SCRIPT = '''\
from collections.abc import Sequence
from typing import Any

import numpy as np

import ocannl as oc
from ocannl import train

Array = Any
Dims = tuple[int, ...]
kind = "{kind}"


{draws}

arrays = {{
{arrays}
}}
LEARNED = {learned}
STEPWISE = {stepwise}  # the first axis counts the steps
FED = {fed}  # set before each step
KEEP = {keep}


def network():
{ocannl}
    return locals()


results = {{}}
with oc.settings(precision=kind, cache=False), oc.Context("{backend}", threads={threads}) as ctx:
    env = network()
    loss = env["loss"]
    ctx.init(loss)
    for name in LEARNED:
        ctx[env[name]] = arrays[name]
    kept = {{name: eval(name, env) for name in KEEP}}
    step = ctx.compile(oc.seq(train.grad_update(loss), {optimizer}), keep=list(kept.values()))
    for number in range({steps}):
        for name in FED:
            ctx[env[name]] = arrays[name][number]
        step({call})
        results |= {{f"{{name}} {{number}}": ctx[t] for name, t in (("loss", loss), *kept.items())}}
    results |= {{name: ctx[env[name]] for name in LEARNED}}

# the same in PyTorch

import torch
import torch.nn.functional as F

T = Any
SHIFT = 0.0
torch.set_default_dtype(torch.float64)


{functions}

def meaning(arrays):
    globals().update(arrays)
{torch}
    return {{**arrays, **locals()}}


def gradient(t):
    return torch.zeros_like(t) if t.grad is None else t.grad


held = {{name: torch.tensor(a) for name, a in arrays.items()}}
held = {{name: a.double() if a.is_floating_point() else a.long() for name, a in held.items()}}
parameters = [held[name].requires_grad_() for name in LEARNED]
optimizer = {torch_optimizer}
expected = {{}}
for number in range({steps}):
    env = meaning({{name: a[number] if name in STEPWISE else a for name, a in held.items()}})
    for name in KEEP:
        if name.endswith(".grad") and env[name[:-5]].requires_grad:
            env[name[:-5]].retain_grad()
    optimizer.zero_grad()
    env["loss"].sum().backward()
    kept = {{name: gradient(env[name[:-5]]) if name.endswith(".grad") else env[name] for name in KEEP}}
    now = {{"loss": env["loss"], **kept}}
    expected |= {{f"{{name}} {{number}}": np.array(t.detach()) for name, t in now.items()}}
    optimizer.step()
expected |= {{name: np.array(held[name].detach()) for name in LEARNED}}

for name, want in expected.items():
    off = abs(results[name] - want).max(initial=0)
    print(f"{{name:12}} off by {{off:.2g}}, of cells up to {{abs(want).max(initial=0):.2g}}")
'''
