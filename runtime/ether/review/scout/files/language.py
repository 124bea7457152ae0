"""The language of a file, by its name or by its first line."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Final

from ether.review.scout.files.words import words

__all__ = ["BINARY_SUFFIXES", "PYTHON", "language_of", "language_of_shebang"]

PYTHON = "Python"

_NAMES: Final = {
    "Shell": ".bash .sh .zsh",
    "C": ".c .h",
    "C++": ".cc .cpp .cxx .hpp",
    "INI": ".cfg .ini",
    "JavaScript": ".cjs .js .jsx .mjs",
    "C#": ".cs",
    "CSS": ".css .scss",
    "Go": ".go",
    "HTML": ".htm .html",
    "Java": ".java",
    "JSON": ".json",
    "Kotlin": ".kt",
    "Lua": ".lua",
    "Markdown": ".md .mdx",
    "PHP": ".php",
    "Perl": ".pl",
    "Protocol Buffers": ".proto",
    "PowerShell": ".ps1",
    PYTHON: ".py .pyw",
    "Python stub": ".pyi",
    "Cython": ".pxd .pyx",
    "Ruby": ".rb gemfile rakefile",
    "Rust": ".rs",
    "reStructuredText": ".rst",
    "Scala": ".scala",
    "SQL": ".sql",
    "SVG": ".svg",
    "Swift": ".swift",
    "TOML": ".toml",
    "TypeScript": ".ts .tsx",
    "Text": ".txt authors changelog copying license readme",
    "XML": ".xml",
    "YAML": ".yaml .yml",
    "Dockerfile": "dockerfile",
    "Makefile": "gnumakefile makefile",
    "CMake": "cmakelists.txt",
}
"""{language: the suffixes and the whole names of its files}."""
_BY_NAME = {name: language for language, names in _NAMES.items() for name in names.split()}
_BY_INTERPRETER = {
    "bash": "Shell",
    "sh": "Shell",
    "zsh": "Shell",
    "dash": "Shell",
    "node": "JavaScript",
    "perl": "Perl",
    "ruby": "Ruby",
    "php": "PHP",
    "lua": "Lua",
    "python": PYTHON,
}
_SHEBANG = re.compile(r"#!\s*(?:\S*/)?(?:env\s+(?:-\S+\s+)*)?(?:\S*/)?([A-Za-z]+)")

BINARY_SUFFIXES = words(
    ".7z .a .avi .bin .bmp .bz2 .class .dat .db .dll .doc .docx .dylib .eot .exe .flac .gif .gz .ico "
    ".jar .jpeg .jpg .lib .lz4 .mo .mov .mp3 .mp4 .npy .npz .o .obj .ogg .otf .parquet .pdf .pickle "
    ".pkl .png .pyc .pyd .pyo .rar .so .sqlite .sqlite3 .tar .tgz .tif .tiff .ttf .wasm .wav .webm "
    ".webp .whl .woff .woff2 .xls .xlsx .xz .zip .zst"
)
"""Suffixes of files that are never read."""


def language_of(path: PurePath) -> str | None:
    """The language that the name stands for; None when it tells nothing (see `language_of_shebang`)."""
    return _BY_NAME.get(path.suffix.lower()) or _BY_NAME.get(path.name.lower())


def language_of_shebang(first_line: str) -> str | None:
    """The language of the interpreter that a `#!` line names, or None."""
    match = _SHEBANG.match(first_line)
    return _BY_INTERPRETER.get(match[1].lower()) if match else None
