"""Parser of einsum specs: meaning of valid specs, error messages of invalid specs, and printing as the inverse."""

import contextlib
import string
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ocannl.base.errors import EinsumSyntaxError
from ocannl.infer import parse as reader
from ocannl.infer.parse import parse, parse_shape
from ocannl.infer.spec import (
    KINDS,
    AxisSpec,
    Concat,
    Fixed,
    Label,
    Margins,
    Merged,
    Padding,
    RowSpec,
    ShapeSpec,
    Spec,
    Wild,
    Window,
    axis_coefficients,
    axis_labels,
    ellipsis_var,
    print_shape,
    print_spec,
)

SAME, VALID, UNSTATED = Padding.SAME, Padding.VALID, Padding.UNSTATED


def row(*items: object) -> RowSpec:
    """A row from names, indices, axes, and at most one row variable, written `..v..` or `...kind`."""

    def axis(item: object) -> AxisSpec:
        match item:
            case "_": return Wild()
            case str(): return Label(item)
            case int(): return Fixed(item)
            case _: return item

    dotted = [n for n, item in enumerate(items) if isinstance(item, str) and item.startswith("..")]
    if not dotted:
        return RowSpec(trail=tuple(map(axis, items)))
    (n,) = dotted
    var = items[n] if items[n][2] == "." else items[n].strip(".")
    return RowSpec(tuple(map(axis, items[:n])), var, tuple(map(axis, items[n + 1 :])))


def out(*items: object) -> ShapeSpec:
    return ShapeSpec(output=row(*items))


def shape(batch: tuple = (), input: tuple = (), output: tuple = ()) -> ShapeSpec:
    return ShapeSpec(row(*batch), row(*input), row(*output))


B, I, O = "...batch", "...input", "...output"


# --- good specs ------------------------------------------------------------------------------

