"""Blocks: tensor functions that own parameters, created once and reused by name and order."""

from __future__ import annotations

import copy
import functools
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ocannl as oc


@oc.op
def layer(x, *, hidden):
    w = oc.param()
    b = oc.param(0.0, o=[hidden])
    return oc.relu(w @ x + b)


@oc.op
def two(x, *, hidden=4, classes=3):
    first = layer(hidden=hidden)
    second = layer(hidden=classes)
    return second(first(x))


def data(n: int, features: int = 5, label: str = "x") -> oc.Tensor:
    return oc.tensor(np.ones((n, features)), batch_axes=1, label=label)


# --- configuration and application ------------------------------------------------------------------------------------


def test_without_tensors_a_function_is_configured_with_them_applied() -> None:
    block = layer(hidden=2)
    assert isinstance(block, oc.Block)
    assert repr(block) == "<block block: not applied yet>"
    applied = layer(data(3), hidden=2)
    assert isinstance(applied, oc.Tensor)
    assert applied.dims == (3, 2)
    assert isinstance(block(data(3)), oc.Tensor)
    assert repr(block) == "<block block: 2 parameters>"


def test_without_positional_arguments_a_function_is_applied_at_once() -> None:
    @oc.op
    def model(*, scale=2.0):
        a = oc.param(1.0)
        return a * scale

    t = model()
    assert isinstance(t, oc.Tensor)
    assert list(t.params) == ["a"]
    assert isinstance(model(scale=3.0), oc.Tensor)


def test_without_parameters_a_function_is_just_a_function(oracle: Any) -> None:
    @oc.op
    def double(x):
        return x * 2

    assert oracle(double(oc.tensor([1.0, 2.0]))).tolist() == [2, 4]
    assert list(double(oc.tensor([1.0])).params) == []


def test_arguments_need_not_be_tensors_and_may_be_none(oracle: Any) -> None:
    @oc.op
    def shifted(x, by=None, *more, scale=1.0):
        out = x * scale
        if by is not None:
            out = out + by
        return out + sum(more) if more else out

    x = oc.tensor([1.0])
    assert oracle(shifted(x)).tolist() == [1]
    assert oracle(shifted(x, 2)).tolist() == [3]
    assert oracle(shifted(x, None, 5, 6)).tolist() == [12]
    assert oracle(shifted(scale=3.0)(x, 1)).tolist() == [4]


def test_a_lambda_a_method_and_a_decorator_call_will_do() -> None:
    head = oc.op(lambda x: oc.param("w") @ x)
    assert list(head(data(2)).params) == ["w"]

    class Net:
        @oc.op
        def apply(self, x):
            v = oc.param()
            return v @ x

    @oc.op()
    def called(x):
        w = oc.param()
        return w @ x

    assert list(Net().apply(data(2)).params) == ["v"]
    assert list(called(data(2)).params) == ["w"]


def test_results_are_passed_through() -> None:
    @oc.op
    def pair(x):
        w = oc.param()
        return w @ x, {"w": w}

    out, more = pair(data(2))
    assert isinstance(out, oc.Tensor)
    assert list(more) == ["w"]


# --- sharing ---------------------------------------------------------------------------------------------------------


def test_parameters_are_created_once_and_shared() -> None:
    block = layer(hidden=2)
    p, q = block(data(3)), block(data(7))
    assert list(block.params) == ["w", "b"]
    assert p.params["w"] is q.params["w"] is block.params["w"]
    assert (p.dims, q.dims) == ((3, 2), (7, 2))
    assert block.params["w"].dims == (2, 5)
    assert list((p.sum() + q.sum()).params) == ["block.w", "block.b"]


def test_two_blocks_of_a_function_share_nothing() -> None:
    first, second = layer(hidden=2), layer(hidden=2)
    total = first(data(3)).sum() + second(data(3)).sum()
    assert first.params["w"] is not second.params["w"]
    assert list(total.params) == ["first.w", "first.b", "second.w", "second.b"]


def test_blocks_nest_and_paths_are_dotted() -> None:
    net = two(hidden=4)
    y = net(data(3))
    assert list(net.params) == ["first.w", "first.b", "second.w", "second.b"]
    assert y.dims == (3, 3)
    paths = ["net.first.w", "net.first.b", "net.second.w", "net.second.b"]
    assert list(y.params) == paths
    z = net(data(9))
    assert list((y.sum() + z.sum()).params) == paths
    assert net.params["first.w"] is y.params["net.first.w"] is y.params["first.w"]


