"""The language of a file, by its name or by its first line."""

from __future__ import annotations

import re
from pathlib import PurePath

from ether.review.scout.files.words import words

__all__ = ["BINARY_SUFFIXES", "PYTHON", "language_of", "language_of_shebang"]

PYTHON = "Python"

_BY_SUFFIX = {
    ".bash": "Shell",
    ".c": "C",
    ".cc": "C++",
    ".cfg": "INI",
    ".cjs": "JavaScript",
    ".cpp": "C++",
    ".cs": "C#",
    ".css": "CSS",
    ".cxx": "C++",
    ".go": "Go",
    ".h": "C",
    ".hpp": "C++",
    ".htm": "HTML",
    ".html": "HTML",
    ".ini": "INI",
    ".java": "Java",
    ".js": "JavaScript",
    ".json": "JSON",
    ".jsx": "JavaScript",
    ".kt": "Kotlin",
    ".lua": "Lua",
    ".md": "Markdown",
    ".mdx": "Markdown",
    ".mjs": "JavaScript",
    ".php": "PHP",
    ".pl": "Perl",
    ".proto": "Protocol Buffers",
    ".ps1": "PowerShell",
    ".py": PYTHON,
    ".pyi": "Python stub",
    ".pyw": PYTHON,
    ".pyx": "Cython",
    ".pxd": "Cython",
    ".rb": "Ruby",
    ".rs": "Rust",
    ".rst": "reStructuredText",
    ".scala": "Scala",
    ".scss": "CSS",
    ".sh": "Shell",
    ".sql": "SQL",
    ".svg": "SVG",
    ".swift": "Swift",
    ".toml": "TOML",
    ".ts": "TypeScript",
    ".tsx": "TypeScript",
    ".txt": "Text",
    ".xml": "XML",
    ".yaml": "YAML",
    ".yml": "YAML",
    ".zsh": "Shell",
}
_BY_NAME = {
    "dockerfile": "Dockerfile",
    "makefile": "Makefile",
    "gnumakefile": "Makefile",
    "cmakelists.txt": "CMake",
    "rakefile": "Ruby",
    "gemfile": "Ruby",
    "license": "Text",
    "copying": "Text",
    "authors": "Text",
    "readme": "Text",
    "changelog": "Text",
}
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
    return _BY_SUFFIX.get(path.suffix.lower()) or _BY_NAME.get(path.name.lower())


def language_of_shebang(first_line: str) -> str | None:
    """The language of the interpreter that a `#!` line names, or None."""
    match = _SHEBANG.match(first_line)
    return _BY_INTERPRETER.get(match[1].lower()) if match else None
