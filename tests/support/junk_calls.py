"""Calls of everything public with arguments that nobody means."""

from __future__ import annotations

import contextlib
import inspect
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import ocannl as oc
from ocannl import nn, train

MAX_CELLS = 10_000  # of a result whose values are computed
NAMESPACES = {"oc.fft": oc.fft, "oc.linalg": oc.linalg, "nn": nn}
NOT_CALLED = {"reset_ids", "declare", "ops", "testing", "train"}
BINARY = [
    *("add", "sub", "mul", "truediv", "floordiv", "pow", "mod", "matmul", "and_", "or_", "xor", "lshift", "rshift"),
    *("lt", "le", "gt", "ge", "eq", "ne", "getitem"),
    *("iadd", "isub", "imul", "itruediv", "ipow", "iand", "ior", "imatmul"),
]
UNARY = ("neg", "pos", "abs", "invert")
CONVERSIONS: tuple[Callable[[Any], object], ...] = (len, bool, float, int, repr, str, round, hash, math.floor)
KEYWORDS = (
    "dtype", "label", "spec", "axis", "output", "o", "b", "shape", "key", "counter", "stride", "padding", "lr",
    "foo", "", "a b",
)  # fmt: skip


class Plain:
    """An object without any protocol."""


@dataclass(frozen=True)
class Call:
    """A callable with its arguments."""

    title: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    settings: dict[str, Any]

    def __str__(self) -> str:
        items = [*map(_text, self.args), *(f"{name!r}={_text(value)}" for name, value in self.settings.items())]
        return f"{self.title}({', '.join(items)})"

    def run(self, random: Random) -> None:
        """Calls; then uses the result as a tensor or context manager, if it is one."""
        result = self.function(*self.args, **self.settings)
        if isinstance(result, oc.Tensor):
            use(result, random)
        elif isinstance(result, contextlib.AbstractContextManager) and not isinstance(result, oc.Context):
            with result:
                pass


def use(t: oc.Tensor, random: Random) -> None:
    repr(t)
    if random.random() < 0.3:
        str(t.shape)
        if random.random() < 0.3 and math.prod(t.dims) <= MAX_CELLS:
            t.numpy()


def _text(value: object) -> str:
    try:
        return f"<{type(value).__name__}> {value!r}"[:100].replace("\n", " ")
    except (ValueError, RecursionError):  # too long, or nested too deep
        return f"<{type(value).__name__}>"


def subjects() -> dict[str, object]:
    """Objects with public methods."""
    a = np.arange(6, dtype="float32").reshape(2, 3)
    x, w, p = oc.tensor(a, label="x"), oc.param("w", o=[3]), oc.placeholder("p", o=[2, 3])
    loss = ((w * x) ** 2).sum()
    ctx, closed = oc.Context("numpy"), oc.Context("numpy")
    ctx.init(loss)
    update = train.grad_update(loss)
    closed.close()
    layer = oc.op(_layer)(width=2)
    layer(x)
    fed = oc.placeholder("fed", batch=[2], output=[3])
    return {
        "x": x, "w": w, "p": p, "loss": loss, "grad": w.grad, "batched": oc.tensor(np.ones((4, 2)), batch_axes=1),
        "ids": oc.tensor(np.array([0, 1])), "open": oc.placeholder("open"), "mask": x > 1, "ctx": ctx,
        "closed": closed,
        "routine": ctx.compile(update), "code": update, "layer": layer, "dim": oc.Dim("d"), "symbol": oc.symbol("n",
        0, 4),
        "node": w.value, "shape": x.shape, "scale": train.LossScale(), "open_dim": oc.Dim(),
        "state": oc.op(_state)(width=3), "batches": train.batches({"fed": a}, 2, inputs={fed: "fed"}),
        "optimizer": train.adam(loss, 0.1), "average": train.EMA(loss, 0.9), "recomputed": oc.recompute(oc.relu),
        "plateau": train.ReduceOnPlateau(0.1), "clipped": train.clip_grad_norm(loss, 1.0),
    }  # fmt: skip


