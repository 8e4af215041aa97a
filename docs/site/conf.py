"""How Sphinx makes the site, from the pages as website.py lays them out."""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "site"))  # our own extension
torch.set_num_threads(1)  # the gallery's networks are small: more threads would wait for each other

project = "feddecorr"
version = release = version_of("feddecorr")
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_gallery.gen_gallery",
    "reference",
]
exclude_patterns = ["docs/gallery"]  # of which pages are made
highlight_language = "text"
smartquotes = False  # words of a command stay as they are typed
suppress_warnings: list[str] = []  # every warning is an error

myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
maximum_signature_line_length = 88

sphinx_gallery_conf = {
    "examples_dirs": ["docs/gallery"],  # a copy: files that examples write stay out of the sources
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "thumbnail_size": (840, 360),  # twice of what is shown
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "feddecorr"
html_static_path = [str(ROOT / "docs" / "site" / "static")]
html_css_files = ["site.css"]
html_logo = html_favicon = str(ROOT / "docs" / "site" / "static" / "logo.svg")
html_copy_source = False
html_show_search_summary = False  # it would be fetched, which browsers refuse to pages from the disk
html_context = {"default_mode": "auto"}  # light or dark as the system is
html_theme_options = {
    "logo": {"text": "feddecorr"},
    "navigation_with_keys": False,
    "show_prev_next": False,
    "footer_start": [],
    "footer_end": [],
}