def test_a_block_created_outside_is_a_member_of_the_applying_block() -> None:
    shared = layer(hidden=5, label="shared")

    @oc.op
    def twice(x):
        return shared(shared(x))

    block = twice()
    y = block(data(3))
    assert list(block.params) == ["shared.w", "shared.b"]
    assert block.params["shared.w"] is shared.params["w"]
    assert block(data(4)).params["shared.w"] is y.params["shared.w"]


def test_blocks_created_in_a_loop() -> None:
    @oc.op
    def deep(x, *, depth):
        layers = [layer(hidden=5) for _ in range(depth)]
        for block in layers:
            x = block(x)
        return x

    net = deep(depth=3)
    net(data(2))
    assert list(net.params) == ["layer.w", "layer.b", "layer_2.w", "layer_2.b", "layer_3.w", "layer_3.b"]
    assert net(data(4)).dims == (4, 5)


def test_parameters_of_equal_names_are_numbered() -> None:
    @oc.op
    def model(x):
        for _ in range(3):
            w = oc.param(0.5, o=[5])
            x = x * w
        return x * oc.param(0.5)

    net = model()
    net(data(2))
    assert list(net.params) == ["w", "w_2", "w_3", "param"]
    net(data(3))


def test_the_order_of_paths_is_that_of_the_first_application() -> None:
    order = []

    @oc.op
    def model(x):
        b = oc.param(1.0, o=[5])
        a = oc.param(1.0, o=[5])
        order.append((a, b))
        return x * a * b

    net = model()
    net(data(2))
    net(data(2))
    assert list(net.params) == ["b", "a"]
    assert order[0] == order[1]


def test_a_parameter_that_depends_on_configuration_is_a_matter_of_python() -> None:
    @oc.op
    def model(x, *, bias):
        w = oc.param(o=[2])
        y = w @ x
        if bias:
            b = oc.param(0.0, o=[2])
            y = y + b
        return y

    assert list(model(data(2), bias=False).params) == ["w"]
    assert list(model(data(2), bias=True).params) == ["w", "b"]


def test_the_result_is_called_after_function_and_argument() -> None:
    y = layer(data(3, label="image"), hidden=2)
    assert y.label == "layer_image"
    net = layer(hidden=2)
    z = net(data(3, label="image"))
    assert z.label == "net_image"
    assert layer(hidden=2, label="head").label == "head"


def test_initial_values_of_a_block_are_keyed_by_path() -> None:
    def weights(before: int) -> np.ndarray:
        for _ in range(before):
            layer(data(2), hidden=3)
        net = two(hidden=4)
        net(data(3))
        w = net.params["second.w"]
        w.init_params.elaborate()
        contents = net.params["second.w"].value.contents
        y = net(data(3))
        y.init_params.elaborate()
        return contents.array(w.dims, w.dtype, 42)

    assert np.array_equal(weights(0), weights(3))


# --- labels, paths and streams ---------------------------------------------------------------------------------------


@oc.op
def cell(x, *, width):
    w = oc.param(o=[width])
    return w @ x


def starts(order: list[str], before: int = 0) -> dict[str, np.ndarray]:
    """The initial values of cells with these labels, built in this order after cells without labels."""
    with oc.Context("numpy") as ctx:
        for _ in range(before):
            ctx.init(cell(data(2), width=4))
        cells = {label: cell(width=4, label=label) for label in order}
        for block in cells.values():
            ctx.init(block(data(2)))
        return {label: ctx[block.params["w"]] for label, block in cells.items()}


def test_blocks_with_labels_start_alike_in_any_order_and_company() -> None:
    first, second = starts(["actor", "critic"]), starts(["critic", "actor"], before=3)
    for label in ("actor", "critic"):
        np.testing.assert_array_equal(first[label], second[label])
    assert not np.isin(first["actor"], first["critic"]).any()


def test_labels_are_part_of_paths() -> None:
    actor, critic = cell(width=4, label="actor"), cell(width=4)
    total = actor(data(2)) + critic(data(2))
    assert list(total.params) == ["actor.w", "critic.w"]
    assert list(actor.params) == ["w"]
    assert total.find("critic.w") is critic.params["w"]
    with pytest.raises(oc.CodeError) as caught:
        total.params["w"]
    assert str(caught.value) == "several parameters are called 'w': actor.w, critic.w"
    assert "w" in actor(data(2)).params
    assert "v" not in actor(data(2)).params


def test_a_binding_labels_a_block_inside_of_another() -> None:
    @oc.op
    def net(x):
        step = cell(width=5)
        return cell(step(step(x)), width=3)

    block = net()
    assert list(block(data(2)).params) == ["block.step.w", "block.cell.w"]
    assert list(block.params) == ["step.w", "cell.w"]


