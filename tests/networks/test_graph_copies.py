"""Copies of random networks: with inputs of the same shapes in place of all data, the code is the same."""

from __future__ import annotations

from random import Random

import pytest

import ocannl as oc
from ocannl import train

from .choices import Choices
from .compare import built
from .generate import generate


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_copies_have_the_same_code(first: int) -> None:
    for seed in range(first, first + 10):
        loss = built(generate(Choices(Random(seed))), "float32")[0]["loss"]
        g = oc.graph(loss)
        data = [node for node in g.values() if node.operation in ("input", "constant")]
        copy = g.feed(dict.fromkeys(data))
        for node in data:
            copy[node.name].tensor.with_label(node.tensor.label)
        assert list(copy) == list(g)
        assert str(train.grad_update(copy.outputs[0])) == str(train.grad_update(loss))
