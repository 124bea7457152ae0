"""Selection: which findings are worth a maintainer's time, of all that ruff and the checks can tell."""

from __future__ import annotations

import ast
import builtins
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ether.review.scout.files.words import words
from ether.review.scout.findings.finding import Finding, Severity
from ether.review.scout.findings.rule import RULES, RULES_OF_RUFF, Rule
from ether.review.scout.python.module import FUNCTIONS, PythonModule, last_name
from ether.review.scout.ruff import Diagnostic

__all__ = ["is_told", "select"]

_NOQA: Final = re.compile(r"#\s*noqa(?P<codes>:\s*[A-Za-z0-9_\-, ]+)?", re.IGNORECASE)
_PYLINT: Final = re.compile(r"#\s*(?:pylint:\s*disable=|type:\s*ignore\[)(?P<codes>[\w\-, ]+)")
_FILE_WIDE: Final = re.compile(r"#\s*(?:flake8|ruff):\s*noqa\s*(?::\s*(?P<codes>[A-Z0-9, ]+))?\s*$", re.IGNORECASE)


def select(module: PythonModule, diagnostics: Iterable[Diagnostic]) -> Iterator[Finding]:
    """The findings of ruff in a module that are worth telling; without those that a comment settles."""
    for one in diagnostics:
        rule = RULES_OF_RUFF[one.code]
        keep = _KEEP.get(rule.name)
        if keep is None or keep(module, one):
            symbol = module.symbol(module.function_at(one.line))
            what = one.message if "`" in one.message else f"{one.message} (`{_brief(_text(module, one))}`)"
            finding = rule.on(module.name, one.line, what, column=one.column, symbol=symbol)
            if is_told(module, finding):
                yield finding


def is_told(module: PythonModule, finding: Finding) -> bool:
    """Whether a finding concerns the file, and its maintainer has not decided otherwise in a comment."""
    rule = RULES[finding.rule]
    if module.source.is_test and not rule.in_tests:
        return False
    if finding.severity is Severity.INFO and any(map(_is_demonstration, _round(module, finding.line))):
        return False
    around = [node for node in module.of(ast.ImportFrom) if node.lineno <= finding.line <= (node.end_lineno or 0)]
    lines = [finding.line, *(node.end_lineno or 0 for node in around)]
    comment = " ".join(module.comments.get(line, "") for line in lines)
    marks = [_NOQA.search(comment), _PYLINT.search(comment), *map(_FILE_WIDE.search, module.comments.values())]
    about_security = any(code.startswith("S") and code[1:].isdigit() for code in rule.ruff)
    return not (("nosec" in comment and about_security) or any(_speaks_of(rule, mark) for mark in marks))


def _round(module: PythonModule, line: int) -> Iterator[ast.AST]:
    for node in module.at(line):
        yield from module.ancestors(node)


def _is_demonstration(node: ast.AST) -> bool:
    """Whether what is below runs as a script only, or shows how the module is used."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Compare):
        return last_name(node.test.left) == "__name__"
    return isinstance(node, FUNCTIONS) and "demo" in node.name


def _speaks_of(rule: Rule, mark: re.Match[str] | None) -> bool:
    """Whether a comment speaks of the rule; without codes it speaks of all."""
    if mark is None or mark["codes"] is None:
        return mark is not None
    named = {code.lower() for code in re.split(r"[,\s:]+", mark["codes"])}
    return not named.isdisjoint(name.lower() for name in (rule.name, *rule.ruff, *rule.codes))


_EXPLAINS: Final = re.compile(
    r"re-?export|side.?effect|unused|compat|registers?\b|\bexpos|public api|for api", re.IGNORECASE
)
_FACADES: Final = words("__init__.py conftest.py compat.py _compat.py api.py setup.py")
_MOMENT: Final = re.compile(r"(?:\b|`)(?:time|now|utcnow|today|monotonic|uuid[14]|random|getcwd|getenv|cwd)`")
_FILLED_IN: Final = re.compile(r"""\b[fF]["']|["']\s*%|\.format\(|["']\s*\+|\+\s*["']""")
_PASSES_ON: Final = re.compile(
    r"^(?:exc_info|_?exit|abort|set_exception|print_exc|format_exc|excepthook|exception|fail)$|re_?raise"
)
"""Calls in a handler that keep the exception, or end the program: nothing is lost then."""
_ITSELF: Final = re.compile(r"\s*([\w.]+) = \1\s*(?:#.*)?")
_PROBE: Final = 4
"""Statements: so short a body asks whether something works, which is mostly meant."""
_RIGHT_TO_LEFT: Final = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
"""Letters of Hebrew, Arabic and their like: text in them needs marks of direction."""
_CHANGING: Final = words("append extend insert add update setdefault pop popitem remove discard clear sort reverse")
_REMOVES: Final = re.compile(r"\.(?:remove|pop|popitem|discard|clear)\(|^del\b")
_SHOWING: Final = words(
    "print debug info warning warn error exception critical ValueError TypeError RuntimeError KeyError Exception"
)