def values(*params: oc.Tensor, init: list[oc.Tensor]) -> list[np.ndarray]:
    with oc.Context("numpy") as ctx:
        for t in init:
            ctx.init(t)
        return [ctx[p] for p in params]


def test_twins_without_labels_never_share_a_stream() -> None:
    first, second = (cell(data(2), width=4) for _ in range(2))
    w, v = (t.params["w"] for t in (first, second))
    alone = values(w, v, init=[first, second])
    assert not np.isin(*alone).any()
    np.testing.assert_array_equal(alone, values(w, v, init=[first + second]))
    assert list((first + second).params) == ["w", "w_2"]


def test_parameters_without_names_never_share_a_stream() -> None:
    pair = [oc.param(oc.uniform(), o=[3]) for _ in range(2)]
    first, second = values(*pair, init=[p + 0 for p in pair])
    assert not np.isin(first, second).any()


def test_initialization_of_an_expression_leaves_the_values_of_another() -> None:
    def build() -> tuple[oc.Block, oc.Block]:
        return cell(width=4, label="one"), cell(width=4, label="other")

    (first, second), x = build(), data(2)
    total = first(x) + second(x)
    joint = values(first.params["w"], second.params["w"], init=[total])
    first, second = build()
    y, z = first(x), second(x)
    apart = values(first.params["w"], second.params["w"], init=[z, y])
    first, second = build()
    first(x), second(x)
    by_block = values(first.params["w"], second.params["w"], init=[second, first])  # type: ignore[list-item]
    np.testing.assert_array_equal(joint, apart)
    np.testing.assert_array_equal(joint, by_block)


def test_equal_labels_in_one_expression_are_numbered() -> None:
    a, b = (oc.param("w", oc.uniform(), o=[3]) for _ in range(2))
    first, second = values(a, b, init=[b + 0, a + b])  # `b` is initialized before `a`
    assert not np.isin(first, second).any()


# --- refusals --------------------------------------------------------------------------------------------------------


def test_parameters_before_the_first_application_are_refused() -> None:
    net = layer(hidden=2)
    with pytest.raises(oc.CodeError) as caught:
        net.params  # noqa: B018
    assert str(caught.value) == "block `net` has no parameters before it is first applied to something"


def changing(*programs: Callable[[oc.Tensor], oc.Tensor]) -> oc.Block:
    """A block that runs another program at every application."""
    calls = iter(programs)

    @oc.op
    def moody(x):
        return next(calls)(x)

    return moody(label="moody")


def only_a(x: oc.Tensor) -> oc.Tensor:
    return oc.param("a", 1.0) * x


def more(x: oc.Tensor) -> oc.Tensor:
    return oc.param("b", 1.0) * (oc.param("a", 1.0) * x)


def none(x: oc.Tensor) -> oc.Tensor:
    return x * 2


def inner(x: oc.Tensor) -> oc.Tensor:
    return layer(hidden=5)(x)


ADDED_PARAMETER = (
    "block `moody` owns `a` since its first application, and now requests one more, "
    "parameter `z`"
)


@pytest.mark.parametrize(
    ("programs", "message"),
    [
        (
            (only_a, more),
            "block `moody` created `a` in its first application, and now requests parameter `b`",
        ),
        (
            (more, lambda x: oc.param("c", 1.0) * more(x)),
            "block `moody` created `b` in its first application, and now requests parameter `c`",
        ),
        (
            (only_a, lambda x: oc.param("b", 1.0) * only_a(x)),
            "block `moody` created `a` in its first application, and now requests parameter `b`",
        ),
        (
            (only_a, lambda x: only_a(x) * oc.param("z", 1.0)),
            ADDED_PARAMETER,
        ),
        ((only_a, none), "block `moody` did not use `a`, which its first application created"),
        ((inner, none), "block `moody` did not use `layer`, which its first application created"),
        (
            (only_a, inner),
            "block `moody` created `a` in its first application, and now requests block `layer`",
        ),
        (
            (inner, only_a),
            "block `moody` created `layer` in its first application, and now requests parameter `a`",
        ),
    ],
)
def test_a_repeated_application_with_different_parameters_is_an_error(programs: Any, message: str) -> None:
    block = changing(*programs)
    block(data(2))
    before = dict(block.params)
    with pytest.raises(oc.CodeError) as caught:
        block(data(2))
    assert str(caught.value) == message
    assert dict(block.params) == before


