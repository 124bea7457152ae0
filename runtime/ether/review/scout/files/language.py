"""The language of a file, by its name or by its first line."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Final

__all__ = ["PROSE", "PYTHON", "language_of", "runs_python"]

PYTHON = "Python"
PROSE: Final = frozenset({"Markdown", "reStructuredText", "Text"})

_SUFFIXES: Final = {
    PYTHON: ".py .pyw", "Python stub": ".pyi", "Markdown": ".md .mdx", "reStructuredText": ".rst", "Text": ".txt",
    "JSON": ".json", "TOML": ".toml", "YAML": ".yaml .yml", "C": ".c .h", "C++": ".cc .cpp .hpp", "CSS": ".css .scss",
    "Go": ".go", "HTML": ".htm .html", "Java": ".java", "JavaScript": ".cjs .js .jsx .mjs", "Rust": ".rs",
    "Shell": ".bash .sh .zsh", "TypeScript": ".ts .tsx",
}  # fmt: skip
"""{language: the suffixes of its files}; any other suffix stands for itself."""
_LANGUAGES: Final = {suffix: language for language, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}
_TEXTS: Final = frozenset({"authors", "changelog", "copying", "license", "readme"})


def language_of(path: PurePath) -> str | None:
    """The language that the name stands for; None when it tells nothing (see `runs_python`)."""
    suffix = path.suffix.lower()
    return "Text" if path.name.lower() in _TEXTS else _LANGUAGES.get(suffix, suffix or None)


def runs_python(data: bytes) -> bool:
    """Whether the first line of a file has Python run it."""
    return re.match(rb"#!.*\bpython[\d.]*\b", data) is not None
