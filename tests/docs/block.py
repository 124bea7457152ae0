"""The code blocks of a Markdown document, and what of them is run.

A fence says what happens to its block:

    ```python               a script of its own, in a fresh interpreter
    ```python file=app.py   written to app.py for the blocks below; run too if its output follows
    ```python notebook      a cell of a notebook: `await` stands at its top level, in an event loop that runs
    ```yaml file=bus.yaml   written; any language will do
    ```bash                 each line that starts with `ether` or `python FILE.py`, in one shell for the whole
                            document; `NAME=value` may stand before it, and a last `\\` joins the next line.
                            Other lines (`pip install`, comments) are for the reader alone.
    ```console              the same for lines that start with `$ `. The lines below such a command are what
                            it prints, stdout and stderr together; with none, only its exit code is checked.
    ```text                 right after a block that is run: what that prints on stdout
    ```bash on=alpha        (or console) run on the host of that name, with a folder and a shell of its own; the hosts
                            of a document are on one network (`tests/network/namespaces.py`).
    ```python no-run        (or bash, console) is not run: it needs what no test has. Used sparingly.

In an expected output a line `...` stands for any lines, none too, and `...` in a line for any text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt

__all__ = ["Block", "Command", "Failed", "blocks_of", "commands_of", "prints_as_told"]

_RUN: Final = frozenset({"python", "bash", "console"})
_MISNAMED: Final = {
    "py": "python",
    "pycon": "python",
    "sh": "bash",
    "shell": "bash",
    "shell-session": "console",
}
_COMMAND = re.compile(r"(?:\w+=\S*\s+)*(?:ether|python\s+(?P<script>[\w./-]+\.py))(?=\s|$)")


class Failed(AssertionError):
    """A document promises what does not happen; the message starts with the file and the line."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a document."""

    place: str
    """File and line of its fence, such as `README.md:12`."""
    language: str
    code: str
    file: str | None = None
    runs: bool = True
    host: str | None = None
    is_cell: bool = False


@dataclass(slots=True)
class Command:
    """A line for the shell, and what the document shows below it."""

    line: str
    shown: list[str] = field(default_factory=list)


def blocks_of(document: Path) -> list[Block]:
    """The fenced blocks of a document in their order.

    Raises:
        Failed: an annotation that means nothing, or a language that would silently not be run.
    """
    tokens = MarkdownIt().parse(document.read_text(encoding="utf-8"))
    return [
        _block(f"{document.name}:{token.map[0] + 1}", token.info.split(), token.content)
        for token in tokens
        if token.type == "fence" and token.map
    ]


def _block(place: str, info: list[str], code: str) -> Block:
    language, *annotations = info or [""]
    file, runs, host, is_cell = None, language in _RUN, None, False
    if language in _MISNAMED:
        raise Failed(f"{place}: say {_MISNAMED[language]}, not {language}: this block would not be run")
    for annotation in annotations:
        key, _, value = annotation.partition("=")
        if key == "file" and value:
            file = value
        elif key == "on" and value:
            host = value
        elif annotation == "no-run":
            runs = False
        elif annotation == "notebook" and language == "python":
            is_cell = True
        else:
            raise Failed(f"{place}: {annotation!r} is neither no-run, notebook, file=NAME, nor on=HOST")
    return Block(place, language, code, file, runs, host, is_cell)


def commands_of(block: Block, folder: Path) -> list[Command]:
    """The lines of a bash or console block that are run, in a folder that has the document's files."""
    commands: list[Command] = []
    shows = False
    for line in block.code.replace("\\\n", " ").splitlines():
        if block.language == "console" and not line.startswith("$ "):
            if shows:
                commands[-1].shown.append(line)
            continue
        told = line.removeprefix("$ ").strip()
        match = _COMMAND.match(told)
        shows = match is not None and (match["script"] is None or (folder / match["script"]).exists())
        if shows:
            commands.append(Command(told))
    return commands


def prints_as_told(told: str, printed: str) -> bool:
    """Whether an output is the one in the document, where `...` stands for anything.

    Blanks at the ends of lines, and empty lines at both ends, do not count.
    """
    pattern = ""
    for line in _tidy(told):
        if line.strip() == "...":
            pattern += r"(?:[^\n]*\n)*"
        else:
            pattern += r"[^\n]*".join(re.escape(part) for part in line.split("...")) + r"\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _tidy(printed))) is not None


def _tidy(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]
