"""Sphinx configuration: pages are Markdown (MyST)."""

project = "mqbroker"
author = "the mqbroker authors"
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "alabaster"
# A line of code has up to 140 characters; a page of the default width shows 70.
html_theme_options = {"description": "A message broker that speaks Artemis CORE", "fixed_sidebar": True, "page_width": "1240px"}
