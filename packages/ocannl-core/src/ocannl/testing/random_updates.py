"""Random recorded code at the end of each call of a program: updates of states, which are read before written."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ocannl.testing.numpy_semantics import dims_of, joined, stretched
from ocannl.testing.program import Env, Line
from ocannl.testing.random_einsums import Array
from ocannl.testing.random_leaves import CELLS, Leaves, Value

Update = tuple[str, Callable[[Array, Array], Array]]  # of a state by a value, as text and in NumPy

UPDATES: tuple[Update, ...] = (
    ("{0} += {1}", np.add),
    ("{0} -= 0.25 * {1}", lambda s, x: s - 0.25 * x),
    ("{0} += 0.5 * {1} * {1}", lambda s, x: s + 0.5 * x * x),
    ("{0}[...] = 0.5 * {0} + {1}", lambda s, x: 0.5 * s + x),
    ("{0}[...] = oc.tanh({0} - {1})", lambda s, x: np.tanh(s - x)),
    ("{0}[...] = {1} + 0.0 * {0}", lambda s, x: x + 0.0 * s),
    ('{0}["=:"] = 0.75 * {1}', lambda s, x: 0.75 * x + 0.0 * s),
    ('{0}["=@^"] = {1}', np.maximum),
    ('{0}["=@-"] = {1}', np.minimum),
    ("{0} *= 0.5", lambda s, x: s * 0.5),
    ("{0} /= 4", lambda s, x: s / 4),
)


def random_updates(maker: Leaves) -> tuple[list[Line], list[Line]]:
    """Updates of states that the program reads in its next call, and updates of separate states."""
    random = maker.random
    values = [v for v in maker.named if not v.partner and v.text not in maker.data]
    reading, apart = [], []
    leaves = [v for v in maker.named if v.gradient and v.text in maker.data and not v.partner]
    for state in (*maker.states, *random.sample(leaves, min(len(leaves), 1))):
        fitting = [v for v in values if _fits(v, state)] or [state]
        if state.gradient:
            text, compute = random.choice((("{0} *= 0.875", lambda s, x: s * 0.875), ("{0} += 0.0625 * {1}", _nudge)))
        elif state.rows[0] and random.random() < 0.3 and state.rows[0][0]:
            inner = [v for v in values if _fits(v, _first(state))]
            if inner:
                reading.append(_sliced(random.choice(inner), state, random.randrange(state.rows[0][0])))
            continue
        else:
            text, compute = random.choice(UPDATES)
        reading.append(_line(text, compute, state, random.choice(fitting)))
    for value in random.sample(values, min(len(values), random.choice((0, 1, 2)))):
        apart.append(_line(*random.choice(UPDATES[3:7]), _fresh(maker, value), value))
    for leaf in random.sample(leaves, min(len(leaves), random.choice((0, 1, 2)))):
        speed, weights = _fresh(maker, leaf), _fresh(maker, leaf)
        apart.append(Line(f"{speed.text}[...] = 0.875 * {speed.text} + {leaf.text}.grad", speed.text))
        apart.append(Line(f"{weights.text} -= 0.125 * {speed.text}", weights.text))
    return reading, apart


def _nudge(s: Array, x: Array) -> Array:
    return s + 0.0625 * x


def _fits(value: Value, state: Value) -> bool:
    """Whether the value broadcasts to the state without constraining its rows."""
    if any(value.rigid) or prod(dims_of(state.rows)) > CELLS:
        return False
    try:
        return joined(value.rows, state.rows) == state.rows
    except ValueError:
        return False


def _first(state: Value) -> Value:
    rows = (state.rows[0][1:], state.rows[1], state.rows[2])
    return Value(state.text, rows, state.array, state.compute, False)


def _line(text: str, compute: Callable[[Array, Array], Array], state: Value, value: Value) -> Line:
    def after(env: Env) -> Array:
        old = env[state.text].astype(np.float64)
        return np.broadcast_to(compute(old, stretched(value.compute(env), value.rows, state.rows)), old.shape)

    return Line(text.format(state.text, value.text), state.text, after)


def _sliced(value: Value, state: Value, at: int) -> Line:
    inner = _first(state)

    def after(env: Env) -> Array:
        out = env[state.text].astype(np.float64)
        out[at] += stretched(value.compute(env), value.rows, inner.rows)
        return out

    return Line(f"{state.text}[{at}] += {value.text}", state.text, after)


def _fresh(maker: Leaves, like: Value) -> Value:
    """A state whose shape is inferred from its use."""
    name = maker.new_name("s")
    start = maker.random.choice((0.0, 0.0, 0.5))
    initial = f"init={start}, " if start else ""
    array = np.full(dims_of(like.rows), start)
    state = maker.add_leaf(name, f"oc.node({initial}dtype=kind)", like.rows, array, False)
    del maker.unused[name]
    return state
