"""The cells of a row that broadcasting makes were taken for 1 before the row was known."""

from ocannl.infer.capture import Capture

OPEN = "close_axes.computed_last: the number of cells must be decided last, as the whole of a sum or product is"


def replay(net):
    cells = Capture("v")
    row = net.add(net.x("2,1", "x"), net.x("1", "y"))
    copy = net.einsum("..v.. => ..v..", row, captures={"v": cells})
    assert (str(copy), cells.value) == ("2,1", 2)
