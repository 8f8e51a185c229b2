"""The positions of a window without a mark, which the left side should size, became 1 by the default of a use."""

OPEN = ""


def replay(net):
    x, kernel = net.x("?"), net.x("?", "kernel")
    net.einsum("o+k; k => o", x, kernel, result=x)
    net.einsum("i+1 => i", net.einsum("i => 2*i", x))
    net.refuses("does not say how large `o` is", str, x)
    read = net.x("?", "read")  # an index sizes the left side
    net.einsum("o+k; k => o", read, net.x("1", "one"), result=read)
    net.einsum("3 => ", read)
    assert net.shapes(read) == ["4"]
