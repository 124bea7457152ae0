"""Everything that is shown leaves by `ether.terminal`, so that no peer's text reaches a terminal as it came."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

import pytest

from tests.support import REPOSITORY

LAYERS: Final = ("broker/ether_broker", "actors/ether_actors", "runtime/ether")
OUTLET: Final = {"runtime/ether/text_io/terminal.py", "runtime/ether/text_io/console.py"}
PIPES: Final = {
    "actors/ether_actors/supervisor/journal/checkpoint_process.py": "a child process hands its parent bytes",
}
PRINTERS: Final = {
    "print", "pprint", "print_json", "rprint", "Console", "echo", "secho", "print_exc", "print_exception", "print_stack",
    "print_tb", "StreamHandler", "basicConfig",
}  # fmt: skip
"""Names of what prints, draws or logs by itself."""
SAFE: Final = {"console", "_console", "screen", "lines"}
"""Safe consoles, and what prints by one: `screen.print`, `console().print`."""
TAKERS: Final = {"put", "say", "console", "is_drawn", "run"}
"""Functions that may be given a standard stream; `run` of the review hands it to its display."""
STREAMS: Final = {"stream", "_stream", "stdout", "stderr"}


def named(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        return named(node.func)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def ways_out(tree: ast.AST) -> Iterator[str]:
    allowed: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and named(node) in TAKERS:
            given = (*node.args, *(keyword.value for keyword in node.keywords))
            allowed.update(id(part) for argument in given for part in ast.walk(argument))
        elif isinstance(node, ast.BoolOp):  # the default in `given or sys.stderr`
            allowed.update(map(id, node.values))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and named(node) in PRINTERS:
            if not (isinstance(node.func, ast.Attribute) and named(node.func.value) in SAFE):
                yield f"line {node.lineno}: {named(node)}"
        elif isinstance(node, ast.Attribute):
            if named(node.value) in STREAMS and node.attr in {"write", "writelines", "buffer"}:
                yield f"line {node.lineno}: {named(node.value)}.{node.attr}"
            elif named(node.value) == "sys" and node.attr in {"stdout", "stderr"} and id(node) not in allowed:
                yield f"line {node.lineno}: sys.{node.attr} is handed to somebody"


def test_nobody_prints_but_the_outlet() -> None:
    found = {}
    for path in (path for layer in LAYERS for path in (REPOSITORY / layer).rglob("*.py")):
        name = str(path.relative_to(REPOSITORY))
        if name not in OUTLET and name not in PIPES and (ways := list(ways_out(ast.parse(path.read_text())))):
            found[name] = ways

    assert found == {}, "show it with `put` or `say` of ether.terminal"


@pytest.mark.parametrize(
    "code",
    [
        "print('x')", "import rich\nrich.print('x')", "from rich.console import Console\nConsole()", "sys.stdout.write('x')",
        "typer.echo('x')", "traceback.print_exc()", "logging.basicConfig()", "json.dump({}, sys.stdout)", "out = sys.stderr",
        "logging.StreamHandler()", "sys.stderr.buffer.write(b'x')", "print(1, file=sys.stderr)", "self._stream.write('x')",
    ],
)  # fmt: skip
def test_every_other_way_out_is_noticed(code: str) -> None:
    assert list(ways_out(ast.parse(code)))