def _layer(x: oc.Tensor, *, width: int) -> oc.Tensor:
    return oc.relu(oc.einsum("...|a,b => ", x) * oc.param("w", o=[width]))


def _state(*, width: int) -> oc.Tensor:
    return oc.state("s", 0.0, output=[width])


def junk(objects: dict[str, object]) -> list[object]:
    """Values that do not fit most parameters."""
    deep: list[Any] = []
    for _ in range(3000):
        deep = [deep]
    masked = np.ma.masked_array(np.ones(3), [True, False, True])
    arrays: list[object] = [
        np.ones((2, 3), "float32"), np.ones((2, 3)), np.zeros(0), np.zeros((0, 3)), np.array(None), np.array(["a",
        "b"]),
        np.array([True, False]), np.array([1j]), np.array(["2020-01-01"], "datetime64[D]"), np.array(3.0), np.ones(2,
        "int8"),
        np.ones(2, ">f8"), np.zeros(2, [("a", "i4")]), np.array([b"x"]), masked, np.float64("nan"), np.int64(3),
        np.bool_(True),
        np.datetime64("2020-01-01"), np.ones((1,) * 40), np.float16(1), np.longdouble(1), np.array([{}], object),
    ]  # fmt: skip
    texts: list[object] = [
        "", "a", "a,b", "...|a,b => ...|a", "ij;jk=>ik", "a;b=>a^b", "=>", "a=>", "...", "3*a+b => a", "i => i",
        "\0", "a\0b", "\udc80",
        "é" * 20, "x" * 10_000, "output", "batch", "float32", "float99", "numpy", "same", "/", "(", "1|2->3", "add",
        "=:+", "n", "w",
        b"", b"x", bytearray(b"ab"), Path("a\0b"), Path("/"),
    ]  # fmt: skip
    numbers: list[object] = [
        None, True, False, 0, 1, 2, 3, -1, 2**31, 2**63, 2**200, -(2**70), 10**5000, 0.5, -0.0, 1e300, math.nan,
        math.inf, -math.inf,
        1j, Fraction(1, 3),
    ]  # fmt: skip
    values: list[object] = [
        [], [1], [1.0, 2.0], [[1], [2, 3]], [None], ["a"], [("h", 3)], [("h", -1)], [2**62, 2**62], (), (1, 2), (0.9,
        0.999), {}, {"a": 1},
        {1: 2}, {"w": 0}, set(), frozenset([1]), deep, lambda: None, lambda *a, **k: None, lambda x: x,
        lambda x: x * 2, Plain(), Plain, int,
        object, ..., slice(None), slice(1, None), range(3), iter([1, 2]), (i for i in range(3)), oc, NotImplemented,
        type, float, np.float32,
        np.dtype("int8"), oc.float32, oc.int32, memoryview(b"abc"), [objects["x"]], [objects["x"], objects["w"]],
        {"x": objects["x"]},
        ValueError, ValueError("x"), math, inspect.Parameter.empty, oc.uniform(), oc.kaiming(), oc.batch([1, 2]),
    ]  # fmt: skip
    return [*arrays, *texts, *numbers, *values, *objects.values()]


