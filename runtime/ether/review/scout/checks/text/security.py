"""Ways in for an attacker: shells, evaluated text, unsafe loaders, secrets in the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from ether.review.scout.files.words import words
from ether.review.scout.findings.finding import Confidence, Finding, Severity
from ether.review.scout.findings.rule import Rule
from ether.review.scout.python.module import PythonModule
from ether.review.scout.python.syntax_queries import is_literal, last_name, literal_text, shown

__all__ = ["RULES", "TOKENS", "TOKEN_IN_TEXT", "check"]

SHELL = Rule(
    "shell-injection",
    Severity.WARNING,
    "the shell interprets what is filled in, so a value with `;` or `$(...)` runs commands",
    "Pass a list of arguments without a shell, or quote each value with shlex.quote.",
    Confidence.MEDIUM,
    codes=("S602", "S604", "S605", "B602", "B604", "B605", "W1510"),
)
EVALUATED = Rule(
    "evaluated-text",
    Severity.INFO,
    "the text comes from outside the program, so whoever can change it can run anything",
    "Read plain data with ast.literal_eval or json, or make sure that nobody else can write the source.",
    Confidence.MEDIUM,
    codes=("S307", "S102", "B307", "B102", "W0122", "W0123", "eval-used", "exec-used", "PGH001"),
)
YAML_LOAD = Rule(
    "unsafe-yaml",
    Severity.WARNING,
    "this loader makes any Python object that the document asks for, which runs code",
    "Call yaml.safe_load.",
    codes=("S506", "B506"),
)
NO_VERIFICATION = Rule(
    "unverified-tls",
    Severity.WARNING,
    "without verification anyone on the way can read and change the traffic",
    "Verify, with the right CA bundle.",
    codes=("S501", "B501", "S323", "B323"),
)
TEMPORARY_NAME = Rule(
    "predictable-temporary-name",
    Severity.WARNING,
    "another process can take the name between the choice and the use of it",
    "Use tempfile.mkstemp or tempfile.TemporaryDirectory.",
    codes=("S306", "B306"),
)
SECRET = Rule(
    "secret-in-source",
    Severity.WARNING,
    "everyone with the source, and with its history, has it",
    "Read it from the environment or a secret store, and replace the one that leaked.",
    Confidence.MEDIUM,
    codes=("S105", "S106", "S107", "B105", "B106", "B107"),
)
TOKEN_IN_TEXT = Rule(
    "token-in-source",
    Severity.ERROR,
    "everyone with the source, and with its history, has it",
    "Revoke it, and read the new one from the environment or a secret store.",
    codes=("S105", "S106", "S107", "B105", "B106", "B107"),
    in_tests=True,
)
RULES: Final = (SHELL, EVALUATED, YAML_LOAD, NO_VERIFICATION, TEMPORARY_NAME, SECRET, TOKEN_IN_TEXT)

TOKENS: Final = re.compile(
    r"\b(?:AKIA(?![0-9A-Z]*EXAMPLE)[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{60,}|sk_live_[A-Za-z0-9]{24,}"
    r"|xox[baprs]-[0-9]{8,}-[A-Za-z0-9-]{16,}|AIza[0-9A-Za-z_\-]{35}|glpat-[A-Za-z0-9_\-]{20})\b"
)
"""Tokens whose form gives them away: AWS, GitHub, Stripe, Slack, Google, GitLab."""

_RUNNERS: Final = words(
    "subprocess.run subprocess.call subprocess.check_call subprocess.check_output subprocess.Popen subprocess.getoutput"
)
_SHELLS: Final = frozenset({"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"})
_READERS: Final = frozenset({"read", "read_text", "readline", "recv", "getenv"})
_OUTSIDE: Final = frozenset({"input", "os.environ", "os.getenv", "sys.argv", "sys.stdin"})
_UNSAFE_LOADERS: Final = frozenset({"Loader", "CLoader", "UnsafeLoader", "CUnsafeLoader"})
_SECRET_NAME: Final = re.compile(
    r"(?:^|_)(?:password|passwd|pwd|secret|api_?key|auth_?token|access_?token|private_?key)$", re.IGNORECASE
)
_PLACEHOLDER: Final = re.compile(
    r"example|change|dummy|placeholder|your|test|fake|sample|default|secret|passw|token|xxx|[<>{}$%*.\s/:]",
    re.IGNORECASE,
)
_MIN_SECRET: Final = 8


def check(module: PythonModule) -> Iterator[Finding]:
    """Shells with filled-in commands, `eval`, unsafe YAML, disabled TLS checks, temporary names, secrets."""
    for call in module.of(ast.Call):
        target = module.dotted(call.func)
        yield from _shell(module, call, target)
        if target in {"eval", "exec"}:
            yield from _evaluated(module, call)
        elif target == "yaml.load":
            yield from _yaml(module, call)
        elif target == "tempfile.mktemp":
            yield TEMPORARY_NAME.at(module, call, "`tempfile.mktemp`")
        elif target.startswith(("requests.", "httpx.")) and _disables(call, "verify"):
            yield NO_VERIFICATION.at(module, call, f"`{shown(call)}` with verify=False")
        elif target == "ssl._create_unverified_context":
            yield NO_VERIFICATION.at(module, call, f"`{shown(call)}`")
    yield from _secrets(module)
    for constant in module.of(ast.Constant):
        text = constant.value
        if isinstance(text, str) and len(text) < 10_000 and (match := TOKENS.search(text)):  # noqa: PLR2004
            yield TOKEN_IN_TEXT.at(module, constant, f"`{match[0][:8]}…` is a live kind of token")


def _shell(module: PythonModule, call: ast.Call, target: str) -> Iterator[Finding]:
    uses_shell = target in _SHELLS or (target in _RUNNERS and _is_true(call, "shell"))
    if not uses_shell or not call.args or is_literal(call.args[0]):
        return
    command = call.args[0]
    if not isinstance(command, (ast.JoinedStr, ast.BinOp)) and not _is_format(command):
        return  # a variable: whoever filled it is to be asked, not this line
    if not any(last_name(part) in {"quote", "join", "list2cmdline"} for part in ast.walk(command)):
        yield SHELL.at(module, call, f"`{shown(command)}` goes to a shell")


def _is_format(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format"


def _is_true(call: ast.Call, name: str) -> bool:
    return any(
        keyword.arg == name and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        for keyword in call.keywords
    )


def _disables(call: ast.Call, name: str) -> bool:
    return any(
        keyword.arg == name and isinstance(keyword.value, ast.Constant) and keyword.value.value is False
        for keyword in call.keywords
    )


def _evaluated(module: PythonModule, call: ast.Call) -> Iterator[Finding]:
    if call.args and any(_comes_from_outside(module, part) for part in ast.walk(call.args[0])):
        yield EVALUATED.at(module, call, f"`{shown(call)}`")


def _comes_from_outside(module: PythonModule, node: ast.AST) -> bool:
    """Whether an expression reads a file, the environment, the command line or the keyboard."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _READERS:
        return True
    return isinstance(node, (ast.Name, ast.Attribute)) and module.dotted(node) in _OUTSIDE


