"""Interrupts end in KeyboardInterrupt: at any line while code is loaded, and at the start of a compiler's output.

A cache that treats OSError as damaged code would otherwise compile again instead of ending the program.
"""

import subprocess
import sys
import tempfile
from itertools import count

import pytest

from ocannl_backend_c import shared_library
from ocannl_backend_c.toolchain import build, run, toolchain


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # Python closes files that `with` has not entered
def test_an_interrupt_at_any_line_of_loading_is_raised(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = build(["int f(void) { return 1; }"], toolchain())
    for number in count(1):
        try:
            lines = interrupted_at_line(lambda: shared_library.load(code), number)
        except KeyboardInterrupt:
            continue
        assert lines < number, "the interrupt was swallowed"
        break
    assert number > 20


def test_an_interrupt_before_the_first_output_is_raised(tmp_path, monkeypatch):
    """`communicate` cannot be called twice if the first call was interrupted at its start."""
    communicate, interrupts = subprocess.Popen._communicate, [KeyboardInterrupt]

    def interrupted(self, *args):
        if interrupts:
            raise interrupts.pop()
        return communicate(self, *args)

    monkeypatch.setattr(subprocess.Popen, "_communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(["sleep", "60"], tmp_path)
    assert run(["true"], tmp_path) == (0, b"", b"")


def interrupted_at_line(call, number):
    """Raises KeyboardInterrupt at the line with a number in the order of execution; returns the number of lines."""
    lines = 0

    def trace(_frame, event, _argument):
        nonlocal lines
        if event == "line":
            lines += 1
            if lines == number:
                raise KeyboardInterrupt
        return trace

    tracer = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(tracer)
    return lines
