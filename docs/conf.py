"""How Sphinx builds these pages; `python3 dev.py docs` does it."""

import json
import sys
from importlib.metadata import version as version_of
from pathlib import Path

from ocannl.base.config import SETTINGS

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "docs"), str(ROOT / "benchmarks")]
import summary  # noqa: E402

project = "ocannl"
author = copyright = "the ocannl developers"
release = version = version_of("ocannl-core")

extensions = ["myst_parser"]
myst_enable_extensions = ["deflist", "substitution"]
myst_heading_anchors = 3
myst_url_schemes = {"http": None, "https": None, "mailto": None, "site": "{{path}}"}  # `site:` pages are not of Sphinx
exclude_patterns = ["_build"]
nitpicky = True

html_theme = "furo"
html_title = f"ocannl {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_theme_options = {  # contrast of at least 4.5 in both themes
    "light_css_variables": {"color-brand-primary": "#1f4e79", "color-brand-content": "#1f4e79"},
    "dark_css_variables": {"color-brand-primary": "#8fc1ee", "color-brand-content": "#8fc1ee"},
}


def figures(names: tuple[str, ...]) -> str:
    """A table of the newest results: ocannl beside its peers, in the units of the benchmark."""
    results = json.loads(max(summary.RESULTS.glob("????-??-??.json")).read_text(encoding="utf-8"))
    threads = results["settings"]["threads"]
    rows = [
        f"| {summary.WORKLOADS[name]} | " + " | ".join(f"{summary.ratio(results, name, n):.1f}" for n in threads) + " |"
        for name in names
    ]
    head = [f"| times as fast as the best peer | {' | '.join(summary.threaded(n) for n in threads)} |"]
    return "\n".join([*head, "|---|" + "--:|" * len(threads), *rows, "", summary.caption(results)])


# What a page says of the source in tables is read from the source.
myst_substitutions = {
    "figures": figures(("W2", "W4", "W5", "W6_layernorm", "W1_512", "W6_sum")),
    "settings": "\n".join(
        [
            "| setting | variable | default | what it is |",
            "|---|---|---|---|",
            *(f"| `{s.name}` | `{s.variable}` | `{s.default}` | {s.doc} |" for s in SETTINGS),
        ]
    ),
}


def setup(app):
    """Adds the pages that programs write, such as the explorer of the README's example."""

    def complete_roles(app, name, template, context, doctree):
        """Makes blocks of code scroll by the keyboard, and gives the captions of the navigation a level."""
        context["body"] = context.get("body", "").replace("<pre>", '<pre tabindex="0">')
        navigation = context.get("furo_navigation_tree", "")
        context["furo_navigation_tree"] = navigation.replace('role="heading"', 'role="heading" aria-level="2"')

    def write_live_pages(app, exception):
        if exception is None and app.builder.name == "html":
            import live_pages  # takes time, and other builders do not need it

            live_pages.write(Path(app.outdir))

    app.connect("html-page-context", complete_roles, priority=900)  # after the theme has added its navigation
    app.connect("build-finished", write_live_pages)
