"""Sphinx configuration; ``make docs`` builds with warnings as errors."""

from __future__ import annotations

import cloister

project = "Cloister"
author = "The Cloister founders"
copyright = "2026, the Cloister founders"
release = cloister.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
autosummary_generate = True
autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "exclude-members": "model_config"}
napoleon_google_docstring = False
napoleon_use_rtype = False
default_role = "code"
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
templates_path = ["_templates"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "Cloister"
html_copy_source = False