SHAPES = [
    ("EP-01", "abc", out("a", "b", "c")),
    ("EP-02", "a,b,c", out("a", "b", "c")),
    ("EP-02 blanks", "a, b, c", out("a", "b", "c")),
    ("EP-03", "a, b,", out("a", "b")),
    ("EP-04", "b|i->o", shape(("b",), ("i",), ("o",))),
    ("EP-05", "a|b->c", shape(("a",), ("b",), ("c",))),
    ("EP-05 words", "ab|bc->cd", shape(("a", "b"), ("b", "c"), ("c", "d"))),
    ("EP-08", "i->j", shape(input=("i",), output=("j",))),
    ("EP-09", "...|ij", shape(batch=(B,), output=("i", "j"))),
    ("EP-10", "j...", out("j", O)),
    ("EP-12", "...|...j->i", shape((B,), (I, "j"), ("i",))),
    ("EP-12 index", "...|i->1", shape((B,), ("i",), (1,))),
    ("EP-13", "2*o+k", out(Window(2, "o", kernel="k"))),
    ("EP-14", "2*o+3*k", out(Window(2, "o", dilation=3, kernel="k"))),
    ("EP-15", "o+k", out(Window(1, "o", kernel="k"))),
    ("EP-16", "a, 2*b+c", out("a", Window(2, "b", kernel="c"))),
    ("EP-17", "i, o+k, j", out("i", Window(1, "o", kernel="k"), "j")),
    ("EP-18", "a+bc", out(Window(1, "a", kernel="bc"))),
    ("EP-19", "i, j -> 2*i+j", shape(input=("i", "j"), output=(Window(2, "i", kernel="j"),))),
    (
        "EP-20",
        "batch|input->3*output+1*kernel,",
        shape(("batch",), ("input",), (Window(3, "output", dilation=1, kernel="kernel"),)),
    ),
    ("EP-21", "2*output", out(Window(2, "output"))),
    ("EP-21 letter", "3*i", out(Window(3, "i"))),
    ("EP-22", "o=+k", out(Window(1, "o", SAME, kernel="k"))),
    ("EP-22 stride", "2*o=+k", out(Window(2, "o", SAME, kernel="k"))),
    ("EP-23", "o<+k", out(Window(1, "o", VALID, kernel="k"))),
    ("EP-23 dilation", "o<+3*k", out(Window(1, "o", VALID, dilation=3, kernel="k"))),
    ("EP-23 stride", "2*o<+k", out(Window(2, "o", VALID, kernel="k"))),
    ("margins", "o[1,2]+k", out(Window(1, "o", Margins(1, 2), kernel="k"))),
    ("margins of a strided window", "2*o[ 3, -1 ]+2*k", out(Window(2, "o", Margins(3, -1), 0, 2, "k"))),
    ("EP-24", "o+k", out(Window(1, "o", UNSTATED, kernel="k"))),  # checked by inference
    ("EP-25 offset", "2*o+1+k", out(Window(2, "o", offset=1, kernel="k"))),
    ("EP-25 strided", "1*o+3", out(Window(1, "o", offset=3))),
    ("EP-25, overridden by decision 4", "o+3", out(Window(1, "o", offset=3))),
    ("EP-26, overridden by decision 4", "3^a", out(Concat((3, Label("a"))))),
    ("EP-26, overridden by decision 4, last", "a^3", out(Concat((Label("a"), 3)))),
    ("EP-29", "12", out(12)),
    ("EP-29 words", "12, a", out(12, "a")),
    ("EP-30", "i12", out("i", 12)),
    ("sizes", "32|28,28->10", shape((32,), (28, 28), (10,))),
    ("nothing", "", out()),
    ("empty rows", "|->", out()),
    ("blank", " \t\n", out()),
    ("blanks do not separate letters", "a b", out("a", "b")),
    ("blanks inside words", "a b1 2", out("a", "b", 1, 2)),
    ("two wildcards", "__", out("_", "_")),
    ("a wildcard among letters", "a_b", out("a", "_", "b")),
    ("an underscore in a word", "a_b,", out("a_b")),
    ("a wildcard among words", "ab, _, c", out("ab", "_", "c")),
    ("a word", "heads,", out("heads")),
    ("letters and digits in a word", "k2x, y", out("k2x", "y")),
    ("in the middle", "i..v..j", out("i", "..v..", "j")),
    ("commas around a row variable", "ab, ..v.., cd,", out("ab", "..v..", "cd")),
    ("no commas around a row variable", "ab ..v.. cd,", out("ab", "..v..", "cd")),
    ("a word as row variable", "a..rest..b", out("a", "..rest..", "b")),
    ("blanks in a row variable", ".. rest ..", out("..rest..")),
    ("`..output..` is the `...` of its row", "...|..output..", shape((B,), (), (O,))),
    ("the `...` of another row", "...|..batch..->", ShapeSpec(*[RowSpec(var=ellipsis_var("batch"))] * 2)),
    ("named coefficients", "stride*oh<+dil*wh", out(Window("stride", "oh", VALID, 0, "dil", "wh"))),
    ("everything in a window", "2*o<+1+3*k", out(Window(2, "o", VALID, 1, 3, "k"))),
    ("blanks in a window", " s * o = + 1 + d * k ", out(Window("s", "o", SAME, 1, "d", "k"))),
    ("a named stride alone", "s*o", out(Window("s", "o"))),
    ("a named stride with an offset", "s*o+2", out(Window("s", "o", offset=2))),
    ("sizes inside a concatenation", "a^3^b", out(Concat((Label("a"), 3, Label("b"))))),
    ("a concatenation among axes", "x^y,...", out(Concat((Label("x"), Label("y"))), O)),
    ("parentheses, letters", "(ab)c", out(Merged((Label("a"), Label("b"))), "c")),
    ("parentheses, blanks", "(a b)", out(Merged((Label("a"), Label("b"))))),
    ("parentheses, commas", "(a, bc)", out(Merged((Label("a"), Label("bc"))))),
    ("parentheses, words", "(rows cols), c", out(Merged((Label("rows"), Label("cols"))), "c")),
    ("parentheses, one word", "(ab), c", out(Merged((Label("a"), Label("b"))), "c")),
]


