"""Selection: which findings are worth a maintainer's time, of all that ruff and the checks can tell."""

from __future__ import annotations

import ast
import builtins
import contextlib
import itertools
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ether.review.scout.files.words import words
from ether.review.scout.findings.finding import Finding
from ether.review.scout.findings.rule import RULES_OF_RUFF
from ether.review.scout.python.module import FUNCTIONS, Function, PythonModule, last_name
from ether.review.scout.ruff import Diagnostic
from ether.review.scout.suppression import is_told

__all__ = ["select"]


def select(
    module: PythonModule, diagnostics: Iterable[Diagnostic], cancelled: Callable[[], bool] = bool
) -> Iterator[Finding]:
    """The findings of ruff in a module that are worth telling; without those that a comment settles.

    Args:
        module: where they are.
        diagnostics: what ruff said, of the very text that the module was parsed from.
        cancelled: asked before each; when true, the rest is left out.
    """
    for one in diagnostics:
        if cancelled():
            return
        rule = RULES_OF_RUFF[one.code]
        keep = _KEEP.get(rule.name)
        if keep is None or keep(module, one):
            symbol = module.symbol(module.function_at(one.line))
            what = one.message if "`" in one.message else f"{one.message} (`{_brief(_text(module, one))}`)"
            finding = rule.on(module.name, one.line, what, column=one.column, symbol=symbol)
            if is_told(module, finding):
                yield finding


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
_ITSELF: Final = re.compile(r"\A\s*+([\w.]++) = \1\s*+(?:#|\Z)")
_SECOND_NAME: Final = re.compile(r"\A[^=]*+=.*\w =[^=]")
_DEFINES: Final = re.compile(r"\A\s*+(?:async |def |class |@)")
_EQUALS: Final = re.compile("[=!]=")
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
    first, *rest = module.source.lines[one.line - 1 : one.end_line]
    if not rest:
        return first[one.column - 1 : one.end_column - 1]
    return "\n".join([first[one.column - 1 :], *rest[:-1], rest[-1][: one.end_column - 1]])


def _line_has(module: PythonModule, one: Diagnostic, pattern: re.Pattern[str]) -> bool:
    return module.once(_is_in_line, (pattern, one.line))


def _is_in_line(module: PythonModule, about: tuple[re.Pattern[str], int]) -> bool:
    pattern, line = about
    return pattern.search(module.source.lines[line - 1]) is not None


def _code(module: PythonModule, one: Diagnostic) -> str:
    """The whole call that begins at a place (ruff often points at the name that is called), or the text there."""
    calls = module.at_place(ast.Call, one.line, one.column)  # the longest first
    with contextlib.suppress(RecursionError):
        return ast.unparse(calls[0]) if calls else _text(module, one)
    return _text(module, one)


def _brief(text: str) -> str:
    return " ".join(text.split())[:40]


def _is_no_facade(module: PythonModule, one: Diagnostic) -> bool:
    """Whether the module does more than to offer what others define, and the line does not say why it imports."""
    if module.name.rpartition("/")[2] in _FACADES or any(
        module.once(_explains, line) for line in (one.line - 1, one.line)
    ):
        return False
    return not module.once(_is_quiet, None) and not _is_mentioned(module, one)


def _explains(module: PythonModule, line: int) -> bool:
    return bool(_EXPLAINS.search(module.comments.get(line, "")))


def _is_quiet(module: PythonModule, _: None) -> bool:
    """Whether nothing is defined in the module."""
    quiet = (ast.Import, ast.ImportFrom, ast.Expr, ast.Assign, ast.AnnAssign, ast.If, ast.Try)
    return all(isinstance(node, quiet) for node in module.tree.body)


def _is_mentioned(module: PythonModule, one: Diagnostic) -> bool:
    """Whether the name stands elsewhere too: in a comment about types, a doctest, a text, a second import of it.

    A submodule that is imported for its effect counts, and what a module takes from a private one to offer it.
    """
    shown = re.findall(r"\w+", one.message.partition("` ")[0])[-1]
    name = module.once(_aliases, None).get((one.line, shown), shown)
    return module.once(_offers, one.line) or module.once(_mentions, None)[name] > 1


