"""Invalid arguments of the training loop; its results are tested in tests/backend."""

import pytest

import ocannl as oc
from ocannl import train

N = oc.symbol("n", 0, 4)


@pytest.mark.parametrize(
    ("batches", "settings", "message"),
    [
        (N, {"epochs": 0}, "at least 1, not 0"),
        (N, {"epochs": True}, "at least 1, not True"),
        (N, {"epochs": 1.5}, "at least 1, not 1.5"),
        (3, {}, "a static symbol, or one mapping for each step, not 3"),
        (iter([{}]), {"epochs": 2}, "one epoch only"),
        ({}.items(), {"shuffle": 0}, "only a symbol or a list"),
    ],
)
def test_invalid_arguments_are_rejected(batches, settings, message):
    w = oc.param("w", [1.0])
    loss = (w * w).sum()
    with pytest.raises(oc.CodeError, match=message):
        train.fit(None, loss, train.sgd(loss, 0.1), batches, **settings)


def test_parameters_to_restore_are_those_of_a_loss_or_a_block():
    with pytest.raises(oc.ArgumentError, match="`restore`"):
        train.EarlyStopping(restore=[1.0])