def _text(module: PythonModule, one: Diagnostic) -> str:
    lines = module.source.lines[one.line - 1 : one.end_line]
    lines[-1] = lines[-1][: one.end_column - 1]
    return "\n".join([lines[0][one.column - 1 :], *lines[1:]])


def _calls_at(module: PythonModule, one: Diagnostic) -> list[ast.Call]:
    """The calls that begin at a place, the longest first: ruff often points at the name that is called."""
    return [call for call in module.of(ast.Call) if (call.lineno, module.column(call)) == (one.line, one.column)]


def _code(module: PythonModule, one: Diagnostic) -> str:
    """The whole call that begins at a place, or the text that ruff points at."""
    return next((ast.unparse(call) for call in _calls_at(module, one)), _text(module, one))


def _brief(text: str) -> str:
    return " ".join(text.split())[:40]


def _is_no_facade(module: PythonModule, one: Diagnostic) -> bool:
    """Whether the module does more than to offer what others define, and the line does not say why it imports."""
    if module.name.rpartition("/")[2] in _FACADES or any(
        _EXPLAINS.search(module.comments.get(line, "")) for line in (one.line - 1, one.line)
    ):
        return False
    rest = (node for node in module.tree.body if not isinstance(node, (ast.Import, ast.ImportFrom)))
    quiet = (ast.Expr, ast.Assign, ast.AnnAssign, ast.If, ast.Try)
    return not all(isinstance(node, quiet) for node in rest) and not _is_mentioned(module, one)


def _is_mentioned(module: PythonModule, one: Diagnostic) -> bool:
    """Whether the name stands elsewhere too: in a comment about types, a doctest, a text, a second import of it.

    A submodule that is imported for its effect counts, and what a module takes from a private one to offer it.
    """
    aliases = [node for node in module.at(one.line) if isinstance(node, ast.alias) and node.asname]
    shown = re.findall(r"\w+", one.message.partition("` ")[0])[-1]
    name = next((node.asname for node in aliases if node.name.endswith(shown) and node.asname), shown)
    line = module.source.lines[one.line - 1]
    offers = "from ._" in line or (line.lstrip().startswith("import ") and "." in line)
    return offers or len(re.findall(rf"\b{name}\b", module.source.text)) > 1


def _is_unsettled(module: PythonModule, one: Diagnostic) -> bool:
    """Whether a handler is no probe, and no comment in it or above it says why it is silent."""
    handler = next((node for node in module.of(ast.ExceptHandler) if node.lineno == one.line), None)
    statement = module.parent(handler) if handler else None
    if handler is None or not isinstance(statement, (ast.Try, ast.TryStar)):
        return True
    if any(line in module.comments for line in range(handler.lineno - 1, (handler.end_lineno or 0) + 1)):
        return False
    function = module.function(handler)
    if getattr(function, "name", "") == "__del__":
        return False
    clauses = statement.handlers[: statement.handlers.index(handler)]
    if any(isinstance(clause.body[0], ast.Raise) for clause in clauses):
        return False  # Ctrl-C has its own clause
    parts = list(ast.walk(handler))
    if any(isinstance(part, ast.Raise) or _PASSES_ON.search(last_name(part)) for part in parts):
        return False
    body = [part for top in statement.body for part in ast.walk(top) if isinstance(part, ast.stmt)]
    return len(body) > _PROBE


def _is_no_debugger(module: PythonModule, one: Diagnostic) -> bool:
    symbol = module.symbol(module.function_at(one.line))
    about = any(word in f"{module.name} {symbol}".lower() for word in ("debug", "pdb", "rdb", "trace", "breakpoint"))
    calls = [call for call in module.of(ast.Call) if call.lineno == one.line]
    asked = any(isinstance(above, ast.If) for call in calls for above in module.ancestors(call))
    return one.message.startswith("Trace") and not about and not asked


