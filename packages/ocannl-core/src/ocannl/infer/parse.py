"""Scanner and recursive-descent parser (the grammar is not recursive): text of a generalized einsum spec -> `Spec`.

    spec     shape { ";" shape } "=>" shape
    shape    [ row "|" ] [ row "->" ] row                  a row may be empty
    row      axes [ rowvar axes ]
    axes     [ axis { "," axis } [ "," ] ]                 next to a row variable commas may be left out
    rowvar   "..." | ".." NAME ".."                        `..batch..` is the `...` of the batch row, and so on
    axis     NAME | INT | "_" | window | concat | group
    window   term [ pad ] "+" [ INT "+" ] term             over, offset, kernel
           | term "+" INT | coef "*" NAME                  strided, without a kernel
    term     [ coef "*" ] NAME
    coef     INT | NAME
    pad      "=" | "<" | "[" ["-"] INT "," ["-"] INT "]"
    concat   part "^" part { "^" part }                    at least one of them a name
    part     NAME | INT                                    a number is a size
    group    "(" NAME { [ "," ] NAME } ")"                 two or more names

The scanner has two modes. A spec that contains any of `, * + ^ & < [`, or an `=` outside of `=>`, is scanned in
*multi-character* mode: names are identifiers, and commas separate axes. In *single-character* mode every letter, every
`_` and every run of digits is a separate axis; blanks are ignored. Names of row variables are always identifiers.

Parentheses do not select a mode. Inside parentheses blanks or commas separate names. A single word is split into
letters: `(ab)` is `(a b)` in both modes. Several words with more than one letter, `(rows cols)`, are rejected in
single-character mode, where names outside the parentheses could not refer to them.

A name is a label, a row variable or a coefficient, consistently throughout a spec.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple, NoReturn

from ocannl.base.errors import EinsumSyntaxError
from ocannl.infer.spec import (
    KINDS,
    AxisSpec,
    Coef,
    Concat,
    Fixed,
    Kind,
    Label,
    Margins,
    Merged,
    Padding,
    RowSpec,
    ShapeSpec,
    Spec,
    Wild,
    Window,
    ellipsis_var,
)

MAX_CHARACTERS = 10_000
MAX_DIGITS = 18  # always fits a 64-bit index


def parse(text: str) -> Spec:
    """Parses `text` of the form `operand; operand => result`.

    Raises: EinsumSyntaxError, with a caret under the mistake.
    """
    return _parse(_checked(text))


def parse_shape(text: str) -> ShapeSpec:
    """Parses `text` of the form `batch | input -> output`; a number (`Fixed`) is the size of an axis.

    Raises: EinsumSyntaxError, with a caret under the mistake.
    """
    return _parse_shape(_checked(text))


@lru_cache(maxsize=1024)
def _parse(text: str) -> Spec:
    return _SpecReader(text).spec()


@lru_cache(maxsize=1024)
def _parse_shape(text: str) -> ShapeSpec:
    return _SpecReader(text).single_shape()


ANSWERS: dict[type, str] = {
    list: ': operands come after the spec, as in oc.concat("a; b => a^b", x, y)',
    tuple: ": axes have names, as in `32|784->128` for a shape, or `...|a,b => ...|a` for the axes that stay",
    int: ": axes have names, as in `...|a,b => ...|a`, which removes `b`",
}
"""What to write instead of a spec, by the type of what was given."""


def _checked(text: object) -> str:
    if not isinstance(text, str):
        problem = f"a spec is a string such as `ij => ji`, not an object of type {type(text).__name__}"
        answers = (answer for kinds, answer in ANSWERS.items() if isinstance(text, kinds))
        raise EinsumSyntaxError(problem + next(answers, ""))
    if len(text) > MAX_CHARACTERS:
        _refuse(f"a spec has at most {MAX_CHARACTERS} characters, and this one has {len(text)}", text[:60] + "...", 60)
    return text


def _refuse(reason: str, text: str, at: int, fix: str = "") -> NoReturn:
    """Raises an error with the text on one line, unprintable characters replaced by blanks, and a caret under `at`."""
    shown = f"{reason}\n  {printable(text)}\n  {' ' * at}^"
    raise EinsumSyntaxError(f"{shown}\n  fix  {fix}" if fix else shown)


def printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


# --- scanner ---------------------------------------------------------------------------------

NAME = r"[A-Za-z][A-Za-z0-9_]*"
MULTI_CHARACTER = re.compile(r"[,*+^&<[]|=(?!>)")


def _tokens(name: str, wild: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?P<name>{name}) | (?P<int>[0-9]+) | (?P<wild>{wild})"
        rf"| (?P<rowvar>\.\.\. | \.\.\s*{NAME}\s*\.\.)"
        r"| (?P<group>\([^()]*\))"
        r"| (?P<margins>\[[^][]*\])"
        r"| (?P<mark>=>|->|[|;,*+^<=])"
        r"| (?P<blank>\s+)",
        re.VERBOSE,
    )


SINGLE_TOKENS = _tokens("[A-Za-z]", "_")
MULTI_TOKENS = _tokens(NAME, "_(?![A-Za-z0-9_])")


class _Token(NamedTuple):
    kind: str  # a group of the patterns above, or "end"
    text: str
    at: int


def _scan(text: str, pattern: re.Pattern[str]) -> tuple[_Token, ...]:
    tokens, at = [], 0
    while at < len(text):
        if (match := pattern.match(text, at)) is None:
            _refuse_character(text, at)
        if match.lastgroup != "blank":
            tokens.append(_Token(str(match.lastgroup), match.group(), at))
        at = match.end()
    return (*tokens, _Token("end", "", at))


CHARACTER_ERRORS = {  # character: reason, fix
    "&": ("`&` is reserved", ""),
    "-": ("`-` is only valid in `->`", "write `->` between input and output axes; offsets are added, never subtracted"),
    ">": ("`>` is only valid in `=>` and `->`", "write `=>` and `->` without blanks inside"),
    "_": ("a name starts with a letter", "write `_` by itself for an axis without a name"),
    ")": ("this parenthesis was never opened", ""),
    "[": ("this bracket is never closed", "write `[before,after]` after the first term of a window, as in `o[1,1]+k`"),
    "]": ("this bracket was never opened", ""),
    ".": ("dots are only valid in `...` and `..name..`", ""),
    "\u2026": ("this is one character, not three dots", "write `...`"),
    "\u2192": ("this is not an arrow of the notation", "write `->`"),
    "\u21d2": ("this is not an arrow of the notation", "write `=>`"),
}


def _refuse_character(text: str, at: int) -> NoReturn:
    char = text[at]
    if opened := re.compile(rf"\.\.\s*({NAME})").match(text, at):
        _refuse("this row variable is not closed", text, at, f"write `..{opened[1]}..`")
    if char == "(":
        nested = re.compile(r"[^()]*\(").match(text, at + 1)
        _refuse("parentheses do not nest" if nested else "this parenthesis is never closed", text, at)
    if char in CHARACTER_ERRORS:
        reason, fix = CHARACTER_ERRORS[char]
        _refuse(reason, text, at, fix)
    if char.isalnum():
        _refuse("names consist of ASCII letters, digits and `_`", text, at)
    shown = f"`{char}`" if char.isprintable() else f"the character U+{ord(char):04X}"
    _refuse(f"{shown} has no meaning in a spec", text, at)


# --- parser ----------------------------------------------------------------------------------

PADDINGS = {"=": Padding.SAME, "<": Padding.VALID}
MARK_USAGE = {  # usage of marks that follow no axis
    ",": "one comma follows an axis or a row variable",
    "*": "it joins a coefficient and a name, as in `2*o`",
    "+": "it joins the terms of a window in this order: `stride*over + offset + dilation*kernel`",
    "^": "it joins names and sizes, as in `a^b` or `3^a`",
    "<": "it follows the first term of a window, as in `o<+k`",
    "=": "it follows the first term of a window, as in `o=+k`",
}


class _SpecReader:
    """Parser state: position in the tokens, and the role of each name used so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.trigger = MULTI_CHARACTER.search(text)  # selects multi-character mode
        self.tokens = _scan(text, MULTI_TOKENS if self.trigger else SINGLE_TOKENS)
        self.position = 0
        self.uses: dict[str, str] = {}

    @property
    def token(self) -> _Token:
        return self.tokens[self.position]

    def refuse(self, reason: str, token: _Token, fix: str = "") -> NoReturn:
        _refuse(reason, self.text, token.at, fix)

    def next(self) -> _Token:
        self.position += 1
        return self.tokens[self.position - 1]

    def accept(self, *marks: str) -> str:
        """Consumes and returns the current token if it is one of the marks, else returns an empty string."""
        return self.next().text if self.token.text in marks else ""

    def followed_by(self, *marks: str) -> bool:
        return self.token.kind != "end" and self.tokens[self.position + 1].text in marks

    def followed_by_margins(self) -> bool:
        return self.token.kind != "end" and self.tokens[self.position + 1].kind == "margins"

    def use(self, name: str, role: str, token: _Token) -> str:
        if (before := self.uses.setdefault(name, role)) != role:
            self.refuse(f"`{name}` is used as {role} here and as {before} before", token, "use two names")
        return name

    def spec(self) -> Spec:
        operands = [self.shape()]
        while self.accept(";"):
            operands.append(self.shape())
        if not self.accept("=>"):
            self.refuse("the spec has no `=>`", self.token, "write `operands => result`, as in `ij; jk => ik`")
        result = self.shape()
        if self.token.kind != "end":
            self.refuse("after `=>` stands one result, and nothing else", self.token)
        return Spec(tuple(operands), result, self.text)

    def single_shape(self) -> ShapeSpec:
        shape = self.shape()
        if self.token.kind != "end":
            self.refuse(f"`{self.token.text}` has no meaning in the spec of a single shape", self.token)
        return shape

    def shape(self) -> ShapeSpec:
        rows: dict[Kind, RowSpec] = {}
        marks = self.marks_of_shape()
        if "|" in marks:
            rows["batch"] = self.row("batch")
            self.next()
        if "->" in marks:
            rows["input"] = self.row("input")
            self.next()
        return ShapeSpec(**rows, output=self.row("output"))

    def marks_of_shape(self) -> list[str]:
        """Looks ahead for `|` and `->` in this shape; the meaning of `...` depends on them."""
        marks: list[str] = []
        at = self.position
        while (token := self.tokens[at]).kind != "end" and token.text not in (";", "=>"):
            if token.text in marks:
                self.refuse(f"a shape has at most one `{token.text}`", token, "write `batch | input -> output`")
            if token.text == "|" and marks:
                self.refuse("`|` stands before `->`", token, "write `batch | input -> output`")
            if token.text in ("|", "->"):
                marks.append(token.text)
            at += 1
        return marks

    def row(self, kind: Kind) -> RowSpec:
        lead: list[AxisSpec] = []
        trail: list[AxisSpec] = []
        var: str | None = None
        separated = True
        while True:
            token = self.token
            match token.kind:
                case "rowvar":
                    if var is not None:
                        self.refuse("a row has at most one row variable", token)
                    var, separated = self.row_var(kind), True
                case "name" | "int" | "wild" | "group":
                    if not separated and self.trigger:
                        fix = f"`{self.trigger.group()}` in a spec makes names whole words; put commas between axes"
                        self.refuse(f"a comma is missing before `{token.text}`", token, fix)
                    (lead if var is None else trail).append(self.axis())
                    separated = False
                case "mark" if token.text in MARK_USAGE:
                    self.refuse(f"`{token.text}` cannot stand here: {MARK_USAGE[token.text]}", token)
                case _:
                    return RowSpec(tuple(lead), var, tuple(trail)) if var else RowSpec(trail=tuple(lead))
            if self.accept(","):
                separated = True

    def row_var(self, kind: Kind) -> str:
        token = self.next()
        name = token.text.strip(".").strip()
        ellipsis_kind = next((row for row in KINDS if row == name), None if name else kind)
        return ellipsis_var(ellipsis_kind) if ellipsis_kind else self.use(name, "a row variable", token)

    def axis(self) -> AxisSpec:
        kind = self.token.kind
        if kind == "group":
            return self.group()
        if kind == "wild":
            self.next()
            return Wild()
        if self.followed_by("^"):
            return self.concat()
        is_term = kind == "name" and (self.followed_by("+", *PADDINGS) or self.followed_by_margins())
        if self.followed_by("*") or is_term:
            return self.window()
        return Fixed(self.number()) if kind == "int" else Label(self.label())

    def window(self) -> Window:
        stride, over = self.term()
        margins = self.margins()
        mark = margins.value if margins else self.accept(*PADDINGS)
        more, offset = self.accept("+"), 0
        if more and self.token.kind == "int" and not self.followed_by("*"):
            offset, more = self.number(), self.accept("+")
        if more:
            dilation, kernel = self.term()
            return Window(stride, over, margins or PADDINGS.get(mark, Padding.UNSTATED), offset, dilation, kernel)
        if mark:
            self.refuse(f"`{mark}` asks for `+` and the name of a kernel", self.token, f"write `{over}{mark}+kernel`")
        return Window(stride, over, offset=offset)

    def margins(self) -> Margins | None:
        """The margins of a window, `[before,after]`, if they are next."""
        if self.token.kind != "margins":
            return None
        token = self.next()
        match = re.fullmatch(r"\[\s*(-?[0-9]+)\s*,\s*(-?[0-9]+)\s*\]", token.text)
        if match is None or max(map(len, match.groups())) > MAX_DIGITS:
            self.refuse("margins are two numbers of cells, before and after the axis", token, "write `o[1,1]+k`")
        return Margins(int(match[1]), int(match[2]))

    def term(self) -> tuple[Coef, str]:
        if not self.followed_by("*"):
            return 1, self.label()
        coef = self.coef()
        self.next()
        return coef, self.label()

    def coef(self) -> Coef:
        token = self.token
        match token.kind:
            case "name": return self.use(self.next().text, "a coefficient", token)
            case "int": return self.number() or self.refuse("a coefficient is at least 1", token)
            case _: self.refuse("a coefficient is a number or a name", token)

    def concat(self) -> Concat:
        first = self.token
        parts = [self.part()]
        while self.accept("^"):
            parts.append(self.part())
        if all(isinstance(part, int) for part in parts):
            self.refuse("a concatenation has at least one name", first)
        return Concat(tuple(parts))

    def part(self) -> Label | int:
        return self.number() if self.token.kind == "int" else Label(self.label())

    def group(self) -> Merged:
        token = self.next()
        names = [_Token("name", m.group(), token.at + m.start()) for m in re.finditer(r"[^\s,()]+", token.text)]
        if len(names) == 1 and re.fullmatch("[A-Za-z]+", names[0].text):
            names = [_Token("name", letter, names[0].at + n) for n, letter in enumerate(names[0].text)]
        for name in names:
            if not re.fullmatch(NAME, name.text):
                self.refuse("only names stand in parentheses, separated by blanks or commas", name)
        if len(names) < 2:
            self.refuse("parentheses merge two or more axes", token)
        for name in names:
            if len(name.text) > 1 and not self.trigger:
                fix = "put a comma into the spec, for example at its end, to make names whole words"
                self.refuse(f"`{name.text}` is several axes in a spec of single characters", name, fix)
        return Merged(tuple(Label(self.use(name.text, "an axis", name)) for name in names))

    def label(self) -> str:
        token = self.next()
        if token.kind != "name":
            actual = f"`{token.text}`" if token.text else "the end of the spec"
            self.refuse(f"the name of an axis is missing before {actual}", token)
        return self.use(token.text, "an axis", token)

    def number(self) -> int:
        token = self.next()
        if len(token.text) > MAX_DIGITS:
            self.refuse(f"a number has at most {MAX_DIGITS} digits", token)
        return int(token.text)