@pytest.mark.parametrize(("text", "want"), [case[1:] for case in SHAPES], ids=[case[0] for case in SHAPES])
def test_meaning_of_a_shape(text, want):
    assert parse_shape(text) == want
    assert parse(f"{text} => {text}") == Spec((want,), want)


AB = Merged((Label("a"), Label("b")))
SPECS = [
    ("EP-07", "ij;jk=>ik", (out("i", "j"), out("j", "k")), out("i", "k")),
    ("EP-33", "a, ..r..; ..r.., b => a, b", (out("a", "..r.."), out("..r..", "b")), out("a", "b")),
    ("EP-34: the count of operands is einsum's to check", "ij;jk=>im", (out("i", "j"), out("j", "k")), out("i", "m")),
    ("three operands", "i;j;k => ", (out("i"), out("j"), out("k")), out()),
    ("total", "...|...->... => 0", (shape((B,), (I,), (O,)),), out(0)),
    ("select", "2...|... => ...|...2", (shape((2, B), (), (O,)),), shape((B,), (), (O, 2))),
    ("rows move", "..v..|...ijk => ..v..kji", (shape(("..v..",), (), (O, *"ijk")),), out("..v..", *"kji")),
    ("batch to output", "2..v..|... => ..v..", (shape((2, "..v.."), (), (O,)),), out("..v..")),
    ("attention", "...s|hd; ...t|hd => ...s|t->h",
        (shape((B, "s"), (), ("h", "d")), shape((B, "t"), (), ("h", "d"))), shape((B, "s"), ("t",), ("h",))),
    ("blanks", " ... s | h d; ... t | h d => ... s | t -> h",
        (shape((B, "s"), (), ("h", "d")), shape((B, "t"), (), ("h", "d"))), shape((B, "s"), ("t",), ("h",))),
    ("split", "...|(a b) => ...|a,b", (shape((B,), (), (AB,)),), shape((B,), (), ("a", "b"))),
    ("split by letters", "(ab) => ab", (out(AB),), out("a", "b")),
    ("split, one word among words", "(ab) => a,b", (out(AB),), out("a", "b")),
    ("a scalar operand", "=> i", (out(),), out("i")),
    ("scalars", "; =>", (out(), out()), out()),
    ("join", "a; b => a^b", (out("a"), out("b")), out(Concat((Label("a"), Label("b"))))),
    ("pad", "x,... => 1^x,...", (out("x", O),), out(Concat((1, Label("x"))), O)),
    ("one `=` makes words", "ij=+k; k => ij", (out(Window(1, "ij", SAME, kernel="k")), out("k")), out("ij")),
    ("conv2d", "... | stride*oh+kh, stride*ow+kw, ..ic..; kh, kw, ..ic.. -> ..oc.. => ... | oh, ow, ..oc..",
        (shape((B,), (), (Window("stride", "oh", kernel="kh"), Window("stride", "ow", kernel="kw"), "..ic..")),
         shape((), ("kh", "kw", "..ic.."), ("..oc..",))), shape((B,), (), ("oh", "ow", "..oc.."))),
]


@pytest.mark.parametrize(("text", "operands", "result"), [case[1:] for case in SPECS], ids=[case[0] for case in SPECS])
def test_meaning_of_a_spec(text, operands, result):
    assert parse(text) == Spec(operands, result)
    assert parse(text).text == text


# EP-06 and EP-11: only these marks make names whole words; EP-35 and EP-36 are checks of einsum on `Spec.names`.
@pytest.mark.parametrize("mark", ["ab,", "2*ab", "ab+c", "ab*c", "ab^c", "ab<+c", "ab=+c", "(x, y),ab"])
def test_any_mark_selects_multi_character_mode(mark):
    assert "ab" in parse(f"{mark}; ... => 0").names()


@pytest.mark.parametrize("text", ["ab|ab->ab", "...ab", "ab;ab", "ab=>ab", "..ab..|_1ab", "(ab)ab"])
def test_remaining_marks_keep_single_character_mode(text):
    assert set(parse(text if "=>" in text else f"{text} =>").labels()) == {"a", "b"}


