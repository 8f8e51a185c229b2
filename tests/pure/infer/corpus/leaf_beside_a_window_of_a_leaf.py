"""A leaf that meets the positions of a window whose length was open had size 1, as did the window."""

OPEN = ""


def replay(net):
    x, kernel, leaf = net.x("9"), net.x("?", "kernel"), net.x("?", "leaf")
    net.add(leaf, net.einsum("o<+1+3*k; k => o", x, kernel))
    assert net.shapes(kernel, leaf) == ["1", "8"]
