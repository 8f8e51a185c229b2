"""The cell count of a broadcast row was taken for 1 before the row was solved."""

from ocannl.infer.capture import Capture

OPEN = ""


def replay(net):
    cells = Capture("v")
    row = net.add(net.x("2,1", "x"), net.x("1", "y"))
    copy = net.einsum("..v.. => ..v..", row, captures={"v": cells})
    assert (str(copy), cells.value) == ("2,1", 2)
