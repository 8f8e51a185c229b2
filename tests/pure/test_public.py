"""What `import ocannl as oc` offers."""

from __future__ import annotations

import types
from typing import Any

import pytest

import ocannl as oc


def test_the_list_of_names_is_sorted_and_each_is_there() -> None:
    assert oc.__all__ == sorted(set(oc.__all__))
    for name in oc.__all__:
        assert not name.startswith("_")
        assert getattr(oc, name) is not None


def test_nothing_else_shows() -> None:
    assert set(dir(oc)) == {*oc.__all__, "__version__"}


@pytest.mark.parametrize("name", ["Context", "ShapeError", "Tensor", "float32", "not_", "param", "relu", "train"])
def test_what_everyone_uses_is_among_them(name: str) -> None:
    assert name in oc.__all__


def test_python_keeps_its_own_names() -> None:
    scope: dict[str, Any] = {}
    exec("from ocannl import *", scope)
    assert not {"max", "min"} & set(scope)
    assert isinstance(scope["train"], types.ModuleType)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        oc.nothing  # noqa: B018
