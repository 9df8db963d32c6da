"""How Sphinx builds the site; ./dev docs --site calls it."""

from __future__ import annotations

import inspect
from importlib.metadata import version as version_of
from typing import Any

project = "Mustela"
author = "The Mustela developers"
copyright = author
release = version_of("mustela")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_use_rtype = False
napoleon_use_ivar = True
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure", "ref.python"]

html_theme = "furo"
html_title = "Mustela"
html_show_sourcelink = False
html_copy_source = False


def signature_of_init(
    _app: object, kind: str, _name: str, found: Any, _options: object, *said: Any
) -> tuple[str, str | None] | None:
    """Show what a class takes by its constructor, not by the metaclass that answers wrong calls."""
    if kind != "class" or said[0] != "(*given, **named)":
        return None
    parameters = list(inspect.signature(found.__init__).parameters.values())[1:]
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in parameters]
    return str(inspect.Signature(bare)), None


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-signature", signature_of_init)