def _aliases(module: PythonModule, _: None) -> dict[tuple[int, str], str]:
    """{line and last part of what is imported: what it is called here}."""
    aliases = [(node.lineno, node.name.rpartition(".")[2], node.asname) for node in module.of(ast.alias)]
    return {(line, name): asname for line, name, asname in aliases if asname}


def _offers(module: PythonModule, number: int) -> bool:
    line = module.source.lines[number - 1]
    return "from ._" in line or (line.lstrip().startswith("import ") and "." in line)


def _mentions(module: PythonModule, _: None) -> Counter[str]:
    return Counter(re.findall(r"\w+", module.source.text))


def _has(module: PythonModule, word: str) -> bool:
    """Whether a word stands anywhere in the text."""
    return word in module.source.text


def _is_unsettled(module: PythonModule, one: Diagnostic) -> bool:
    """Whether a handler is no probe, and no comment in it or above it says why it is silent."""
    handler = module.once(_handlers, None).get(one.line)
    statement = module.parent(handler) if handler else None
    if handler is None or not isinstance(statement, (ast.Try, ast.TryStar)):
        return True
    if any(line in module.comments for line in range(handler.lineno - 1, (handler.end_lineno or 0) + 1)):
        return False
    if getattr(module.function_at(handler.lineno), "name", "") == "__del__":
        return False
    if module.once(_passes_on_from, statement) < handler.lineno:
        return False  # Ctrl-C has its own clause
    parts = list(ast.walk(handler))
    if any(isinstance(part, ast.Raise) or _PASSES_ON.search(last_name(part)) for part in parts):
        return False
    return not module.once(_is_probe, statement)


def _handlers(module: PythonModule, _: None) -> dict[int, ast.ExceptHandler]:
    """{line: the handler that begins there}."""
    return {handler.lineno: handler for handler in module.of(ast.ExceptHandler)}


def _passes_on_from(_: PythonModule, statement: ast.Try | ast.TryStar) -> float:
    """The line of the first clause that raises what it catches; infinite if none does."""
    return min((one.lineno for one in statement.handlers if isinstance(one.body[0], ast.Raise)), default=math.inf)


def _is_probe(_: PythonModule, statement: ast.Try | ast.TryStar) -> bool:
    parts = (part for top in statement.body for part in ast.walk(top) if isinstance(part, ast.stmt))
    return len(list(itertools.islice(parts, _PROBE + 1))) <= _PROBE


def _is_no_debugger(module: PythonModule, one: Diagnostic) -> bool:
    symbol = module.symbol(module.function_at(one.line))
    about = any(word in f"{module.name} {symbol}".lower() for word in ("debug", "pdb", "rdb", "trace", "breakpoint"))
    asked = any(module.is_inside(call, _is_if) for call in module.at_place(ast.Call, one.line, one.column))
    return one.message.startswith("Trace") and not about and not asked


def _is_if(node: ast.AST) -> bool:
    return isinstance(node, ast.If)


def _has_known_signature(module: PythonModule, one: Diagnostic) -> bool:
    """Whether a function has no parameters that its signature hides, and the line is an entry of its docstring."""
    function = module.function_at(one.line)
    if function is None or function.decorator_list or function.args.kwarg is not None:
        return False
    line, above = module.source.lines[one.line - 1], max(one.line - 1 - function.lineno, 0)
    fences = module.once(_fences, None)
    in_fence = (fences[function.lineno + above] - fences[function.lineno]) % 2
    in_example = in_fence or len(line) - len(line.lstrip()) > module.once(_examples, function)[above]
    return ":" in line and not in_example and one.message.partition("`")[2][:1].islower()


