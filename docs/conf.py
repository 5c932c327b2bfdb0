"""Sphinx configuration: pages are Markdown (MyST)."""

project = "mqbroker"
author = "the mqbroker authors"
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {"description": "A message broker that speaks Artemis CORE", "fixed_sidebar": True}