# --- refusals --------------------------------------------------------------------------------

REFUSALS = [
    ("no arrow", "ij;jk", """\
the spec has no `=>`
  ij;jk
       ^
  fix  write `operands => result`, as in `ij; jk => ik`"""),
    ("nothing", "", """\
the spec has no `=>`
\x20\x20
  ^
  fix  write `operands => result`, as in `ij; jk => ik`"""),
    ("two arrows", "=> =>", """\
after `=>` stands one result, and nothing else
  => =>
     ^"""),
    ("two results", "ij=>k;", """\
after `=>` stands one result, and nothing else
  ij=>k;
       ^"""),
    ("two input rows", "i->j->k => i", """\
a shape has at most one `->`
  i->j->k => i
      ^
  fix  write `batch | input -> output`"""),
    ("two batch rows", "a|b|c => a", """\
a shape has at most one `|`
  a|b|c => a
     ^
  fix  write `batch | input -> output`"""),
    ("rows out of order", "i; i->b|o => o", """\
`|` stands before `->`
  i; i->b|o => o
         ^
  fix  write `batch | input -> output`"""),
    ("two row variables", "..v.. ..w..|i => i", """\
a row has at most one row variable
  ..v.. ..w..|i => i
        ^"""),
    ("two ellipses", "...... => 0", """\
a row has at most one row variable
  ...... => 0
     ^"""),
    ("EP-27", "..v => v", """\
this row variable is not closed
  ..v => v
  ^
  fix  write `..v..`"""),
    ("EP-11: no trigger, and no spec", "...a..b => a", """\
this row variable is not closed
  ...a..b => a
      ^
  fix  write `..b..`"""),
    ("dots", "a.b => a", """\
dots are only valid in `...` and `..name..`
  a.b => a
   ^"""),
    ("one character for three dots", "i\u2026 => i", """\
this is one character, not three dots
  i\u2026 => i
   ^
  fix  write `...`"""),
    ("EP-28", "a#b => a", """\
`#` has no meaning in a spec
  a#b => a
   ^"""),
    ("a stray character", "i$ => i", """\
`$` has no meaning in a spec
  i$ => i
   ^"""),
    ("an unprintable character", "i\ud800 => i", """\
the character U+D800 has no meaning in a spec
  i  => i
   ^"""),
    ("a letter beyond ASCII", "\u00e9 => i", """\
names consist of ASCII letters, digits and `_`
  \u00e9 => i
  ^"""),
    ("a digit beyond ASCII", "\u0663 => i", """\
names consist of ASCII letters, digits and `_`
  \u0663 => i
  ^"""),
    ("lines and tabs", "i;\n\tj$ => k", """\
`$` has no meaning in a spec
  i;  j$ => k
       ^"""),
    ("EP-06: `&` is reserved", "a&b => a", """\
`&` is reserved
  a&b => a
   ^"""),
    ("a torn arrow", "i = > j", """\
`>` is only valid in `=>` and `->`
  i = > j
      ^
  fix  write `=>` and `->` without blanks inside"""),
    ("a subtraction", "o-1 => o", """\
`-` is only valid in `->`
  o-1 => o
   ^
  fix  write `->` between input and output axes; offsets are added, never subtracted"""),
    ("an arrow of another notation", "i \u2192 j => i", """\
this is not an arrow of the notation
  i \u2192 j => i
    ^
  fix  write `->`"""),
    ("EP-31", "..d.., d; d, e => ..d.., e", """\
`d` is used as an axis here and as a row variable before
  ..d.., d; d, e => ..d.., e
         ^
  fix  use two names"""),
    ("EP-32", "..v.., v => v, ..v..", """\
`v` is used as an axis here and as a row variable before
  ..v.., v => v, ..v..
         ^
  fix  use two names"""),
    ("a row variable after an axis", "(v w) => ..v..", """\
`v` is used as a row variable here and as an axis before
  (v w) => ..v..
           ^
  fix  use two names"""),
    ("a coefficient and an axis", "s*o, s => o", """\
`s` is used as an axis here and as a coefficient before
  s*o, s => o
       ^
  fix  use two names"""),
    ("an axis and a coefficient", "k*k => k", """\
`k` is used as an axis here and as a coefficient before
  k*k => k
    ^
  fix  use two names"""),
    ("a row variable and a coefficient", "..s.., s*o => o", """\
`s` is used as a coefficient here and as a row variable before
  ..s.., s*o => o
         ^
  fix  use two names"""),
    ("a missing comma", "i^j; k j => i", """\
a comma is missing before `j`
  i^j; k j => i
         ^
  fix  `^` in a spec makes names whole words; put commas between axes"""),
    ("a number before a word", "3x, y => x", """\
a comma is missing before `x`
  3x, y => x
   ^
  fix  `,` in a spec makes names whole words; put commas between axes"""),
    ("two commas", "a,,b => a", """\
`,` cannot stand here: one comma follows an axis or a row variable
  a,,b => a
    ^"""),
    ("a comma first", ", a => a", """\
`,` cannot stand here: one comma follows an axis or a row variable
  , a => a
  ^"""),
    ("a word that starts with `_`", "_x, y => x", """\
a name starts with a letter
  _x, y => x
  ^
  fix  write `_` by itself for an axis without a name"""),
    ("a wildcard in a window", "_+k => k", """\
`+` cannot stand here: it joins the terms of a window in this order: `stride*over + offset + dilation*kernel`
  _+k => k
   ^"""),
    ("an offset after the kernel", "o+k+1 => o", """\
`+` cannot stand here: it joins the terms of a window in this order: `stride*over + offset + dilation*kernel`
  o+k+1 => o
     ^"""),
    ("a padding that ends the window", "2*o<k => o", """\
`<` asks for `+` and the name of a kernel
  2*o<k => o
      ^
  fix  write `o<+kernel`"""),
    ("a padding without a kernel", "o=+3 => o", """\
`=` asks for `+` and the name of a kernel
  o=+3 => o
       ^
  fix  write `o=+kernel`"""),
    ("a padding of nothing", "<+k => k", """\
`<` cannot stand here: it follows the first term of a window, as in `o<+k`
  <+k => k
  ^"""),
    ("a padding of a number", "3=+k => k", """\
`=` cannot stand here: it follows the first term of a window, as in `o=+k`
  3=+k => k
   ^"""),
    ("a coefficient of nothing", "2* => o", """\
the name of an axis is missing before `=>`
  2* => o
     ^"""),
    ("a coefficient of a number", "2*3 => o", """\
the name of an axis is missing before `3`
  2*3 => o
    ^"""),
    ("a kernel that is missing at the end", "o => o+", """\
the name of an axis is missing before the end of the spec
  o => o+
         ^"""),
    ("a coefficient zero", "o+0*k => o", """\
a coefficient is at least 1
  o+0*k => o
    ^"""),
    ("a coefficient without a name", "o+_*k => o", """\
a coefficient is a number or a name
  o+_*k => o
    ^"""),
    ("a product of nothing", "*o => o", """\
`*` cannot stand here: it joins a coefficient and a name, as in `2*o`
  *o => o
  ^"""),
    ("a number without end", f"{'9' * 5000} => o", f"""\
a number has at most 18 digits
  {'9' * 5000} => o
  ^"""),
    ("a concatenation of sizes", "a, 3^4 => a", """\
a concatenation has at least one name
  a, 3^4 => a
     ^"""),
    ("a concatenation with a wildcard", "a^_ => a", """\
the name of an axis is missing before `_`
  a^_ => a
    ^"""),
    ("a concatenation in a window", "a+b^c => a", """\
`^` cannot stand here: it joins names and sizes, as in `a^b` or `3^a`
  a+b^c => a
     ^"""),
    ("nested parentheses", "((a b) c) => a", """\
parentheses do not nest
  ((a b) c) => a
  ^"""),
    ("an open parenthesis", "(a b => a", """\
this parenthesis is never closed
  (a b => a
  ^"""),
    ("a closed parenthesis", "a b) => a", """\
this parenthesis was never opened
  a b) => a
     ^"""),
    ("an index in parentheses", "(a 2) => a", """\
only names stand in parentheses, separated by blanks or commas
  (a 2) => a
     ^"""),
    ("empty parentheses", "() => a", """\
parentheses merge two or more axes
  () => a
  ^"""),
    ("one axis in parentheses", "a,(b1) => a", """\
parentheses merge two or more axes
  a,(b1) => a
    ^"""),
    ("words in parentheses, letters elsewhere", "(heads dim) => heads dim", """\
`heads` is several axes in a spec of single characters
  (heads dim) => heads dim
   ^
  fix  put a comma into the spec, for example at its end, to make names whole words"""),
]


