"""Recurrences, written out for a few steps."""

from __future__ import annotations

from .builder import Builder
from .program import Value

MAX_STEPS = 6


def recurrence(net: Builder, x: Value) -> Value | None:
    """The first steps of a sequence; the last state, or all of them."""
    if x.form != "sequence":
        return None
    steps = min(x.dims[0], net.choices.pick((2, 3, 4, 1, 5, 6)))
    width = net.size(max(1, min(128, int((net.work_left / (16 * steps * x.batch[0])) ** 0.5))))
    cell = net.choices.pick((simple, gru, lstm))
    states = cell(net, x, [step_of(net, x, t) for t in range(steps)], width)
    if net.choices.chance(50) or steps == 1:
        return states[-1]
    names = ", ".join(v.name for v in states)
    return net.let("h", f"oc.stack([{names}])", f"torch.stack([{names}], 1)", "sequence", (steps, width), like=x)


def step_of(net: Builder, x: Value, t: int) -> Value:
    text = f'oc.einsum("...|{t}, c => ...|c", {x.name})'
    return net.let("x", text, f"{x.name}[:, {t}]", "vector", x.dims[1:], like=x)


def weights(net: Builder, x: Value, width: int, gates: int = 1) -> tuple[str, str, str]:
    """For what comes in, for the state, and the bias."""
    w = net.parameter("w", [gates * width], [x.channels], is_inferred=net.choices.chance(50))
    u = net.parameter("u", [gates * width], [width], is_inferred=net.choices.chance(50))
    return w, u, net.parameter("b", [gates * width], scale=0.2)


def start(net: Builder, x: Value, width: int) -> Value:
    """A state that is learned, or that comes from what is there."""
    if net.choices.chance(50):
        s = net.parameter("s", [width], scale=0.5, is_vector=True)
        return Value(s, "vector", (), (width,))
    return net.let("s", f'oc.einsum("...|t, c; c, o => ...|o", {x.name}, {(w := first(net, x, width))})',
                   f"{x.name}.sum(1) @ {w}", "vector", (width,), work=x.cells * width, like=x)  # fmt: skip


def first(net: Builder, x: Value, width: int) -> str:
    return net.parameter("w", [x.channels, width], scale=0.5 * (x.channels * x.dims[0]) ** -0.5)


def simple(net: Builder, x: Value, inputs: list[Value], width: int) -> list[Value]:
    w, u, b = weights(net, x, width)
    states, h = [], start(net, x, width)
    for value in inputs:
        text = f"{w} @ {value.name} + {u} @ {h.name} + {b}"
        torch_code = f"{value.name} @ {w}.T + {h.name} @ {u}.T + {b}"
        work = x.batch[0] * width * (x.channels + width)
        h = net.let("h", f"oc.tanh({text})", f"torch.tanh({torch_code})", "vector", (width,), work=work, like=x)
        states.append(h)
    return states


def gru(net: Builder, x: Value, inputs: list[Value], width: int) -> list[Value]:
    """Cho et al. 2014; each gate has parameters of its own."""
    update, reset, new = (weights(net, x, width) for _ in range(3))
    work = x.batch[0] * width * (x.channels + width)
    states, h = [], start(net, x, width)
    for value in inputs:
        gates = []
        for w, u, b in (update, reset):
            text = f"oc.sigmoid({w} @ {value.name} + {u} @ {h.name} + {b})"
            torch_code = f"torch.sigmoid({value.name} @ {w}.T + {h.name} @ {u}.T + {b})"
            gates.append(net.let("z", text, torch_code, "vector", (width,), work=work, like=x))
        z, r = gates
        w, u, b = new
        text = f"oc.tanh({w} @ {value.name} + {u} @ ({r.name} * {h.name}) + {b})"
        torch_code = f"torch.tanh({value.name} @ {w}.T + ({r.name} * {h.name}) @ {u}.T + {b})"
        n = net.let("n", text, torch_code, "vector", (width,), work=work, like=x)
        text = f"(1 - {z.name}) * {n.name} + {z.name} * {h.name}"
        h = net.let("h", text, text, "vector", (width,), like=x)
        states.append(h)
    return states


def lstm(net: Builder, x: Value, inputs: list[Value], width: int) -> list[Value]:
    """Hochreiter and Schmidhuber 1997; one product makes all four gates."""
    w, u, b = weights(net, x, width, gates=4)
    states, h, c = [], start(net, x, width), start(net, x, width)
    work = x.batch[0] * 4 * width * (x.channels + width)
    for value in inputs:
        text = f"{w} @ {value.name} + {u} @ {h.name} + {b}"
        torch_code = f"{value.name} @ {w}.T + {h.name} @ {u}.T + {b}"
        together = net.let("z", text, torch_code, "vector", (4 * width,), work=work, like=x)
        text = f'oc.einsum("...|(g c) => ...|g, c", {together.name}, g=4)'
        split = net.let("z", text, f"{together.name}.unflatten(-1, (4, {width}))", "gates", (4, width), like=x)
        gates = [
            net.let("z", f'oc.einsum("...|{n}, c => ...|c", {split.name})', f"{split.name}[..., {n}, :]", "vector",
                    (width,), like=x).name
            for n in range(4)
        ]  # fmt: skip
        i, f, g, o = gates
        text = f"oc.sigmoid({f}) * {c.name} + oc.sigmoid({i}) * oc.tanh({g})"
        c = net.let("c", text, text.replace("oc.", "torch."), "vector", (width,), like=x)
        text = f"oc.sigmoid({o}) * oc.tanh({c.name})"
        h = net.let("h", text, text.replace("oc.", "torch."), "vector", (width,), like=x)
        states.append(h)
    return states
