"""String literals that hold something else than they show."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ether.review.scout.findings.finding import Confidence, Finding, Severity
from ether.review.scout.findings.rule import Rule
from ether.review.scout.python.module import PythonModule
from ether.review.scout.python.syntax_queries import arguments_of, literal_text, shown, stored_names

__all__ = ["RULES", "check"]

INVALID_ESCAPE = Rule(
    "invalid-escape",
    Severity.WARNING,
    "Python keeps the backslash and warns, and a later version will refuse it as a syntax error",
    'Double the backslash, or make it a raw string: r"...".',
    codes=("W605", "W1401", "anomalous-backslash-in-string", "D301"),
    in_tests=True,
)
IDLE_FSTRING = Rule(
    "f-string-without-placeholder",
    Severity.INFO,
    "nothing is filled in, so either the `f` is left over or a placeholder was forgotten",
    "Take the `f` away, or write the placeholder.",
    codes=("F541", "W1309", "f-string-without-interpolation"),
)
FORGOTTEN_F = Rule(
    "forgotten-f",
    Severity.WARNING,
    "the reader of the message sees the braces instead of the value",
    "Put an `f` before the string.",
    Confidence.MEDIUM,
    codes=("RUF027", "W1310", "format-string-without-interpolation"),
)
MISSING_COMMA = Rule(
    "missing-comma",
    Severity.WARNING,
    "two literals side by side become one string, so the collection has one element less than it shows",
    "Put a comma between them; if they are meant as one, put parentheses round them.",
    Confidence.MEDIUM,
    codes=("ISC001", "ISC002", "ISC003", "ISC004", "W1404", "implicit-str-concat"),
)
CALLED_LITERAL = Rule(
    "called-literal",
    Severity.ERROR,
    "a literal cannot be called, so this raises TypeError; a comma is missing before the parenthesis",
    "Put a comma between them.",
    codes=("E1102", "not-callable"),
)
STRIPPED_CHARACTERS = Rule(
    "strip-takes-characters",
    Severity.WARNING,
    "strip takes a set of characters, not a prefix or suffix, so it can eat the start or end of the rest too",
    "Use removeprefix or removesuffix.",
    codes=("B005", "E1310", "PLE1310", "bad-str-strip-call"),
)
RULES: Final = (INVALID_ESCAPE, IDLE_FSTRING, FORGOTTEN_F, MISSING_COMMA, CALLED_LITERAL, STRIPPED_CHARACTERS)

_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_KNOWN: Final = frozenset("\n\\'\"abfnrtvx01234567")
_KNOWN_IN_TEXT: Final = _KNOWN | frozenset("NuU")
_PLACEHOLDER: Final = re.compile(r"(?<!\{)\{([A-Za-z_]\w*)(?:\.\w+)*(?:![rsa])?\}(?!\})")
_LINE_IGNORED: Final = frozenset({tokenize.NL, tokenize.COMMENT, tokenize.NEWLINE})
_MIN_ELEMENTS: Final = 4
_MIN_AFFIX: Final = 3
"""Characters: a pair alike is a slip of the pen, `www.` is an affix."""
_MAX_PART: Final = 40
"""Characters: longer literals side by side are one text, broken over lines on purpose."""


def check(module: PythonModule) -> Iterator[Finding]:
    """Escapes that are none, f-strings with nothing in them, a missing `f`, missing commas."""
    if "\\" in module.source.text:
        yield from _escapes(module)
    for text in module.of(ast.JoinedStr):
        inside = isinstance(module.parent(text), ast.FormattedValue)  # the format specification after a colon
        if not inside and not any(isinstance(part, ast.FormattedValue) for part in text.values):
            yield IDLE_FSTRING.at(module, text, f"`{shown(text)}`")
    for raised in module.of(ast.Raise):
        if isinstance(raised.exc, ast.Call):
            yield from _forgotten(module, raised.exc)
    for call in module.of(ast.Call):
        yield from _call(module, call)
    yield from _commas(module)


def _escapes(module: PythonModule) -> Iterator[Finding]:
    prefixes: list[str] = []  # of the f-strings we are inside of; since Python 3.12 they are several tokens
    for token in module.tokens:
        kind = tokenize.tok_name[token.type]
        if kind == "FSTRING_START":
            prefixes.append(token.string.rstrip("'\"").lower())
        elif kind == "FSTRING_END":
            prefixes.pop()
        elif kind == "FSTRING_MIDDLE":
            yield from _token_escapes(module, token, prefixes[-1], token.string)
        elif kind == "STRING":
            quote = min(position for position in map(token.string.find, "'\"") if position >= 0)
            yield from _token_escapes(module, token, token.string[:quote].lower(), token.string[quote:])


def _token_escapes(module: PythonModule, token: tokenize.TokenInfo, prefix: str, body: str) -> Iterator[Finding]:
    if "r" in prefix:
        return
    known = _KNOWN if "b" in prefix else _KNOWN_IN_TEXT
    wrong = [match for match in _ESCAPE.finditer(body) if match[1] not in known]
    if wrong:
        before = body[: wrong[0].start()]
        more = f", and {len(wrong) - 1} more in the same string" if len(wrong) > 1 else ""
        yield INVALID_ESCAPE.on(
            module.name, token.start[0] + before.count("\n"), f"`{wrong[0][0]}` is no escape sequence{more}"
        )


def _call(module: PythonModule, call: ast.Call) -> Iterator[Finding]:
    match call.func:
        case ast.Constant() | ast.Tuple() | ast.List() | ast.Dict() | ast.JoinedStr():
            yield CALLED_LITERAL.at(module, call, f"`{shown(call)}`")
        case ast.Name(id="print"):
            yield from _forgotten(module, call)
        case ast.Attribute(attr="strip" | "lstrip" | "rstrip" as method) if len(call.args) == 1:
            text = literal_text(call.args[0])
            if text and _is_affix(text):
                yield STRIPPED_CHARACTERS.at(module, call, f"`.{method}({text!r})`")


def _is_affix(text: str) -> bool:
    """Whether a text was meant as a whole: a set of characters repeats none, and no set looks like `.py`."""
    if text.isspace() or not any(character.isalpha() for character in text):
        return False
    repeats = len(set(text)) < len(text) >= _MIN_AFFIX
    return repeats or re.fullmatch(r"\.[a-z]{2,5}", text) is not None


def _forgotten(module: PythonModule, call: ast.Call) -> Iterator[Finding]:
    """Texts shown to people whose placeholders all name what the function has at hand."""
    function = module.function(call)
    if function is None:
        return
    if isinstance(module.parent(call), ast.Raise) and (call.args[1:] or call.keywords):
        return  # the exception may fill in its own template
    for argument in call.args:
        text = literal_text(argument)
        names = set(_PLACEHOLDER.findall(text)) if text else set()
        if names and text and text.count("{") == len(_PLACEHOLDER.findall(text)):
            known = {arg.arg for arg in arguments_of(function)} | stored_names(module, function)
            if names <= known:
                yield FORGOTTEN_F.at(module, argument, f"`{shown(argument)}` has no `f`")


@dataclass(frozen=True, slots=True)
class _Run:
    """Literals side by side, which the parser joins."""

    lines: tuple[int, ...]
    parts: tuple[str, ...]
    parenthesised: bool


def _commas(module: PythonModule) -> Iterator[Finding]:
    displays: list[ast.List | ast.Tuple | ast.Set]
    displays = [*module.of(ast.List), *module.of(ast.Tuple), *module.of(ast.Set)]
    displays = [node for node in displays if _is_list_of_texts(node)]
    if not displays:
        return
    runs = _runs(module)
    for display in displays:
        joined = [(node, runs.get((node.lineno, module.column(node) - 1))) for node in display.elts]
        suspects = [(node, run) for node, run in joined if run and _is_slip(run)]
        if len(suspects) == 1 and sum(1 for _, run in joined if run) == 1:
            node, run = suspects[0]
            yield MISSING_COMMA.at(module, node, f"`{run.parts[0]}` and `{run.parts[1]}` have no comma between them")


def _is_list_of_texts(node: ast.List | ast.Tuple | ast.Set) -> bool:
    return len(node.elts) >= _MIN_ELEMENTS and all(literal_text(element) is not None for element in node.elts)


def _is_slip(run: _Run) -> bool:
    """Two short words on two lines, without a space at the join and without parentheses."""
    if len(run.parts) != 2 or run.parenthesised or run.lines[0] == run.lines[1]:  # noqa: PLR2004 - a pair
        return False
    first, second = (part.strip("'\"") for part in run.parts)
    short = len(first) <= _MAX_PART and len(second) <= _MAX_PART
    return short and bool(first and second) and not (first.endswith((" ", "\\n")) or second.startswith(" "))


def _runs(module: PythonModule) -> dict[tuple[int, int], _Run]:
    """{(line, column from 0) of the first literal: the run}, for runs of two literals or more."""
    runs: dict[tuple[int, int], _Run] = {}
    current: list[tokenize.TokenInfo] = []
    opened = False
    before = ""
    for token in module.tokens:
        if token.type == tokenize.STRING:
            if not current:
                opened = before == "("
            current.append(token)
        elif token.type not in _LINE_IGNORED:
            if len(current) > 1:
                lines, parts = tuple(one.start[0] for one in current), tuple(one.string for one in current)
                runs[current[0].start] = _Run(lines, parts, opened and token.string == ")")
            current = []
            before = token.string
    return runs
