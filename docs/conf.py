"""How Sphinx builds the documentation: see scripts/docs."""

from __future__ import annotations

import os
import re
from typing import Any

import fairmix

# Examples draw into files, and share the cores with whatever else runs.
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")

project = "fairmix"
author = "The fairmix developers"
project_copyright = author
release = version = fairmix.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["examples", "**/sg_execution_times.rst", "sg_execution_times.rst"]
templates_path = ["_templates"]
# Docstrings put names of the package in single backticks.
default_role = "py:obj"

autosummary_generate = True
autodoc_typehints = "none"  # the parameters of the docstring say it
numpydoc_show_class_members = False  # the pages of classes list them, see _templates

myst_heading_anchors = 3
myst_enable_extensions = ["deflist"]

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "tutorials",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "capture_repr": (),
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "reference_url": {"fairmix": None},
    "doc_module": ("fairmix",),
    "backreferences_dir": None,
    "image_srcset": ["2x"],
}

html_theme = "pydata_sphinx_theme"
html_title = "fairmix"
html_show_sourcelink = False
html_static_path = ["_static"]
# Pages without others below them need no list of those.
html_sidebars: dict[str, list[str]] = {
    page: [] for page in ("guide", "which-method", "faq", "stories/adult")
}
html_css_files = ["fairmix.css"]
html_theme_options = {
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def skip_routing(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> Any:
    """Leave out what scikit-learn adds to every estimator for metadata routing."""
    routing = name == "get_metadata_routing" or re.fullmatch(r"set_\w+_request", name)
    return True if routing else None


def name_anchors(app: Any, page: str, source: list[str]) -> None:
    """Turn the anchors of HTML, which other viewers of Markdown know, into those of MyST."""
    source[0] = re.sub(r'^<a id="([\w-]+)"></a>$', r"(\1)=", source[0], flags=re.MULTILINE)


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-skip-member", skip_routing)
    app.connect("source-read", name_anchors)
