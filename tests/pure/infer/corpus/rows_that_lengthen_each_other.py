"""Open input and output rows of one leaf that meet: they grew in some orders only."""

from ocannl.infer.logic import COMPOSE_ACCUMULATE

OPEN = ""


def replay(net):
    for order in ("square rest first product", "rest first square product"):
        x, results = net.x("?->?", "x"), {}
        steps = {
            "square": lambda: net.mul(x, x),  # noqa: B023
            "rest": lambda: net.einsum("|...->..., i => |...->...", x),  # noqa: B023
            "first": lambda: net.einsum("|i, j, ...->... => |j, ...->...", results["rest"], i=3),  # noqa: B023
            "product": lambda: net.mul(results["square"], results["rest"]),  # noqa: B023
        }
        for step in order.split():
            results[step] = steps[step]()
        assert str(x) == "3,3->3,3", order
    for order in ("rest product second", "rest second product"):
        x, results = net.x("?->?", "x"), {}
        steps = {
            "rest": lambda: net.einsum("|...->..., i => |...->...", x),  # noqa: B023
            "product": lambda: net.relate(COMPOSE_ACCUMULATE, results["rest"], x, x),  # noqa: B023
            "second": lambda: net.einsum("|i, j, ...->... => |j, ...->...", results["rest"]),  # noqa: B023
        }
        for step in order.split():
            results[step] = steps[step]()
        assert str(x) == "1,1->1,1", order