def _has_plain_slots(module: PythonModule, one: Diagnostic) -> bool:
    """Whether no metaclass adds slots, and the class binds nothing of that name itself, such as a descriptor."""
    function = module.function_at(one.line)
    owner = module.parent(function) if function else module.tree
    return isinstance(owner, ast.ClassDef) and not owner.keywords and one.subject not in module.stored_names(owner)


def _fences(module: PythonModule, _: None) -> list[int]:
    """How many fences of Markdown stand in the first line, the first two and so on; 0 in none."""
    return [*itertools.accumulate((line.count("```") for line in module.source.lines), initial=0)]


def _examples(module: PythonModule, function: Function) -> list[int]:
    """How far in the least indented line with `::` at its end stands: of no line of a function, the first, and so on."""
    lines = module.source.lines[function.lineno : function.end_lineno]
    begins = (len(line) - len(line.lstrip()) if line.rstrip().endswith("::") else sys.maxsize for line in lines)
    return [*itertools.accumulate(begins, min, initial=sys.maxsize)]


def _is_kept(module: PythonModule, one: Diagnostic) -> bool:
    """Whether the function changes, returns or stores the object: only then a later call sees it."""
    function = module.function_at(one.line)
    if function is None:
        return True
    name = module.once(_defaults, function).get((one.line, one.column), "_")
    uses = module.once(_uses, function).get(name, [])
    rebound = any(isinstance(use.ctx, ast.Store) and isinstance(module.parent(use), ast.Assign) for use in uses)
    return not rebound and not name.startswith("_") and any(_outlives(module, use) for use in uses)


def _defaults(module: PythonModule, function: Function) -> dict[tuple[int, int], str]:
    """{line and column of a default: the argument}."""
    spec = function.args
    pairs = [*zip(reversed([*spec.posonlyargs, *spec.args]), reversed(spec.defaults), strict=False)]
    pairs += [(arg, value) for arg, value in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if value]
    return {(value.lineno, module.column(value)): arg.arg for arg, value in pairs}


def _uses(_: PythonModule, function: Function) -> dict[str, list[ast.Name]]:
    """{name: where it stands in a function}."""
    uses: dict[str, list[ast.Name]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            uses.setdefault(node.id, []).append(node)
    return uses


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
    holders = [module.parent(text) for text in module.at_place(ast.Constant, one.line, one.column)]
    return any(isinstance(holder, ast.Call) and last_name(holder) in _SHOWING for holder in holders)


def _returns_a_value(module: PythonModule, one: Diagnostic) -> bool:
    """Whether it is no `return super().__init__(...)`, which returns None."""
    return not any(isinstance(node.value, ast.Call) for node in module.at_place(ast.Return, one.line, one.column))


def _is_no_trial(module: PythonModule, one: Diagnostic) -> bool:
    """Whether a statement stands in no `try` or `with`: there it may be meant to raise."""
    found = [*module.at_place(ast.Call, one.line, one.column), *module.at_place(ast.Compare, one.line, one.column)]
    return not any(module.is_inside(node, _is_trial) for node in found)


def _is_trial(node: ast.AST) -> bool:
    return isinstance(node, (ast.With, ast.AsyncWith, ast.Try))


def _is_no_branch(module: PythonModule, one: Diagnostic) -> bool:
    """Whether `x = x` stands in a function and is not all that a branch does: then it says that nothing happens."""
    if module.function_at(one.line) is None or not _line_has(module, one, _ITSELF):
        return False
    alone = [[node] for node in module.at(one.line) if isinstance(node, ast.stmt)]
    holder = module.parent(alone[0][0]) if alone else module.tree
    return isinstance(holder, FUNCTIONS) or not any(getattr(holder, name, None) in alone for name in ("body", "orelse"))


def _is_no_registration(module: PythonModule, one: Diagnostic) -> bool:
    """Whether a function or class is replaced that no decorator has kept."""
    return _line_has(module, one, _DEFINES) and one.subject not in module.once(_kept, None)


def _kept(module: PythonModule, _: None) -> set[str]:
    """The names of the functions with decorators, and those that a `global` statement has."""
    decorated = {function.name for function in module.functions if function.decorator_list}
    return decorated.union(*(node.names for node in module.of(ast.Global)))


def _is_asked(module: PythonModule, one: Diagnostic) -> bool:
    """Whether a name is bound nowhere, and stands in no code that asks first, nor in a test that expects the error."""
    if module.once(_has, "NameError") or module.once(_has, "globals()"):
        return False
    names = module.at_place(ast.Name, one.line, one.column)
    bound, annotations = module.once(_bound, None), module.once(_annotations, None)
    elsewhere = any(name.id in bound or module.is_guarded(name) for name in names)
    return not elsewhere and not ("annotations" in module.origins and any(name in annotations for name in names))


def _bound(module: PythonModule, _: None) -> set[str]:
    """The names that anything in the module assigns to."""
    return {node.id for node in module.of(ast.Name) if isinstance(node.ctx, ast.Store)}


def _annotations(module: PythonModule, _: None) -> set[ast.AST]:
    """What annotations are made of."""
    returns = [function.returns for function in module.functions if function.returns]
    return {part for top in (*module.of(ast.arg), *module.of(ast.AnnAssign), *returns) for part in ast.walk(top)}


def _is_guarded_at(module: PythonModule, line: int) -> bool:
    return any(map(module.is_guarded, module.at(line)))


def _is_put_together(module: PythonModule, line: int) -> bool:
    """Whether a list takes in another."""
    kinds = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)
    statements = (node for node in module.at(line) if isinstance(node, kinds))
    return any(isinstance(part, ast.Starred) for node in statements for part in ast.walk(node))