@pytest.mark.parametrize(("text", "message"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS])
def test_refusal(text, message):
    for _ in range(2):  # errors are not cached
        with pytest.raises(EinsumSyntaxError) as refused:
            parse(text)
        assert str(refused.value) == message
    if text.isprintable():
        assert text in message


SHAPE_REFUSALS = [
    ("EP-32", "..x.., x", """\
`x` is used as an axis here and as a row variable before
  ..x.., x
         ^
  fix  use two names"""),
    ("a spec", "a=>b", """\
`=>` has no meaning in the spec of a single shape
  a=>b
   ^"""),
    ("two shapes", "a;b", """\
`;` has no meaning in the spec of a single shape
  a;b
   ^"""),
]


@pytest.mark.parametrize(("name", "text", "message"), SHAPE_REFUSALS)
def test_refusal_of_a_shape(name, text, message):
    with pytest.raises(EinsumSyntaxError) as refused:
        parse_shape(text)
    assert str(refused.value) == message


@pytest.mark.parametrize("read", [parse, parse_shape])
@pytest.mark.parametrize("text", [None, 3, b"i => i", ["i => i"], {"i": 2}], ids=repr)
def test_a_spec_is_a_string(read, text):
    with pytest.raises(EinsumSyntaxError) as refused:
        read(text)
    kind = type(text).__name__
    problem = f"a spec is a string such as `ij => ji`, not an object of type {kind}"
    assert str(refused.value).partition(": ")[0] == problem  # an int or a list is followed by a hint


