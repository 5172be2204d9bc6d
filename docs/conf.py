"""The documentation site: built and read without a network (``make docs``)."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "src"))
sys.path.insert(0, str(HERE))
os.environ.setdefault("MPLBACKEND", "agg")

import fairmargin  # noqa: E402

project = "fairmargin"
author = "The fairmargin developers"
copyright = author
version = release = fairmargin.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "**/README.md", "gallery/*.ipynb", "gallery/*.py"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
toc_object_entries_show_parents = "hide"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4  # so that pages can link to each other's sections
suppress_warnings = ["config.cache"]

autosummary_generate = True
autodoc_preserve_defaults = True
autodoc_typehints = "none"  # numpydoc's sections say more
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False  # the template lists methods, with their docstrings
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": [str(HERE.parent / "examples")],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"/plot_",  # the others are shown but not run
    "ignore_pattern": r"demo\.py",  # what `make demo` runs; plot_boundaries.py shows the same
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "plot_gallery": True,
    "write_computation_times": False,  # that page would load scripts from the network
    "within_subsection_order": "FileNameSortKey",
    "copyfile_regex": r".*\.rst",
    "image_scrapers": ("matplotlib",),
    "capture_repr": ("_repr_html_",),  # tables, not what the last call of a plot returns
}
warnings.filterwarnings("ignore", message=".*FigureCanvasAgg is non-interactive.*")

html_theme = "pydata_sphinx_theme"
html_title = f"fairmargin {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 7,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "show_nav_level": 1,
    "search_bar_text": "Search these pages ...",
}
html_sidebars = {"index": [], "getting_started": []}


def skip_inherited(app: object, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    """Leave scikit-learn's own methods to scikit-learn's reference."""
    return True if str(getattr(obj, "__module__", "")).startswith("sklearn.") else None


def setup(app: object) -> None:
    """Connect the hooks."""
    app.connect("autodoc-skip-member", skip_inherited)  # type: ignore[attr-defined]