_KEEP: Final[dict[str, Callable[[PythonModule, Diagnostic], bool]]] = {
    "bare-except": _is_unsettled,
    "cached-method": lambda module, one: re.search(r"maxsize=None|\bcache$|\(None", _code(module, one)) is not None,
    "changed-while-iterated": lambda module, one: _REMOVES.search(_code(module, one)) is not None,
    "default-evaluated-once": lambda _, one: bool(_MOMENT.search(one.message)),
    "exception-not-raised": lambda module, one: (
        _is_no_trial(module, one) and hasattr(builtins, _text(module, one).partition("(")[0])
    ),
    "forgotten-f": _is_shown,
    "hidden-text-direction": lambda module, one: not _line_has(module, one, _RIGHT_TO_LEFT),
    "init-returns-value": _returns_a_value,
    "leftover-breakpoint": _is_no_debugger,
    "logging-format": lambda module, one: "%" in _code(module, one),
    "mutable-default": _is_kept,
    "nan-comparison": lambda module, one: _line_has(module, one, _EQUALS),
    "not-in-slots": _has_plain_slots,
    "positional-flags": lambda module, one: re.search(r", re\.[A-Z][A-Z re.|]*\)$", _code(module, one)) is not None,
    "redefinition": _is_no_registration,
    "removed-from-python": lambda module, one: (
        not module.once(_is_guarded_at, one.line) and (one.code != "UP005" or module.once(_has, "TestCase"))
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
        not module.source.is_init
        and not any(module.once(_has, word) for word in ("def __getattr__", "sys.modules", "globals()"))
    ),
    "undefined-name": _is_asked,
    "unsafe-yaml": lambda module, one: (
        "**" not in _code(module, one) and re.search(r"loader `(?!C?(?:Full|Unsafe)?Loader`)", one.message) is None
    ),
    "unused-comparison": _is_no_trial,
    "unused-import": _is_no_facade,
    "unused-variable": lambda module, one: (
        one.line not in module.once(_handlers, None) and not _line_has(module, one, _SECOND_NAME)
    ),
    "wrong-all": lambda module, one: not module.once(_is_put_together, one.line),
}
"""{rule: whether a finding of it is worth telling}; those of other rules always are."""
