"""Specs that write axes in front of and behind a row of inferred length, which broadcasting stretches as well."""

OPEN = ""


def replay(net):
    for swapped in (False, True):
        x, y = net.x("?", "x"), net.x("2,2,3", "y")
        says = [("..., i => i, ...", {"i": 3}), ("i, ... => i, ...", {})]
        made = {spec: net.einsum(spec, x, **sizes) for spec, sizes in (says[::-1] if swapped else says)}
        ends, front = (made[spec] for spec, _ in says)
        both = net.add(ends, y)
        assert net.shapes(x, ends, front, both) == ["2,2,3,3", "3,2,2,3", "2,2,3,3", "3,2,2,3"]
