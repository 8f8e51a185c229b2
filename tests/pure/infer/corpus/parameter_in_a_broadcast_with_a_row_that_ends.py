"""A parameter that meets a row without axes was taken for constrained if the row ended after the broadcast."""

OPEN = ""


def replay(net):
    for is_first in (True, False):
        w, x, scalar = net.param("w", "->?"), net.x("?", "x"), net.x("", "scalar")
        longer = net.einsum("... => ..., 2", w)
        if is_first:
            net.einsum("... => ...", scalar, result=x)
        total = net.add(longer, x)
        if not is_first:
            net.einsum("... => ...", scalar, result=x)
        net.mul(w, scalar)
        message = net.refuses("you forgot a hidden dimension", str, total)
        assert "give `w` output=[...]" in message