def _has_known_signature(module: PythonModule, one: Diagnostic) -> bool:
    """Whether a function has no parameters that its signature hides, and the line is an entry of its docstring."""
    function = module.function_at(one.line)
    if function is None or function.decorator_list or function.args.kwarg is not None:
        return False
    above, line = module.source.lines[function.lineno : one.line - 1], module.source.lines[one.line - 1]
    indents = [len(one) - len(one.lstrip()) for one in above if one.rstrip().endswith("::")] or [len(line)]
    in_example = sum(one.count("```") for one in above) % 2 or len(line) - len(line.lstrip()) > min(indents)
    return ":" in line and not in_example and one.message.partition("`")[2][:1].islower()


def _has_plain_slots(module: PythonModule, one: Diagnostic) -> bool:
    """Whether no metaclass adds slots, and the class binds nothing of that name itself, such as a descriptor."""
    name = one.message.partition("`")[2].partition("`")[0]
    function = module.function_at(one.line)
    owner = module.parent(function) if function else module.tree
    return isinstance(owner, ast.ClassDef) and not owner.keywords and name not in module.stored_names(owner)


def _is_kept(module: PythonModule, one: Diagnostic) -> bool:
    """Whether the function changes, returns or stores the object: only then a later call sees it."""
    function = module.function_at(one.line)
    if function is None:
        return True
    spec = function.args
    pairs = [*zip(reversed([*spec.posonlyargs, *spec.args]), reversed(spec.defaults), strict=False)]
    pairs += [(arg, value) for arg, value in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if value]
    names = {arg.arg for arg, value in pairs if (value.lineno, module.column(value)) == (one.line, one.column)}
    uses = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id in names]
    rebound = any(isinstance(use.ctx, ast.Store) and isinstance(module.parent(use), ast.Assign) for use in uses)
    is_cache = any(name.startswith("_") for name in names)
    return not rebound and not is_cache and any(_outlives(module, use) for use in uses)


def _outlives(module: PythonModule, use: ast.Name) -> bool:
    match module.parent(use):
        case ast.Attribute(attr=attr):
            return attr in _CHANGING
        case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.AugAssign() | ast.Return():
            return True
        case ast.Assign(targets=targets):
            return any(isinstance(target, (ast.Attribute, ast.Subscript)) for target in targets)
        case _:
            return False


def _is_shown(module: PythonModule, one: Diagnostic) -> bool:
    """Whether a text with braces goes to people: it is printed, logged or raised, and fills in nothing itself."""
    texts = [node for node in module.of(ast.Constant) if (node.lineno, module.column(node)) == (one.line, one.column)]
    holders = [module.parent(text) for text in texts]
    return any(isinstance(holder, ast.Call) and last_name(holder) in _SHOWING for holder in holders)


def _returns_a_value(module: PythonModule, one: Diagnostic) -> bool:
    """Whether it is no `return super().__init__(...)`, which returns None."""
    returns = (node for node in module.of(ast.Return) if node.lineno == one.line)
    return not any(isinstance(node.value, ast.Call) for node in returns)


def _is_no_trial(module: PythonModule, one: Diagnostic) -> bool:
    """Whether a statement stands in no `try` or `with`: there it may be meant to raise."""
    statements = (node for node in module.of(ast.Expr) if node.lineno == one.line)
    kinds = (ast.With, ast.AsyncWith, ast.Try)
    return not any(isinstance(above, kinds) for node in statements for above in module.ancestors(node))


def _is_no_branch(module: PythonModule, one: Diagnostic) -> bool:
    """Whether `x = x` stands in a function and is not all that a branch does: then it says that nothing happens."""
    alone = [[node] for node in module.at(one.line) if isinstance(node, ast.stmt)]
    holder = module.parent(alone[0][0]) if alone else module.tree
    is_branch = any(getattr(holder, name, None) in alone for name in ("body", "orelse"))
    whole = _ITSELF.fullmatch(module.source.lines[one.line - 1])
    return (
        whole is not None
        and (isinstance(holder, FUNCTIONS) or not is_branch)
        and module.function_at(one.line) is not None
    )


