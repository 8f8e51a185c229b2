"""Whether a parameter that receives a sum of itself has evidence for its size 1 depended on the order."""

OPEN = ""


def replay(net):
    outcomes = set()
    for is_first in (True, False):
        a, b, c = net.param("a"), net.param("b"), net.param("c")
        total, rows = net.add(b, a, b), net.einsum("i, j; j => i", b, c)
        if is_first:
            net.add(total, rows, result=a)
        net.einsum("i, j; i, j => i", total, a, i=1)
        if not is_first:
            net.add(total, rows, result=a)
        outcomes.add(tuple(net.shapes(a, b, c)))
    assert outcomes == {("1,1", "1,1", "1")}, outcomes
