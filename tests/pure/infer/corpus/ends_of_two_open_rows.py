"""Axes at the ends of two open rows, one stretched to the other, that cannot meet: rows grew in some orders only."""

OPEN = ""


def replay(net):
    for order in ("sum first last", "sum last first", "last sum first"):
        x, w, results = net.x("?", "x"), net.x("?", "w"), {}
        steps = {
            "sum": lambda: net.add(w, w, x),  # noqa: B023
            "first": lambda: net.einsum("i, ... => i, ...", results["sum"], i=2),  # noqa: B023
            "last": lambda: net.einsum("..., i => ...", x, i=3),  # noqa: B023
        }
        for step in order.split():
            results[step] = steps[step]()
        assert net.shapes(x, w, results["sum"]) == ["2,3", "2,3", "2,3"], order
    for order in ("sum first last", "sum last first", "first sum last"):
        x, w, results = net.x("?", "x"), net.x("?", "w"), {}
        steps = {
            "sum": lambda: net.add(w, x),  # noqa: B023
            "first": lambda: net.einsum("i, ... => ...", x, i=3),  # noqa: B023
            "last": lambda: net.einsum("..., i => ..., 0", results["sum"], i=1),  # noqa: B023
        }
        for step in order.split():
            results[step] = steps[step]()
        assert net.shapes(x, w, results["sum"]) == ["3,1", "3,1", "3,1"], order
