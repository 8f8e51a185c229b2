"""Names are safe and unique, whatever users write."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocannl.ir.name_mangling import Namer, identifier

SAFE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@pytest.mark.parametrize(
    ("text", "name"),
    [("w", "w"), ("w.grad", "w_grad"), ("two words", "two_words"), ("3rd", "_3rd"), ("", "n"), ("...", "n"),
     ("naïve", "na_ve"), ("a" * 99, "a" * 64), ("x_", "x"), ("_x", "x"), ("a\nb; rm", "a_b_rm")],
)  # fmt: skip
def test_identifier(text: str, name: str) -> None:
    assert identifier(text) == name


@given(st.text())
def test_identifiers_are_safe(text: str) -> None:
    name = identifier(text)
    assert SAFE.fullmatch(name) and len(name) <= 65
    assert identifier(name) == name


@given(st.lists(st.one_of(st.sampled_from(["w", "w_2", "w_3", "w.2", ""]), st.text(max_size=3)), max_size=30))
def test_names_are_unique(texts: list[str]) -> None:
    namer = Namer(["w", "for"])
    names = [namer(t) for t in texts]
    assert len({*names, "w", "for"}) == len(names) + 2
    assert all(map(SAFE.fullmatch, names))


def test_names_count_up() -> None:
    namer = Namer(["x"])
    assert [namer("w"), namer("w"), namer("w"), namer("x"), namer("w_2")] == ["w", "w_2", "w_3", "x_2", "w_2_2"]


def test_long_names_with_numbers_are_identifiers_still() -> None:
    namer = Namer()
    names = [namer("x" * 300) for _ in range(1200)]
    assert len(set(names)) == 1200
    assert all(identifier(name) == name for name in names)
