"""Settings of Sphinx: `sphinx-build -W --keep-going -b html docs FOLDER`, which needs no network."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import version as version_of
from itertools import takewhile
from typing import Final

from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.pycode import ModuleAnalyzer

project = "Ether"
author = "the authors of Ether"
version = release = version_of("agent-ether")

exclude_patterns = ["_build"]
extensions = ["myst_parser", "sphinx.ext.autodoc"]
suppress_warnings = [
    "misc.highlighting_failure",  # an expected output with `...` is no whole JSON
    "ref.python",  # `ether.Probe` and `ether.testing.Probe` are one class
]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"{project} {release}"
html_copy_source = False

default_role = "code"
maximum_signature_line_length = 100
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_default_options = {
    "members": True,
    "member-order": "bysource",
    "show-inheritance": True,
    "exclude-members": "model_config, model_post_init",
}

_GOOGLE: Final = Config(napoleon_use_ivar=True, napoleon_use_rtype=False)
_BLOCK: Final = re.compile(r" {4,}\S")
_NOTES: Final = re.compile(r"[-*] |[A-Z][a-z]+( [a-z]+)*:$")
"""What an indent continues, instead of setting code off: an item of a list, a section of a docstring."""
_EXAMPLE: Final = "Example:"


def _preformat(lines: list[str]) -> Iterator[str]:
    """Mark what an indent sets off as preformatted text: docstrings leave it at the indent, as Markdown does."""
    above, inside = "", False
    for number, line in enumerate(lines):
        if line.strip() and not line.startswith(" "):
            above, inside = line, False
        if line == _EXAMPLE:
            inside = True
            yield from (line, "::", "")
            continue
        starts = _BLOCK.match(line) is not None and (number == 0 or not lines[number - 1].strip())
        if starts and not inside and not _NOTES.match(above):
            inside = True
            yield from ("::", "")
        yield line


def _described(module: object, name: str) -> list[str]:
    """The docstring below a constant that a public module imports: where it is made, as Python keeps none of it."""
    value = getattr(module, name)
    for other in sorted(loaded for loaded in sys.modules if loaded.startswith("ether")):
        if getattr(sys.modules[other], name, None) is value:
            found = ModuleAnalyzer.for_module(other).find_attr_docs().get(("", name))
            if found:
                return found
    return []


def _read_docstring(  # noqa: PLR0917  the event's
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    module, _, constant = name.rpartition(".")
    if what == "data" and module in sys.modules:
        lines[:] = _described(sys.modules[module], constant)
    text = list(_preformat(lines))
    if what == "module":  # what follows is for who works on Ether
        text = list(takewhile(lambda line: not line.startswith("May import: "), text))
    if what != "attribute":  # whose first line may have a colon, and no type before it
        kind = "method" if what == "property" else what
        text = GoogleDocstring(text, _GOOGLE, app, kind, name, value, options).lines()
    lines[:] = text


def setup(app: Sphinx) -> None:
    """Read docstrings as they are written: Google's sections, Markdown's code."""
    app.connect("autodoc-process-docstring", _read_docstring)
