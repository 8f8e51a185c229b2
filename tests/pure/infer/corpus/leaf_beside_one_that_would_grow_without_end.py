"""A leaf with unbounded growth does not grow; a leaf that shares a use with it does."""

OPEN = ""


def replay(net):
    x, w = net.x("?", "x"), net.param("w", "?")
    contracted = net.einsum("i, ...; i, ... => ...", x, x)
    total = net.add(w, x, contracted)
    net.einsum("..., i => i, ...", x, i=3)
    assert net.shapes(total, x, w) == ["3", "3", "3"]
