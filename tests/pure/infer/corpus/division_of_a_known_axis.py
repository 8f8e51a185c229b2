"""A division into parts that a later operation sizes was refused if the size of the divided axis was known first."""

OPEN = ""


def replay(net):
    for is_first in (True, False):
        x = net.x("?", "x")
        if is_first:
            net.einsum("i => i", net.x("6", "six"), result=x)
        parts = net.einsum("(a b) => a, b", x)
        if not is_first:
            net.einsum("i => i", net.x("6", "six"), result=x)
        net.einsum("i, j; j => i", parts, net.x("3", "three"))
        assert net.shapes(x, parts) == ["6", "2,3"]

        x = net.x("?", "x")
        if is_first:
            net.einsum("i => i", net.x("6", "six"), result=x)
        cell = net.einsum("(a b) => 0", x)
        if not is_first:
            net.einsum("i => i", net.x("6", "six"), result=x)
        net.refuses(r"nothing says how `\(a b\)` divides output axis 1 of `six`, which is 6", str, cell)
