"""The code of a training step, as text."""

import pytest

import ocannl as oc
from ocannl import train
from ocannl.ir.printer import print_comp


def text(code):
    return print_comp(code.elaborate().comp)


@pytest.fixture
def loss():
    oc.reset_ids()
    w = oc.param("w", [3.0, 4.0])
    return (w * oc.tensor([1.0, 2.0], label="x")).sum().with_label("loss")


def test_gradients_are_zeroed_seeded_with_one_and_propagated(loss):
    assert text(train.grad_update(loss)).splitlines() == [
        "# loss grad update",
        "  mul[o0] =: w[o0] * x[o0]    over o0<2",
        "  loss =:+ mul[o0]    over o0<2",
        "  w.grad[i0] =: 0    over i0<2",
        "  mul.grad[i0] =: 0    over i0<2",
        "  loss.grad =: 0",
        "  loss.grad =: 1",
        "  mul.grad[o0] =+ loss.grad    over o0<2",
        "  w.grad[o0] =+ mul.grad[o0] * x[o0]    over o0<2",
    ]


def test_plain_sgd_is_one_assignment(loss):
    assert text(train.sgd(loss, 0.5)).splitlines() == [
        "# loss sgd update",
        "  # sgd_one",
        "    w[o0] =- 0.5 * w.grad[o0]    over o0<2",
    ]


def test_momentum_stores_a_velocity_for_each_parameter(loss):
    lines = text(train.sgd(loss, 0.5, momentum=0.9))
    assert "sgd_momentum_w[o0] =:" in lines
    assert "w[o0] =- 0.5 * sgd_momentum_w[o0]" in lines


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: oc.tensor([1.0], label="x") * 2, "has no gradient"),
        (lambda: 3.0, "3.0 has no gradient"),
    ],
)
def test_loss_without_parameters_is_rejected(make, message):
    with pytest.raises(oc.CodeError, match=message):
        train.grad_update(make())


@pytest.mark.parametrize("update", [train.sgd, train.adam, train.adamw])
def test_parameters_without_a_gradient_are_not_updated(update):
    w = oc.param("w", [3.0, 4.0])
    with oc.no_grad():
        target = 2 * oc.param("v", [1.0, 2.0])
    loss = ((w - target) ** 2).sum().with_label("loss")
    assert (list(loss.params), list(loss.all_params)) == (["w"], ["w", "v"])
    lines = text(update(loss, 0.5)).splitlines()
    assert any(line.lstrip().startswith("w[o0] =") for line in lines)
    assert not any(line.lstrip().startswith("v[o0] =") for line in lines)
