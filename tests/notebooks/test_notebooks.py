"""What notebooks show: `_repr_html_` of the public classes, and an executed notebook."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train
from ocannl.base import html_text
from ocannl.base.source_positions import SourcePosition, line_of
from ocannl.train.progress import progress

VOID = {"rect", "polyline"}


class Fragment(HTMLParser):
    """The text of a fragment of HTML, whose tags are closed in order."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(value._repr_html_())  # type: ignore[attr-defined]
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


@pytest.fixture(scope="module")
def run() -> SimpleNamespace:
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(40, 3)).astype("float32"), rng.integers(0, 2, 40)
    model = nn.mlp(widths=[4, 2], label="net")
    ctx = oc.Context("numpy")
    fitted = train.fit(
        model, loss=oc.cross_entropy, optimizer=lambda loss: train.adam(loss, 0.01), ctx=ctx,
        data=train.batches({"x": x, "t": t}, 20), epochs=2, validation=train.batches({"x": x, "t": t}, 20),
        metrics={"accuracy": train.accuracy}, show=False,
    )  # fmt: skip
    return SimpleNamespace(model=model, fitted=fitted)


def test_tensors_have_badges_of_their_shapes_and_infer_nothing() -> None:
    x = oc.placeholder("x", b=[32], o=[8])
    w = oc.param("<w>", o=[4])
    y = oc.relu(w @ x).with_label("y")
    assert repr(w) == "<<w>: ...,8->4 float32>"
    fragment = Fragment(w)
    assert fragment.text.split("\n")[0] == "<w>"
    assert re.findall(r"^(\.\.\.|\d)$", fragment.text, re.M) == ["...", "8", "4"]
    assert repr(w) == "<<w>: ...,8->4 float32>"
    assert "test_notebooks.py:" in Fragment(y).text and "relu(<w> @ x)" in Fragment(y).text
    assert Fragment(y.shape).text.split() == ["32", "...", "4"]
    assert Fragment(oc.tensor(1.0).shape).text.strip() == "scalar"
    assert 'title="batch axis"' in y._repr_html_()


def test_pictures_scale_by_finite_values() -> None:
    mask = np.where(np.tri(4) > 0, np.arange(16.0).reshape(4, 4), -np.inf)
    text = html_text.picture(mask, "mask")
    assert text.count('fill="red"') == 6 and "0 to 15" in text and "rgb(0,0,0)" in text
    assert html_text.picture(np.full((4, 4), np.nan), "nan").count('fill="red"') == 16
    assert "nan" not in html_text.picture(np.array([[-1.5e308, 1.5e308] * 2] * 4), "wide")


def test_histograms_of_values_that_hardly_differ() -> None:
    assert "1 to 1" in html_text.histogram(np.array([1.0, 1 + 2e-16]), "close")


def test_small_data_are_pictures_and_others_histograms() -> None:
    image = Fragment(oc.tensor(np.arange(64.0).reshape(8, 8), label="image"))
    assert image.tags.count("rect") == 64 and "image: 0 to 63" in image.text
    cells = Fragment(oc.tensor(np.array([0.0, 1.0, np.nan, 4.0]), label="cells"))
    assert cells.tags.count("rect") == html_text.BINS and "cells: 0 to 4, mean 1.667" in cells.text
    for data in (np.array([np.nan]), np.zeros((0, 3)), np.array(["inf"], float)):
        assert "svg" not in Fragment(oc.tensor(data)).tags
    assert "svg" in Fragment(oc.tensor(np.ones(3, bool))).tags
    assert "svg" not in Fragment(oc.param("w", 0.0, o=[3])).tags


def test_code_routines_blocks_and_profiles(run: SimpleNamespace) -> None:
    x = oc.placeholder("x", o=[3])
    y = (x * 2).with_label("y")
    assert "y[o0] =: x[o0] * 2" in Fragment(y.forward).text
    ctx = oc.Context("numpy")
    ctx[x] = np.ones(3, "float32")
    routine = ctx.compile(y.forward, name="double")
    text = Fragment(routine).text
    assert "<routine double() on numpy>" in text and "decided by" in text and "float32" in text
    profile = Fragment(routine.profile(1))
    assert "routine double on numpy, 1 calls" in profile.text and profile.tags.count("tr") == 2
    block = Fragment(run.model)
    assert "<block net: 4 parameters>" in block.text and block.tags.count("tr") == 5
    assert "not applied yet" in Fragment(nn.mlp(widths=[2], label="net")).text


