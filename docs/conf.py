"""How Sphinx builds these pages; `python3 dev.py docs` does it."""

from importlib.metadata import version as version_of

project = "ocannl"
author = copyright = "the ocannl developers"
release = version = version_of("ocannl-core")

extensions = ["myst_parser"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = True

html_theme = "furo"
html_title = f"ocannl {release}"
