"""Documents with several insertion points, and escaping of user text."""

import pytest

from ocannl.codegen import Document, printable


def test_sections_stay_open():
    doc = Document()
    doc.line("a")
    head = doc.section()
    doc.line("d")
    inner = head.section()
    head.line("c")
    inner.line("b")
    doc.line()
    assert doc.text() == "a\nb\nc\nd\n\n"
    assert list(head.lines()) == ["b", "c"]


def test_an_empty_document_has_no_text():
    doc = Document()
    doc.section().section()
    assert doc.text() == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain words", "plain words"),
        ("  indented", "  indented"),
        ("a\nb\r\tc\0", "a\\x0ab\\x0d\\x09c\\x00"),
        ("é\u2028\N{GRINNING FACE}", "\\xe9\\u2028\\U0001f600"),
        ("\x7f\x1b[31m", "\\x7f\\x1b[31m"),
    ],
)
def test_printable_text_is_a_line_of_ascii(text, shown):
    assert printable(text) == shown
