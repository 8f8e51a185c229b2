"""Unbounded growth stopped just below the maximum rank, so that a leaf grew to that rank."""

OPEN = ""


def replay(net):
    t0, t1, t2, t3, t4 = net.param("t0", "?"), net.x("?"), net.param("t2", "?"), net.x("?", "t3"), net.x("?", "t4")
    net.einsum("..., i; ..., i => ...", t1, t2, result=t3)
    net.einsum("..., i, j => ..., j, i", t1, result=t2)
    net.add(t4, result=t3)
    net.add(t0, t3, result=t2)
    net.add(t4, t0, result=t4)
    net.refuses("hidden dimension", lambda: t0.dims)
