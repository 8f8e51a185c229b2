"""A concatenation with a known part: its leaf was defaulted to 1 before the parts were sized."""

OPEN = ""


def replay(net):
    x = net.x("?", "x")
    net.einsum("a^b => a, b", x)
    y = net.einsum("f^e => f, e", x, f=4)
    net.refuses("give the size of a part by its name", lambda: (x.dims, y.dims))
