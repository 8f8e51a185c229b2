"""How Sphinx builds these pages; `python3 dev.py docs` does it."""

from importlib.metadata import version as version_of

from ocannl.base.config import SETTINGS

project = "ocannl"
author = copyright = "the ocannl developers"
release = version = version_of("ocannl-core")

extensions = ["myst_parser"]
myst_enable_extensions = ["deflist", "substitution"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = True

html_theme = "furo"
html_title = f"ocannl {release}"

# What a page says of the source in tables is read from the source.
myst_substitutions = {
    "settings": "\n".join(
        [
            "| setting | variable | default | what it is |",
            "|---|---|---|---|",
            *(f"| `{s.name}` | `{s.variable}` | `{s.default}` | {s.doc} |" for s in SETTINGS),
        ]
    )
}
