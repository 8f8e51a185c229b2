"""The page of a routine in a notebook: a widget whose selection Python reads, or a frame without anywidget."""

from __future__ import annotations

import html
from importlib.util import find_spec
from typing import Any

from ocannl.base.errors import ArgumentError
from ocannl.runtime.profile import Profile
from ocannl.runtime.routine import Routine
from ocannl_explorer.contents import contents
from ocannl_explorer.html_page import html_page

HEIGHT = 800  # pixels

ESM = """
function render({ model, el }) {
  const frame = Object.assign(document.createElement("iframe"), { srcdoc: model.get("page"), title: "explorer" });
  frame.style.cssText = `width: 100%; height: ${model.get("height")}px; border: 0`;
  const listen = (event) => {
    if (event.source !== frame.contentWindow || !Array.isArray(event.data?.selection)) return;
    model.set("selection", event.data.selection);
    model.save_changes();
  };
  window.addEventListener("message", listen);
  el.append(frame);
  return () => window.removeEventListener("message", listen);
}
export default { render };
"""


class InlineFrame:
    """A page in a frame."""

    def __init__(self, page: str) -> None:
        self.page = page

    def _repr_html_(self) -> str:
        source = html.escape(self.page)
        return f'<iframe title="explorer" srcdoc="{source}" style="width:100%;height:{HEIGHT}px;border:0"></iframe>'


def view(routine: Routine, *, profile: Profile | None = None) -> Any:
    """Returns the page of a routine for a notebook: a widget of anywidget, whose `selection` are the tensors and
    source positions that are selected, or a frame if anywidget is not installed. Raises: ArgumentError for an object
    that is no routine."""
    if not isinstance(routine, Routine):
        raise ArgumentError(f"a routine is viewed, the result of `ctx.compile(code)`, not {routine!r}"[:200])
    page = html_page(contents(routine, profile))
    return _widget(page) if find_spec("anywidget") else InlineFrame(page)


def _widget(page: str) -> Any:
    import anywidget
    import traitlets

    fields = {
        "page": traitlets.Unicode().tag(sync=True),
        "height": traitlets.Int(HEIGHT).tag(sync=True),
        "selection": traitlets.List().tag(sync=True),
        "_esm": ESM,
    }
    return type("ExplorerWidget", (anywidget.AnyWidget,), fields)(page=page)