def test_a_failing_first_application_leaves_no_trace() -> None:
    def broken(x: oc.Tensor) -> oc.Tensor:
        w = oc.param("w", 1.0)
        layer(hidden=5)(x)
        raise RuntimeError(f"after making {w.label}")

    block = changing(broken, only_a)
    with pytest.raises(RuntimeError, match="after making w"):
        block(data(2))
    with pytest.raises(oc.CodeError, match="before it is first applied"):
        block.params  # noqa: B018
    block(data(2))
    assert list(block.params) == ["a"]


def test_a_failing_inner_application_leaves_the_outer_usable() -> None:
    def broken(x: oc.Tensor) -> oc.Tensor:
        oc.param("w", 1.0)
        raise RuntimeError

    failing = changing(broken, only_a)

    @oc.op
    def outer(x):
        return failing(x)

    net = outer()
    with pytest.raises(RuntimeError):
        net(data(2))
    net(data(2))
    assert list(net.params) == ["moody.a"]
    outside = oc.param()
    assert outside.path is None


def test_a_shape_error_inside_leaves_the_block_to_be_applied_to_something_else() -> None:
    block = layer(hidden=2)
    block(data(3, features=5))
    with pytest.raises(oc.ShapeError):
        str(block(data(3, features=6)).shape)
    assert block(data(4, features=5)).dims == (4, 2)


PICKLED = (
    "blocks cannot be copied or pickled: oc.save(path, ctx, block) saves their parameters and states, and "
    "oc.load(path, ctx, block) loads them into another block of the same function"
)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: layer(data(2)), "`layer(x, *, hidden)`: missing a required argument: 'hidden'"),
        (lambda: layer(), "`layer(x, *, hidden)`: missing a required argument: 'hidden'"),
        (lambda: layer(hiden=3), "`layer(x, *, hidden)`: got an unexpected keyword argument 'hiden'"),
        (lambda: layer(data(2), data(2), hidden=2), "`layer(x, *, hidden)`: too many positional arguments"),
        (lambda: oc.op(3), "oc.op decorates functions, not 3"),
        (
            lambda: copy.copy(layer(hidden=2)),
            PICKLED,
        ),
        (
            lambda: pickle.dumps(layer(hidden=2)),
            PICKLED,
        ),
    ],
)
def test_errors_for_wrong_arguments_show_the_signature(call: Callable[[], object], message: str) -> None:
    with pytest.raises(oc.CodeError) as caught:
        call()
    assert str(caught.value) == message


@pytest.mark.parametrize("inputs", [(), (1.0, 2.0)])
def test_errors_for_wrong_inputs_show_the_signature(inputs: Any) -> None:
    with pytest.raises(oc.CodeError, match="`layer"):
        layer(hidden=2)(*inputs)


def test_generators_and_coroutines_are_refused() -> None:
    def generates(x):
        yield x

    async def waits(x):
        return x

    async def both(x):
        yield x

    for function in (generates, waits, both):
        with pytest.raises(oc.CodeError) as caught:
            oc.op(function)
        assert str(caught.value) == f"`{function.__name__}` is a generator or a coroutine; oc.op takes plain functions"


def test_a_recorder_is_suspended_inside(listing: Any) -> None:
    total = oc.node("total", output=[2], batch=[], input=[])
    net = layer(hidden=2, label="net")
    with oc.cd("outer") as code:
        y = net(oc.tensor([1.0, 2.0], label="x"))
        y.forward()
        total += y
    assert net.params["w"].grad is not None  # and so may be trained elsewhere
    assert listing(code)[-1].strip() == "total_net_w[o0] =+ net_x[o0]    over o0<2"


# --- kinds of functions -----------------------------------------------------------------------------------------------


class Owner:
    width = 4

    @oc.op
    def layer(self, x):
        w = oc.param(o=[self.width])
        return w @ x

    @staticmethod
    @oc.op
    def doubled(x):
        return x * oc.param("two", 2.0)


def test_a_method_is_configured_and_applied_like_a_function() -> None:
    block = Owner().layer()
    assert isinstance(block, oc.Block)
    assert block(data(3)).dims == (3, 4)
    assert block(data(2)).params["w"] is block.params["w"]
    assert Owner().layer(data(3), label="y").label == "y_x"
    assert list(Owner.doubled(data(1)).params) == ["two"]


class Scaled:
    def __call__(self, x, *, by):
        return x * oc.param("s", by)


def scaled(x, *, by, power=1):
    return x * oc.param("s", by) ** power


