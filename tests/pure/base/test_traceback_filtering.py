"""The traceback of a refusal ends at the user's line; that of a defect keeps every frame."""

from __future__ import annotations

import traceback

import pytest

import ocannl as oc
from ocannl.base.errors import OcannlError, VerifyError
from ocannl.base.traceback_filtering import public, public_class


def model(x):
    w = oc.param(i=[5], o=[3])
    return w @ x


def by_a_block(x):
    return oc.op(model)(x)


def by_asking_for_sizes(x):
    return oc.einsum("i => i", oc.param("v")).dims, x


def by_a_checker(x):
    return oc.shape_of(model, "4"), x


def by_code(x):
    c = oc.node("c", output=[3])
    with oc.cd("store"):
        c[...] = x * 2.0


def by_a_composite(x):
    return oc.stack([x, oc.placeholder("y", o=[5])])


def by_a_name(x):
    return oc.Context("nobody"), x


def frames(error):
    """File and function of each entry, the one of the test left out."""
    return [(f.filename.rsplit("/", 1)[-1], f.name) for f in traceback.extract_tb(error.__traceback__)[1:]]


@pytest.mark.parametrize(
    ("program", "lines"),
    [
        (model, ["model"]),
        (by_a_block, ["by_a_block", "model"]),
        (by_asking_for_sizes, ["by_asking_for_sizes"]),
        (by_a_checker, ["by_a_checker", "model"]),
        (by_code, ["by_code"]),
        (by_a_composite, ["by_a_composite"]),
        (by_a_name, ["by_a_name"]),
    ],
)
def test_traceback_contains_user_frames_only(program, lines):
    with pytest.raises(oc.OcannlError) as caught:
        program(oc.placeholder("x", o=[4]))
    entries = frames(caught.value)
    assert [name for file, name in entries if file == "test_traceback_filtering.py"] == lines
    assert {file for file, _ in entries} == {"test_traceback_filtering.py"}
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_full_traceback_setting():
    with oc.settings(traceback="full"), pytest.raises(oc.ShapeError) as caught:
        model(oc.placeholder("x", o=[4]))
    assert ("transaction.py", "transaction") in frames(caught.value)


def test_foreign_error_keeps_all_frames():
    scope = {"__name__": "ocannl.pretended"}
    exec("def inner(): raise ZeroDivisionError('x')\ndef outer(): inner()", scope)
    with pytest.raises(ZeroDivisionError) as caught:
        public(scope["outer"])()
    assert [name for _, name in frames(caught.value)] == ["call", "outer", "inner"]


def test_error_of_a_pass_drops_framework_frames():
    scope = {"__name__": "ocannl.pretended", "VerifyError": VerifyError}
    exec("def inner(): raise VerifyError('x')\ndef outer(): inner()", scope)
    with pytest.raises(VerifyError) as caught:
        public(scope["outer"])()
    assert frames(caught.value) == []


def test_user_error_drops_framework_frames_only():
    scope = {"__name__": "ocannl.pretended", "kind": OcannlError}
    exec("def inner(): raise kind('x')\ndef outer(f): return f() if f else inner()", scope)
    outer = public(scope["outer"])

    def users():
        return outer(None)

    with pytest.raises(OcannlError) as caught:
        outer(users)
    assert [name for _, name in frames(caught.value)] == ["users"]


def test_methods_and_properties_of_a_class():
    class Kind:
        """Known."""

        @property
        def size(self):
            """How large it is."""
            return self._hidden()

        def __add__(self, other):
            return other

        def _hidden(self):
            return 3

    public_class()(Kind)
    assert Kind().size == Kind() + 3 == 3
    assert Kind.size.__doc__ == "How large it is."
    assert hasattr(Kind.__add__, "__wrapped__")
    assert not hasattr(Kind._hidden, "__wrapped__")


def test_functions_of_extensions_answer_like_those_of_the_core(tmp_path):
    pytest.importorskip("ocannl_explorer")
    ctx = oc.Context("numpy")
    routine = ctx.compile((oc.tensor([1.0]) + 1).forward)
    for call, text in {
        lambda: routine.explore(10**5000): "`path`", lambda: oc.explore(): "missing a required argument",
        lambda: oc.explore(routine, tmp_path): "cannot be written",
    }.items():  # fmt: skip
        with pytest.raises(oc.ArgumentError, match=text) as caught:
            call()
        assert {frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)} == {__file__}


def test_functions_of_onnx_answer_like_those_of_the_core():
    pytest.importorskip("ocannl_onnx")
    for call, text in {
        lambda: oc.onnx.load(3): "oc.onnx.load: `source`", lambda: oc.onnx.lod: "did you mean `load`",
    }.items():  # fmt: skip
        with pytest.raises((oc.ArgumentError, oc.UnknownName), match=text) as caught:
            call()
        assert {frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)} <= {
            __file__, oc.onnx.__file__,
        }  # fmt: skip