def _is_no_registration(module: PythonModule, one: Diagnostic) -> bool:
    """Whether a function or class is replaced that no decorator has kept."""
    if not re.match(r"\s*(?:async |def |class |@)", module.source.lines[one.line - 1]):
        return False
    name = one.message.partition("`")[2].partition("`")[0]
    functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = [*module.of(ast.FunctionDef)]
    functions += module.of(ast.AsyncFunctionDef)
    replaced = any(name in node.names for node in module.of(ast.Global))
    return not replaced and not any(one.name == name and one.decorator_list for one in functions)


def _is_asked(module: PythonModule, one: Diagnostic) -> bool:
    """Whether a name is bound nowhere, and stands in no code that asks first, nor in a test that expects the error."""
    names = [node for node in module.of(ast.Name) if (node.lineno, module.column(node)) == (one.line, one.column)]
    bound = {node.id for node in module.of(ast.Name) if isinstance(node.ctx, ast.Store)}
    elsewhere = any(name.id in bound or module.is_guarded(name) for name in names)
    later = "annotations" in module.origins and any(_is_annotation(module, name) for name in names)
    return not elsewhere and not later and not re.search(r"NameError|globals\(\)", module.source.text)


def _is_annotation(module: PythonModule, name: ast.Name) -> bool:
    above = [name, *module.ancestors(name)]
    return any(
        isinstance(one, (ast.arg, ast.AnnAssign)) or getattr(holder, "returns", None) is one
        for one, holder in itertools.pairwise(above)
    )


_KEEP: Final[dict[str, Callable[[PythonModule, Diagnostic], bool]]] = {
    "bare-except": _is_unsettled,
    "cached-method": lambda module, one: re.search(r"maxsize=None|\bcache$|\(None", _code(module, one)) is not None,
    "changed-while-iterated": lambda module, one: _REMOVES.search(_code(module, one)) is not None,
    "default-evaluated-once": lambda _, one: bool(_MOMENT.search(one.message)),
    "exception-not-raised": lambda module, one: (
        _is_no_trial(module, one) and hasattr(builtins, _text(module, one).partition("(")[0])
    ),
    "forgotten-f": _is_shown,
    "hidden-text-direction": lambda module, one: not _RIGHT_TO_LEFT.search(module.source.lines[one.line - 1]),
    "init-returns-value": _returns_a_value,
    "leftover-breakpoint": _is_no_debugger,
    "logging-format": lambda module, one: "%" in _code(module, one),
    "mutable-default": _is_kept,
    "nan-comparison": lambda module, one: re.search("[=!]=", module.source.lines[one.line - 1]) is not None,
    "not-in-slots": _has_plain_slots,
    "positional-flags": lambda module, one: re.search(r", re\.[A-Z][A-Z re.|]*\)$", _code(module, one)) is not None,
    "redefinition": _is_no_registration,
    "removed-from-python": lambda module, one: (
        not any(map(module.is_guarded, module.at(one.line)))
        and (one.code != "UP005" or "TestCase" in module.source.text)
    ),
    "request-without-timeout": lambda module, one: "**" not in _code(module, one),
    "self-assignment": _is_no_branch,
    "shell-injection": lambda module, one: (
        bool(_FILLED_IN.search(_code(module, one))) and "quote" not in _code(module, one)
    ),
    "stale-parameter": _has_known_signature,
    "strip-takes-characters": lambda module, one: re.search(r"\w\w", _text(module, one).rpartition("(")[2]) is not None,
    "swallowed-exception": _is_unsettled,
    "undefined-export": lambda module, _: (
        not module.is_init and not re.search(r"def __getattr__|sys\.modules|globals\(\)", module.source.text)
    ),
    "undefined-name": _is_asked,
    "unsafe-yaml": lambda module, one: (
        "**" not in _code(module, one) and re.search(r"loader `(?!C?(?:Full|Unsafe)?Loader`)", one.message) is None
    ),
    "unused-comparison": _is_no_trial,
    "unused-import": _is_no_facade,
    "unused-variable": lambda module, one: (
        re.search(r"\bexcept\b|=.*\w =[^=]", module.source.lines[one.line - 1]) is None
    ),
    "wrong-all": lambda module, one: (
        not any(isinstance(part, ast.Starred) for node in module.at(one.line) for part in ast.walk(node))
    ),
}
"""{rule: whether a finding of it is worth telling}; those of other rules always are."""