def _yaml(module: PythonModule, call: ast.Call) -> Iterator[Finding]:
    loaders = [keyword.value for keyword in call.keywords if keyword.arg == "Loader"] + call.args[1:2]
    if any(keyword.arg is None for keyword in call.keywords):
        return
    if not loaders:
        what = f"`{shown(call)}` has no Loader: PyYAML 6 raises TypeError, and before it"
        yield YAML_LOAD.at(module, call, what, severity=Severity.ERROR)
    elif last_name(loaders[0]) in _UNSAFE_LOADERS:
        yield YAML_LOAD.at(module, call, f"`{shown(call)}`")


def _secrets(module: PythonModule) -> Iterator[Finding]:
    pairs: list[tuple[str, ast.expr]] = []
    for node in module.of(ast.Assign):
        pairs += [(last_name(target), node.value) for target in node.targets]
    for keyword in module.of(ast.keyword):
        pairs.append((keyword.arg or "", keyword.value))
    for name, value in pairs:
        text = literal_text(value)
        if text and _SECRET_NAME.search(name) and _is_secret(text):
            yield SECRET.at(module, value, f"`{name}` is set to a literal of {len(text)} characters")


def _is_secret(text: str) -> bool:
    """Whether a literal looks chosen at random: letters and digits, and no word of an example."""
    mixed = any(character.isdigit() for character in text) and any(character.isalpha() for character in text)
    return mixed and len(text) >= _MIN_SECRET and not _PLACEHOLDER.search(text)