def test_a_spec_has_a_limit():
    text = "i" * reader.MAX_CHARACTERS
    assert len(parse_shape(text).output.axes) == reader.MAX_CHARACTERS
    with pytest.raises(EinsumSyntaxError) as refused:
        parse_shape(text + "i")
    assert str(refused.value) == f"""\
a spec has at most 10000 characters, and this one has 10001
  {'i' * 60}...
  {' ' * 60}^"""


@pytest.mark.parametrize("piece", ["(", "(a b)", ";", "a^", "..", "..v..", "|", "a+", "2*", " ", "=>", "a(", "1*a,"])
def test_long_texts_take_no_long_time(piece):
    text = piece * (reader.MAX_CHARACTERS // len(piece))
    begin = time.perf_counter()
    with contextlib.suppress(EinsumSyntaxError):
        parse(text)
    assert time.perf_counter() - begin < 5


# --- names -----------------------------------------------------------------------------------


def test_names_come_in_order_of_first_appearance():
    spec = parse("... | s*oh<+d*kh, 3*ow, ..c..; kh, 2^q, ..c.., (x y) -> ..e.. => ...s2 | oh, _, ..e.., 3")
    assert spec.labels() == ("oh", "kh", "ow", "q", "x", "y", "s2")
    assert spec.row_vars() == ("...batch", "c", "e")
    assert spec.coefficients() == ("s", "d")
    assert spec.names() == ("oh", "kh", "ow", "q", "x", "y", "s2", "c", "e", "s", "d")


def test_a_spec_is_read_once():
    assert parse("ij => ji") is parse("ij => ji")
    assert parse_shape("b|i->o") is parse_shape("b|i->o")


# --- laws ------------------------------------------------------------------------------------

LABELS = st.sampled_from(["a", "b", "h", "kh", "ow", "a_1", "x2"]).map(Label)
NAMES = LABELS.map(lambda label: label.name)
COEFS = st.integers(1, 12) | st.sampled_from(["s", "dil", "stride_h"])
MARGINS = st.builds(Margins, st.integers(-3, 3), st.integers(-3, 3))
PARTS = st.lists(LABELS | st.integers(0, 12), min_size=1, max_size=3)
AXES = st.one_of(
    LABELS,
    st.builds(Fixed, st.integers(0, 10**18 - 1)),
    st.just(Wild()),
    st.builds(Window, COEFS, NAMES),
    st.builds(Window, COEFS, NAMES, offset=st.integers(0, 9)),
    st.builds(Window, COEFS, NAMES, st.sampled_from(Padding) | MARGINS, st.integers(0, 9), COEFS, NAMES),
    st.builds(lambda before, name, after: Concat((*before, name, *after)), PARTS, LABELS, PARTS),
    st.builds(lambda name, after: Concat((name, *after)), LABELS, PARTS),
    st.lists(LABELS, min_size=2, max_size=3).map(lambda parts: Merged(tuple(parts))),
)


def rows(kind):
    flank = st.lists(AXES, max_size=3).map(tuple)
    var = st.sampled_from(["v", "rest", ellipsis_var("batch"), ellipsis_var(kind)])
    return st.builds(RowSpec, trail=flank) | st.builds(RowSpec, flank, var, flank)


SHAPE_SPECS = st.builds(ShapeSpec, **{kind: rows(kind) for kind in KINDS})
EINSUMS = st.builds(Spec, st.lists(SHAPE_SPECS, min_size=1, max_size=3).map(tuple), SHAPE_SPECS)


@pytest.mark.slow
@given(EINSUMS)
def test_a_printed_spec_is_read_back(spec):
    assert parse(print_spec(spec)) == spec
    assert str(spec) == print_spec(spec)


@given(SHAPE_SPECS)
def test_a_printed_shape_is_read_back(spec):
    assert parse_shape(print_shape(spec)) == spec
    assert str(spec) == print_shape(spec)


@pytest.mark.parametrize(("text", "printed"), [
    ("ij;jk=>ik", "i, j; j, k => i, k"),
    ("i=>i", "i => i"),
    ("heads,=>heads,", "heads, => heads,"),
    ("...|(ab)=>...|a,b", "...|(a b) => ...|a, b"),
    ("(rows cols,)=>rows,cols", "(rows cols), => rows, cols"),
    ("b|..r..->o=>1*o + 0+1*k", "b|..r..->o => o+k"),
    ("1*o+3, 1*i => o", "o+3, 1*i => o"),
    ("=>", "=>"),
    ("; => 0", ";  => 0"),
])
def test_printed(text, printed):
    assert print_spec(parse(text)) == printed


@given(EINSUMS)
def test_loop_names_follow_the_axes(spec):
    axes = [axis for operand in (*spec.operands, spec.result) for _, row in operand.rows for axis in row.axes]
    assert set(spec.labels()) == {name for axis in axes for name in axis_labels(axis)}
    assert set(spec.coefficients()) == {name for axis in axes for name in axis_coefficients(axis)}
    assert len(set(spec.names())) == len(spec.names())


TOKENS = ["...", "..", "..v..", "->", "=>", "=>", "ab", "12", "(a b)", "2*", "<+", "=+"]
PIECES = st.lists(st.sampled_from([*"aijk_2, \n*+^<=|;()&.-", *TOKENS]), max_size=12).map("".join)
ANYTHING = st.text() | st.text(string.printable) | st.text(st.characters()) | PIECES


@given(ANYTHING)
@example("\x00")
@example("a\u0301$")
def test_any_text_is_parsed_or_refused_with_a_caret(text):
    for read in (parse, parse_shape):
        try:
            spec = read(text)
        except EinsumSyntaxError as refused:
            reason, line, caret, *fix = str(refused).split("\n")
            assert reason and len(line) == len(text) + 2 and len(fix) <= 1
            assert caret.strip() == "^"
            assert caret.index("^") <= 2 + 2 * len(text)
        else:
            assert read(str(spec)) == spec
