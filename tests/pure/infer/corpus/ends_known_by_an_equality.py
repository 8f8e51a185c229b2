"""A leading axis that only an undecided equality gives keeps a row from being stretched, in every order."""

from itertools import permutations

from ocannl.infer.logic import COMPOSE_ACCUMULATE
from ocannl.infer.shape import finish

OPEN = ""


def replay(net):
    for order in permutations(("product", "last", "lead")):
        x, y = net.x("?->?", "x"), net.x("?->3", "y")
        steps = {
            "product": lambda: net.relate(COMPOSE_ACCUMULATE, y, x, y),  # noqa: B023
            "last": lambda: net.einsum("...->i, ... => ...->...", x, i=3),  # noqa: B023
            "lead": lambda: net.einsum("i, ...->... => ...->...", y, i=1),  # noqa: B023
        }
        results = {step: steps[step]() for step in order}
        net.einsum("i, j, ...->... => j, ...->...", results["product"])
        message = net.refuses("grow without end", finish, x)
        assert "give `x` and `y` all their axes" in message or "give `y` and `x` all their axes" in message, order
