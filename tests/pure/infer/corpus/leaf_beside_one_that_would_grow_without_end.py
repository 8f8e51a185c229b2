"""A leaf that would grow without end does not grow; that makes another one, with the same use, too small."""

OPEN = "a leaf that a use of endless growth reaches does not grow either, though it could be as large as its use"


def replay(net):
    x, w = net.x("?", "x"), net.param("w", "?")
    rest = net.einsum("i, ...; i, ... => ...", x, x)
    total = net.add(w, x, rest)
    net.einsum("..., i => i, ...", x, i=3)
    assert net.shapes(total, x, w) == ["3", "3", "3"]
