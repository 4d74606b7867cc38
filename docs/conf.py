"""How the site is built: ``make docs``. No network is needed; intersphinx asks for one in ``make linkcheck`` alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import distembed

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "distembed"
author = copyright = "The distembed developers"  # noqa: A001
version = release = distembed.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "pages",
    "thumbnails",
]
if os.environ.get("DOCS_ONLINE"):
    extensions.append("sphinx.ext.intersphinx")

root_doc = "index"
smartquotes = False  # help of commands has code in it
exclude_patterns = ["_build", "_ext", "_templates", "live"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = f"distembed {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_logo = html_favicon = "_static/logo.svg"
html_extra_path = ["live"]
html_math_renderer = "mathml"
html_show_sourcelink = False
pygments_style, pygments_dark_style = "friendly", "monokai"

# Reference: one page per public name, see _ext/pages.py.
autosummary_generate = True
autosummary_imported_members = False
autodoc_typehints = "none"  # types stand in the docstrings, in words
numpydoc_show_class_members = False
add_module_names = False

# Markdown: ids of headings are those that forges make, so that links work in both places.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "dollarmath"]
suppress_warnings = ["config.cache"]  # functions among the settings of the gallery

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 0,
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("distembed",),
    "thumbnail_size": (480, 336),
    "write_computation_times": False,
}

# External links: `make linkcheck`, where a network answers.
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "numpy": ("https://numpy.org/doc/stable", None),
    "scipy": ("https://docs.scipy.org/doc/scipy", None),
    "sklearn": ("https://scikit-learn.org/stable", None),
}
linkcheck_timeout = 20
