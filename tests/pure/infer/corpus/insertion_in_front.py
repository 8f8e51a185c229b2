"""Axes written in front of and behind a row of inferred length: broadcasting inserts in front of either."""

OPEN = ""


def replay(net):
    for swapped in (False, True):
        x, y = net.x("?", "x"), net.x("3,2,2", "y")
        says = [("..., i => i, ...", {"i": 3}), ("i, ... => i, ...", {})]
        results = {spec: net.einsum(spec, x, **sizes) for spec, sizes in (says[::-1] if swapped else says)}
        behind, ahead = (results[spec] for spec, _ in says)
        both = net.add(behind, y)
        assert net.shapes(x, behind, ahead, both) == ["2,2,3", "3,2,2", "2,2,3", "3,2,2"]
