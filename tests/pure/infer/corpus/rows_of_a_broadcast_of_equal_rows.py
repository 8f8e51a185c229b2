"""A broadcast of rows that an equality makes equally long was taken for a row that grows without end."""

from ocannl.infer.logic import COMPOSE_ACCUMULATE

OPEN = ""


def replay(net):
    outcomes = set()
    for is_first in (True, False):
        x, w = net.x("?->?", "x"), net.param("w", "?->3")
        y = net.relate(COMPOSE_ACCUMULATE, w, x, x)
        if is_first:
            head, tail = net.einsum("i, ...->... => ...->...", y), net.einsum("..., i->... => ...->...", y)
        else:
            tail, head = net.einsum("..., i->... => ...->...", y), net.einsum("i, ...->... => ...->...", y)
        net.relate(COMPOSE_ACCUMULATE, tail, y, head)
        outcomes.add(tuple(net.shapes(x, w)))
    assert outcomes == {("3,1->3", "3->3")}, outcomes