def callables(objects: dict[str, object]) -> list[tuple[str, Callable[..., Any]]]:
    """Functions, classes, methods, properties and operators, by name."""
    public: list[tuple[str, Callable[..., Any]]] = []
    for name in oc.__all__:
        value = getattr(oc, name)
        is_error = isinstance(value, type) and issubclass(value, BaseException)
        if callable(value) and name not in NOT_CALLED and not is_error:
            public.append((f"oc.{name}", value))
    public += [(f"train.{name}", getattr(train, name)) for name in train.__all__ if name != "Fitted"]
    for title, namespace in NAMESPACES.items():
        public += [(f"{title}.{name}", getattr(namespace, name)) for name in namespace.__all__]
    for title, subject in objects.items():
        public += [(f"{title}.{name}", method) for name, method in _methods(subject)]
        if callable(subject):
            public.append((title, subject))
    for title in ("x", "w", "loss", "open", "ids", "batched", "dim", "symbol"):
        subject = objects[title]
        for name in BINARY:
            sign = getattr(operator, name)
            public.append((f"{title} {name}", _applied(sign, subject)))
            if not name.startswith("i") and name != "getitem":
                public.append((f"reflected {title} {name}", _reflected(sign, subject)))
        public += [(f"{name} {title}", _converted(getattr(operator, name), subject)) for name in UNARY]
        public += [(f"{f.__name__} {title}", _converted(f, subject)) for f in CONVERSIONS]
    for title in ("ctx", "closed"):
        subject = objects[title]
        public += [(f"{title}[...]", subject.__getitem__), (f"{title}[...] =",
        subject.__setitem__)]  # type: ignore[attr-defined]
        public.append((f"in {title}", subject.__contains__))  # type: ignore[attr-defined]
    return public


def _applied(sign: Callable[[Any, Any], object], x: object) -> Callable[[object], object]:
    return lambda y, /: sign(x, y)


def _reflected(sign: Callable[[Any, Any], object], x: object) -> Callable[[object], object]:
    return lambda y, /: None if _is_computed_by_numpy(y) else sign(y, x)


def _is_computed_by_numpy(y: object) -> bool:
    """Whether NumPy does not ask the other operand: masked arrays, and comparisons of structured arrays."""
    return isinstance(y, np.ma.MaskedArray) or (isinstance(y, np.ndarray) and y.dtype.names is not None)


def _converted(function: Callable[[Any], object], x: object) -> Callable[[], object]:
    return lambda: function(x)


def _methods(subject: object) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in dir(subject):
        if name.startswith("_") or name in INTERNAL:
            continue
        if isinstance(inspect.getattr_static(type(subject), name, None), property):
            yield name, _converted(operator.attrgetter(name), subject)
        elif callable(method := getattr(subject, name)):
            yield name, method


INTERNAL = {
    "bind", "compile_comp", "prepare_run", "record_run", "upload_contents", "refuse_closed", "is_initialized",
    "readable",
    "emit", "function", "close",
    "begin", "end", "note", "splice", "record", "is_current", "assign_augmented", "assign_item", "as_operand",
}  # fmt: skip
"""Methods between modules of the framework, functions of the test, and `close`, which would end the test."""


def calls(seed: int, count: int) -> Iterator[tuple[Call, Random]]:
    """Random calls; the objects are made anew after every hundred."""
    random = Random(seed)
    for number in range(count):
        if number % 100 == 0:
            objects = subjects()
            values, targets = junk(objects), callables(objects)
        title, function = random.choice(targets)
        positional, keyword = parameters(function)
        limit = 4 if positional is None else positional
        fixed = function.__qualname__.endswith("<lambda>") if hasattr(function, "__qualname__") else False
        n = limit if fixed else random.choice([limit, limit, limit, random.randint(0, limit + 1)])
        args = tuple(random.choice(values) for _ in range(min(n, 5)))
        if args and random.random() < 0.5:  # a first argument that fits, so that later ones are reached
            args = (random.choice(list(objects.values())), *args[1:])
        names = random.sample([*keyword, *KEYWORDS] if random.random() < 0.2 else keyword or [""], 1)
        settings = {names[0]: random.choice(values)} if random.random() < 0.5 and names[0] and not fixed else {}
        yield Call(title, function, args, settings), random


def parameters(function: Callable[..., Any]) -> tuple[int | None, list[str]]:
    """The number of positional parameters, None if there is no limit, and the names of keywords."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None, []
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    keywords = [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return None if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(positional), keywords
