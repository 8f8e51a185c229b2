"""Two leaves share a window of known reach: the sizes are ambiguous until either leaf is specified."""

OPEN = ""


def replay(net):
    def taps_of(rows):
        x = net.x(rows, "x")
        taps = net.add(x)
        net.einsum("2*o<+k; k => o", net.x("6", "signal"), taps, result=net.x("?", "y"))
        return x, taps

    assert net.shapes(*taps_of("4")) == ["4", "4"]
    net.refuses("give `y` and `x` all their axes", lambda: taps_of("?")[0].dims)
