"""`oc.explore(routine, path)`, which `routine.explore(path)` calls."""

from __future__ import annotations

import os
from pathlib import Path

from ocannl.base.errors import ArgumentError
from ocannl.base.gc_pause import gc_paused
from ocannl.base.output_files import Writing
from ocannl.runtime.profile import Profile
from ocannl.runtime.routine import Routine
from ocannl_explorer.contents import contents
from ocannl_explorer.html_page import html_page


def explore(routine: Routine, path: str | os.PathLike[str], *, profile: Profile | None = None) -> Path:
    """Writes a page of HTML that shows a routine from its Python source to the generated code; returns its path.

    A selection in one column selects its origin and its results in all other columns. With `profile`, a result of
    `routine.profile()`, the page shows the time and memory traffic of each loop nest. The page is one file and loads
    nothing else.

    Raises: ArgumentError for an object that is no routine, a profile of another routine, or a path that cannot be
    written.
    """
    if not isinstance(routine, Routine):
        raise ArgumentError(f"a routine is explored, the result of `ctx.compile(code)`, not {routine!r}"[:200])
    if not isinstance(path, str | os.PathLike):
        raise ArgumentError(f"a path is a string or `pathlib.Path`, not {path!r}"[:200])
    if profile is not None and not isinstance(profile, Profile):
        raise ArgumentError(f"`profile` is a result of `routine.profile()`, not {profile!r}"[:200])
    if profile is not None and profile.routine != routine.name:
        raise ArgumentError(f"`profile` measured the routine `{profile.routine}`, not `{routine.name}`")
    if profile is not None and profile.backend != routine.context.backend.name:
        backends = f"{profile.backend}, not on {routine.context.backend.name}"
        raise ArgumentError(f"`profile` measured `{routine.name}` on {backends}")
    text = _page(routine, profile)
    target = Path(path)
    with Writing(path, "page"):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return target


@gc_paused
def _page(routine: Routine, profile: Profile | None) -> str:
    return html_page(contents(routine, profile))
