"""Rows made equal before and after they were stretched to each other: only the latter counted as equally long."""

OPEN = ""


def replay(net):
    for order in ("sum write write lead fold", "lead sum write fold write", "sum lead write fold"):
        x, w, results = net.x("?", "x"), net.x("?", "w"), {}
        steps = {
            "sum": lambda: net.add(x, w),  # noqa: B023
            "write": lambda: net.einsum("..., i => ...", results["sum"], result=x, i=2),  # noqa: B023
            "lead": lambda: net.einsum("i, j, ... => j, i, ...", x),  # noqa: B023
            "fold": lambda: net.einsum("i, ...; i, ... => ...", results["lead"], results["lead"]),  # noqa: B023
        }
        for step in order.split():
            results[step] = steps[step]()
        assert net.shapes(x, w, results["sum"], results["fold"]) == ["2,2", "2,2,2", "2,2,2", "2"], order
