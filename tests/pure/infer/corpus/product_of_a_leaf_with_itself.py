"""A row ended first because an equality had not been solved yet, though it depends on a row that is stretched to it."""

from ocannl.infer.logic import COMPOSE_ACCUMULATE

OPEN = ""


def replay(net):
    for order in ("product head last lead", "last lead head product", "head product last lead"):
        w, x, results = net.param("w"), net.x("?->3", "x"), {}
        steps = {
            "product": lambda: net.relate(COMPOSE_ACCUMULATE, w, w, x),  # noqa: B023
            "head": lambda: net.einsum("i, ...->... => ...->...", x, i=3),  # noqa: B023
            "last": lambda: net.einsum("...->i, ... => ...->i, ...", w),  # noqa: B023
            "lead": lambda: net.einsum("i, j, ...->... => j, ...->...", results["last"], i=2, j=3),  # noqa: B023
        }
        for step in order.split():
            results[step] = steps[step]()
        assert net.shapes(w, x, results["product"]) == ["2,3,3->3,3", "3,3->3", "2,3,3->3,3"], order
