"""A leaf that meets a captured part of a known axis had size 1, since the unused part beside it was still open."""

from ocannl.infer.capture import Capture

OPEN = ""


def replay(net):
    whole, leaf, size = net.x("4", "whole"), net.x("?", "leaf"), Capture("y")
    part = net.einsum("x^y => y", whole, captures={"y": size})
    net.add(part, leaf)
    assert net.shapes(part, leaf) == ["4", "4"]
    assert size.value == 4
