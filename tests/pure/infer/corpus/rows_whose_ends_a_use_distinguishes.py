"""The first axis of a row was laid over the last one, although a use of the latter has another size."""

from ocannl.infer.logic import COMPOSE_ACCUMULATE

OPEN = ""


def replay(net):
    outcomes = set()
    for is_first in (True, False):
        x, pair = net.x("?->?", "x"), net.x("2->1", "pair")
        if is_first:
            net.einsum("i, j, ...->... => j, ...->...", x, j=3)
        net.relate(COMPOSE_ACCUMULATE, x, pair, x)
        if not is_first:
            net.einsum("i, j, ...->... => j, ...->...", x, j=3)
        outcomes.add(str(x))
    assert outcomes == {"1,3,2->"}, outcomes
