"""Random networks: inputs, layers and blocks in any order, heads, losses, an optimizer, and what is looked at."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from . import activations, attention, blocks, convolutions, dense, losses, norms, pooling, recurrences, shapes
from .blocks import MAX_DEPTH, tried
from .builder import SIZES, Builder
from .choices import Choices
from .program import Leaf, Line, Network, Value
from .training import optimizer

Layer = Callable[[Builder, Value], Value | None]

LAYERS: tuple[tuple[Layer, int], ...] = (
    (activations.activation, 14), (dense.dense, 10), (convolutions.conv, 14), (blocks.resnet, 10),
    (blocks.transformer, 9), (attention.attention, 6), (norms.batch_norm, 7), (norms.layer_norm, 6), (pooling.pool, 6),
    (norms.whole_norm, 1), (norms.instance_norm, 2), (norms.group_norm, 3), (norms.rms_norm, 3), (norms.cosine, 1),
    (pooling.pool_blocks, 3), (pooling.pool_extents, 2), (pooling.pool_time, 1), (pooling.last_step, 1),
    (pooling.attention_pool, 1), (convolutions.separable, 3), (convolutions.conv_transpose, 2), (dense.low_rank, 2),
    (dense.mixed_places, 3), (dense.contracted, 2), (dense.bilinear, 1), (recurrences.recurrence, 5),
    (shapes.flattened, 1), (shapes.patches, 3), (shapes.as_image, 1), (shapes.as_sequence, 3), (shapes.as_steps, 1),
    (shapes.transposed, 3), (shapes.cut, 2), (shapes.extended, 1), (shapes.repeated, 1), (shapes.shuffled, 1),
    (shapes.flipped, 1), (shapes.running_sum, 1), (activations.softmax, 2), (activations.gated, 4),
    (activations.scaled, 2), (activations.rectified_by_slopes, 1), (activations.maxout, 1), (blocks.squeezed, 4),
    (blocks.modulated, 2), (blocks.experts, 2),
)  # fmt: skip
AROUND = (
    (blocks.residual, 6), (blocks.densely, 2), (blocks.branches, 3), (blocks.down_and_up, 5), (blocks.highway, 2),
)  # fmt: skip
TRIES = 12
LENGTHS = (((20, 10**5), 2), ((35, 7 * 10**5), 3), ((50, 7 * 10**5), 3), ((12, 3 * 10**6), 1))  # cells of a value, too


def generate(source: Choices | Random) -> Network:
    """A network; its size, in multiply-adds and in statements, is drawn first."""
    choices = source if isinstance(source, Choices) else Choices(source)
    work = choices.pick((10**4, 10**6, 10**7, 3 * 10**7, 10**8))
    lines, cells = choices.weighted(LENGTHS)
    batch = choices.pick([n for n in SIZES if n <= choices.pick((4, 9, 33, 129, 1025, 4096))])
    net = Builder(choices, batch, work, lines, cells)
    return finished(net, body(net, inputs(net), lines))


# --- where it starts ---


def inputs(net: Builder) -> list[Value]:
    values = [input_or_vector(net)]
    if net.choices.chance(20):
        values.append(input_or_vector(net))
    return values


def input_or_vector(net: Builder) -> Value:
    """An input of any kind, or a vector where the former costs too much."""
    return tried(net, partial(any_input, net)) or vector(net)


def any_input(net: Builder) -> Value:
    return net.choices.weighted(((vector, 3), (sequence, 2), (embedded, 3), (image, 5)))(net)


def limit(net: Builder, maximum: int) -> int:
    """How many cells of one element of the batch are cheap enough."""
    return max(1, min(maximum, net.work_left // (16 * net.batch), net.value_cells // (3 * net.batch)))


def vector(net: Builder) -> Value:
    width = net.size(limit(net, 4096))
    return make_input(net, "vector", (width,))


def sequence(net: Builder) -> Value:
    steps = net.size(limit(net, 512))
    return make_input(net, "sequence", (steps, net.size(limit(net, 512 * steps) // steps)))


def image(net: Builder) -> Value:
    side = net.size(int(limit(net, 64 * 64) ** 0.5))
    width = side if net.choices.chance(60) else net.size(max(1, min(64, limit(net, 64 * 64) // side)))
    channels = net.size(max(1, min(512, limit(net, 10**6) // (side * width))))
    channels = min(channels, 3) if net.choices.chance(50) else channels
    return make_input(net, "image", (side, width, channels))


def make_input(net: Builder, form: str, dims: tuple[int, ...]) -> Value:
    x = net.data("x", (net.batch, *dims), 1)
    value = Value(x, form, (net.batch,), dims)
    net.values.append(value)
    return value


def embedded(net: Builder) -> Value:
    """Rows of a table, and positions."""
    steps = net.size(min(512, limit(net, 512)))
    width = net.size(max(1, min(256, limit(net, 10**6) // steps)))
    vocabulary = net.size(max(2, min(4096, net.value_cells // (2 * width))), 2)
    table = net.parameter("table", [vocabulary, width], scale=0.7)
    batch_axes = net.choices.pick((1, 2))
    ids = net.data("words", (net.batch, steps), batch_axes, classes=vocabulary)
    form, batch, dims = "sequence", (net.batch,), (steps, width)
    if batch_axes == 2:
        form, batch, dims = "vector", (net.batch, steps), (width,)
    x = net.let("h", f"{table}.take({ids})", f"{table}[{ids}]", form, dims, batch=batch)
    if form == "sequence" and net.choices.chance(60):
        p = net.parameter("p", [steps, width], scale=0.3)
        x = net.let("h", f"{x.name} + {p}", f"{x.name} + {p}", form, dims, batch=batch)
    return x


# --- what stands between ---


def body(net: Builder, ends: list[Value], lines: int) -> list[Value]:
    """Layers until the statements are spent, or fewer; where several paths begin, each goes on for a while."""
    while net.lines_left > lines // 4:
        with net.choices.span():
            if not net.choices.chance(92):
                break
            at = net.choices.integer(len(ends))
            value = next_value(net, ends[at])
            if value is None:
                break
            if net.choices.chance(8) and len(ends) < 3:
                ends.append(value)
            else:
                ends[at] = value
    return ends


def next_value(net: Builder, x: Value) -> Value | None:
    """A layer, a block, or what a value earlier in the network is added to."""
    for _ in range(TRIES):
        if net.depth < MAX_DEPTH and net.choices.chance(25):
            around = net.choices.weighted(AROUND)
            value = tried(net, partial(around, net, x, path))
        elif net.choices.chance(8):
            value = tried(net, partial(skipped, net, x))
        else:
            layer = net.choices.weighted(LAYERS)
            value = tried(net, partial(layer, net, x))
        if value is not None:
            return value
    return None


def path(net: Builder, x: Value) -> Value:
    """A few layers inside a block."""
    for _ in range(3):
        with net.choices.span():
            value = next_value(net, x) if net.choices.chance(70) else None
            if value is None:
                break
            x = value
    return x


def skipped(net: Builder, x: Value) -> Value | None:
    """`x` joined with something from long before."""
    alike = [v for v in net.values if v.form == x.form and v.batch == x.batch and v.name != x.name]
    same_shape = [v for v in alike if v.extents == x.extents]
    if not same_shape:
        return None
    y = net.choices.pick(same_shape)
    if net.choices.chance(40):
        return blocks.joined_by_channels(net, [x, y])
    if x.shape == y.shape and net.choices.chance(30):
        return net.let("h", f"{x.name} * {y.name}", f"{x.name} * {y.name}", x.form, x.dims, like=x)
    return blocks.joined_by_sum(net, x, y)


# --- where it ends ---


def finished(net: Builder, ends: list[Value]) -> Network:
    net.lines_left, net.work_left, net.cells_left = 40, net.work_left + 10**6, net.cells_left + 2 * 10**6
    terms = [tried(net, partial(losses.head, net, x)) or losses.mean_square(x) for x in ends]
    heads = " ".join(text for text, _ in terms)
    if not any(leaf.learned for leaf in net.leaves):
        w = net.parameter("w", [], mean=1.0)
        terms = [(f"{w} * {text}", f"{w} * {torch_code}") for text, torch_code in terms]
    for _ in range(2):
        if net.choices.chance(20):
            terms.append(losses.penalty(net, [leaf.name for leaf in net.leaves if leaf.learned]))
    total = " + ".join(text for text, _ in terms), " + ".join(torch_code for _, torch_code in terms)
    if not learned_by(net, net.lines, *total):  # parameters of paths that the loss leaves out
        w = net.parameter("w", [], mean=1.0)
        total = f"{w} * ({total[0]})", f"{w} * ({total[1]})"
    net.add(Line("loss", f"loss = {total[0]}", f"loss = {total[1]}"))
    lines = needed(net.lines)
    used = {name for line in lines[:-1] for name in line.words} | set(re.findall(r"\w+", heads))
    lines = [line if line.name in used else with_all_axes(net, line) for line in lines]
    names = {line.name for line in lines}
    is_sliced = any(line.ocannl.endswith("[n]") for line in lines)
    if is_sliced:
        lines.insert(0, Line("n", 'n = oc.symbol("n", 0, 3)'))
    leaves = tuple(leaf for leaf in net.leaves if leaf.name in names)
    fed = tuple(name for name in net.fed if name in names)
    update, looked_at, asks = optimizer(net.choices), kept(net, leaves, lines), net.choices.chance(30)
    return Network(leaves, tuple(lines), *update, looked_at, fed, is_sliced, net.work, asks)


def with_all_axes(net: Builder, line: Line) -> Line:
    """Declares all axes of a parameter that only penalties use, from which no axes are inferred."""
    dims = next((leaf.dims for leaf in net.leaves if leaf.learned and leaf.name == line.name), None)
    return line if dims is None else Line(line.name, f'{line.name} = oc.param("{line.name}", o={list(dims)})')


def learned_by(net: Builder, lines: Sequence[Line], ocannl: str, torch_code: str) -> bool:
    """Whether the loss depends on a parameter."""
    names = {line.name for line in needed([*lines, Line("loss", f"loss = {ocannl}", f"loss = {torch_code}")])}
    return any(leaf.learned and leaf.name in names for leaf in net.leaves)


def needed(lines: list[Line]) -> list[Line]:
    """Those that the last one depends on."""
    names, wanted = set(lines[-1].words), [lines[-1]]
    for line in reversed(lines[:-1]):
        if line.name in names:
            names |= line.words
            wanted.append(line)
    return wanted[::-1]


def kept(net: Builder, leaves: Sequence[Leaf], lines: Sequence[Line]) -> tuple[str, ...]:
    """Nothing, gradients of parameters, or some of what lies between."""
    choice = net.choices.weighted((("nothing", 3), ("gradients", 4), ("some", 3)))
    learned = [leaf.name for leaf in leaves if leaf.learned]
    if choice == "nothing":
        return ()
    if choice == "gradients":
        return tuple(f"{name}.grad" for name in learned)
    names = {line.name for line in lines}
    values = [v.name for v in net.values if v.name in names and not v.name.startswith("x")]
    intermediates = [name for name in values if net.choices.chance(20)]
    moving = set(learned)  # what depends on parameters
    for line in lines:
        if line.words & moving:
            moving.add(line.name)
    gradients = [name for name in (*learned, *intermediates) if name in moving and net.choices.chance(40)]
    return (*intermediates, *(f"{name}.grad" for name in gradients))