@pytest.mark.parametrize(
    ("function", "name"),
    [(Scaled(), "Scaled"), (functools.partial(scaled, power=2), "scaled"), (oc.op(scaled), "scaled")],
)
def test_any_callable_is_accepted(function: Any, name: str) -> None:
    op = oc.op(function)
    assert list(op(by=2.0)(data(2)).params) == ["s"]
    assert op(data(2), by=2.0).label == f"{name}_x"


def test_a_function_without_a_signature_is_an_error() -> None:
    with pytest.raises(oc.CodeError, match="`max` has no signature"):
        oc.op(max)


def test_a_parameter_called_label_is_an_error() -> None:
    with pytest.raises(oc.CodeError, match="every oc.op function takes `label=`"):

        @oc.op
        def labelled(x, *, label=None):
            return x


@pytest.mark.parametrize("label", ["", 3])
def test_a_label_of_a_block_is_a_text(label: Any) -> None:
    with pytest.raises(oc.CodeError, match="must be a string, not"):
        layer(hidden=2, label=label)
    with pytest.raises(oc.CodeError, match="must be a string, not"):
        layer(hidden=2)(data(1), label=label)


def test_tensors_may_be_passed_by_keyword() -> None:
    y = layer(x=data(3, label="image"), hidden=2)
    assert isinstance(y, oc.Tensor)
    assert y.label == "layer_image"


@oc.op
def weighted_difference(x, y, *, rate=2.0):
    return oc.param("w", 3.0, o=[]) * (x - rate * y)


def test_a_block_takes_tensors_by_name() -> None:
    block = weighted_difference(rate=10.0)
    a, b = oc.tensor(1.0), oc.tensor(2.0)
    assert block(y=a, x=b).numpy() == block(b, y=a).numpy() == block(b, a).numpy() == -24.0


@pytest.mark.parametrize(
    ("inputs", "named", "message"),
    [
        ((1.0, 2.0), {"rate": 3.0}, "`rate` is no positional argument of `weighted_difference(x, y, *, rate=2.0)`"),
        ((1.0, 2.0), {"z": 3.0}, "`z` is no positional argument of `weighted_difference(x, y, *, rate=2.0)`"),
        ((1.0,), {"x": 3.0}, "`weighted_difference(x, y, *, rate=2.0)`: multiple values for argument 'x'"),
        ((), {"x": 3.0}, "`weighted_difference(x, y, *, rate=2.0)`: missing a required argument: 'y'"),
    ],
)
def test_unknown_keywords_of_a_block_are_errors(inputs: Any, named: Any, message: str) -> None:
    block = weighted_difference(label="scaled")
    with pytest.raises(oc.CodeError) as caught:
        block(*inputs, **named)
    assert str(caught.value).startswith(message)


def test_an_input_passed_through_keeps_the_name() -> None:
    same = oc.op(lambda x: x)
    x = data(1)
    assert same(x, label="other") is x
    assert same()(x, label="other").label == "x"


def test_a_block_shared_by_inner_blocks_has_a_single_path() -> None:
    shared = layer(hidden=5, label="shared")
    first, second = oc.op(lambda x: shared(x)), oc.op(lambda x: shared(x))
    net = oc.op(lambda x: second(first(x, label="first"), label="second"))()
    y = net(data(2))
    assert list(net.params) == ["first.shared.w", "first.shared.b"]
    assert list(y.params) == ["shared.w", "shared.b"]


def test_paths_that_dots_make_equal_are_numbered() -> None:
    @oc.op
    def net(x):
        return layer(hidden=5, label="a.b")(x) * oc.param("a.b.w", 1.0)

    block = net()
    y = block(data(2))
    assert list(block.params) == ["a.b.w", "a.b.b", "a.b.w_2"]
    assert list(y.params) == [f"block.{path}" for path in block.params]


def test_several_threads_make_parameters_once() -> None:
    @oc.op
    def slow(x):
        w = oc.param()
        time.sleep(0.01)
        return w @ x

    block, params = slow(), []
    threads = [threading.Thread(target=lambda: params.append(block(data(2)).params["w"])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(params) == 4
    assert set(params) == {block.params["w"]}


def test_a_recalled_parameter_must_agree() -> None:
    sizes, kinds = iter([2, 3]), iter(["float32", "float64"])
    block = oc.op(lambda x: oc.param("w", o=[next(sizes)]) @ x)()
    block(data(1))
    with pytest.raises(oc.ShapeError, match="`w` has the output sizes .2. since .* of its block, .* with .3."):
        block(data(1))
    block = oc.op(lambda x: oc.param("w", 1.0, dtype=next(kinds)) * x)()
    block(data(1))
    with pytest.raises(oc.DtypeError, match="`w` has type float32 .* is requested as float64"):
        block(data(1))