def test_training_runs_have_a_curve_and_their_metrics(run: SimpleNamespace) -> None:
    fragment = Fragment(run.fitted)
    assert fragment.tags.count("polyline") == 1 and fragment.tags.count("tr") == 3 and "accuracy" in fragment.text
    assert html_text.curve([1.0], "loss") == "" == html_text.curve([float("nan")] * 3, "loss")
    assert html_text.curve(np.linspace(4, 0, 10_000), "loss").count(",") == html_text.WIDTH
    assert "and 5 rows more" in html_text.table(("a",), [("<b>",)] * (html_text.MAX_ROWS + 5))
    assert "<b>" not in html_text.table(("a",), [("<b>",)])


def test_the_curve_of_the_loss_grows_while_training(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []
    line = SimpleNamespace(update=lambda data, raw: shown.append(data))
    display = SimpleNamespace(display=lambda data, raw, display_id: line)
    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()), display=display)
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setattr("ocannl.train.progress._NOTEBOOK_SECONDS", 0.0)
    with progress(3, 4) as report:
        for step in range(1, 13):
            report(step, {"loss": 1 / step})
    curves = [re.search(r'<polyline[^>]*points="([^"]*)"', data["text/html"]) for data in shown]
    assert [len(curve[1].split()) if curve else 0 for curve in curves] == [0, *range(2, 13)]
    heights = [float(point.split(",")[1]) for point in curves[-1][1].split()]  # type: ignore[index]
    assert heights == sorted(heights) and heights[-1] > heights[0]  # y runs down: the loss decreases
    assert shown[0]["text/plain"].startswith("epoch 1/3  loss 1.0000")
    assert shown[-1]["text/plain"].startswith("epoch 3/3  loss 0.0833")


def test_positions_name_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"/tmp/ipykernel_7/123.py": ("Cell", "In[3]")}
    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=names.get))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    position = SourcePosition("/tmp/ipykernel_7/123.py", 2)
    assert position == "In[3]:2" and line_of(position) == 2 and position.path == "/tmp/ipykernel_7/123.py"
    assert SourcePosition("/home/model.py", 2) == "model.py:2"
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert SourcePosition("/home/model.py", 2) == "model.py:2"


CELLS = (
    "import numpy as np\nimport ocannl as oc\nfrom ocannl import nn, train",
    "x = oc.tensor(np.arange(64.0).reshape(8, 8), label='x')\nx",
    "a = oc.placeholder('a', o=[3])\nb = oc.placeholder('b', o=[4])\n(a + b).shape.dims",
    """\
data = train.batches({'x': np.ones((20, 3), 'float32'), 't': np.zeros(20, 'int32')}, 10)
train.fit(
    nn.mlp(widths=[2]), loss=oc.cross_entropy, optimizer=train.adam, ctx=oc.Context('numpy'), data=data, epochs=2
)""",
)


@pytest.mark.slow
def test_an_executed_notebook() -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(notebook, timeout=120, allow_errors=True).execute()
    outputs = [cell.outputs for cell in notebook.cells]
    assert outputs[0] == []
    assert "<svg" in outputs[1][0].data["text/html"]
    assert outputs[2][0].ename == "ShapeError"
    assert "In[3]:3" in outputs[2][0].evalue and "In[3]:1" in outputs[2][0].evalue, outputs[2][0].evalue
    assert any("<polyline" in output.data.get("text/html", "") for output in outputs[3])


@pytest.mark.parametrize("with_anywidget", [False, True])
def test_the_explorer_in_a_cell(with_anywidget: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    view = pytest.importorskip("ocannl_explorer").view
    if with_anywidget:
        pytest.importorskip("anywidget", reason="anywidget is not installed")
    else:
        monkeypatch.setattr("ocannl_explorer.notebook_view.find_spec", lambda name: None)
    x = oc.placeholder("x", o=[3])
    shown = view(oc.Context("numpy").compile((x * 2).with_label("y").forward, name="double"))
    assert "double on numpy" in shown.page
    if with_anywidget:
        assert shown.selection == [] and "application/vnd.jupyter.widget-view+json" in shown._repr_mimebundle_()[0]
    else:
        fragment = Fragment(shown)
        assert fragment.tags == ["iframe"] and fragment.text == ""
    with pytest.raises(oc.ArgumentError, match="a routine is viewed"):
        view(3)
