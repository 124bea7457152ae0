"""The report of a review as Markdown: the same data as the JSON, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from ether.review.scout.files.words import plural
from ether_broker.text import markdown, markdown_cell, markdown_code

__all__ = ["render"]

_PASSES: Final = ("structure", "bugs", "documentation")


def render(report: dict[str, Any]) -> str:
    """Write the report; nothing stands here that is not in `report`."""
    lines = [
        "# Code review",
        "",
        f"Generated {report['generated']} ({report['schema']}). The same data: `review.json`.",
        "",
        *_summary(report["summary"]),
        *_failures(report["failures"]),
        *_rules(report["rules"]),
        *_top(report["top_findings"]),
        *_hot_files(report["hot_files"]),
    ]
    rules = {rule["rule"]: rule for rule in report["rules"]}
    for directory in report["directories"]:
        lines += _directory(directory, rules)
    lines += _limits(report["limits"])
    return "\n".join(lines).rstrip() + "\n"


def _summary(summary: dict[str, Any]) -> list[str]:
    tasks, findings = summary["tasks"], summary["findings"]
    rows = [
        ("Directories", f"{summary['directories']:,}"),
        ("Files", f"{summary['files']:,}"),
        ("Lines", f"{summary['lines']:,}"),
        ("Total tasks", f"{tasks['total']:,}"),
        ("Completed", f"{tasks['completed']:,}"),
        ("Partial", f"{tasks['partial']:,}"),
        ("Failed", f"{tasks['failed']:,}"),
        ("Findings", f"{findings['total']:,}"),
        ("Errors", f"{findings['error']:,}"),
        ("Warnings", f"{findings['warning']:,}"),
        ("Infos", f"{findings['info']:,}"),
        ("Total cost", f"${summary['cost_usd']:.4f}"),
        ("Time", f"{summary['wall_seconds']:.1f} s"),
        ("Work of all agents", f"{summary['work_seconds']:.1f} s"),
        ("Processes", "this one" if not summary["processes"] else f"{summary['processes']:,}"),
    ]
    return [markdown(summary["sentence"]), "", *_section("Summary", ("Metric", "Value"), rows)]


def _failures(failures: list[dict[str, Any]]) -> list[str]:
    rows = [
        (one["directory"], one["pass"], one["status"], f"{one['code'] or 'cut short'}: {one['message']}")
        for one in failures
    ]
    return _section("Failures", ("Directory", "Pass", "Status", "Reason"), rows)


def _rules(rules: list[dict[str, Any]]) -> list[str]:
    if not rules:
        return []
    lines = ["## What to do", ""]
    for number, one in enumerate(rules, 1):
        places = [_place(place, place["source"]) for place in one["places"]]
        rest = one["count"] - len(places)
        more = f" and {rest:,} more" if rest > 0 else ""
        head = f"**{markdown(one['rule'])}** ({one['count']:,})"
        lines.append(f"{number}. {head}: {markdown(one['why'])}. {markdown(one['fix'])} {', '.join(places)}{more}")
    return [*lines, ""]


def _top(findings: list[dict[str, Any]]) -> list[str]:
    rows = [
        (one["severity"], _place(one, one["source"]), markdown_code(one["rule"]), one["message"])
        for one in findings
    ]  # fmt: skip
    return _section("Top findings", ("Severity", "Place", "Rule", "What and why"), rows)


def _hot_files(files: list[dict[str, Any]]) -> list[str]:
    rows = [
        (markdown_code(f"{one['source']}/{one['path']}"), one["findings"], one["errors"], one["warnings"])
        for one in files[:10]
    ]
    return _section("Files with the most", ("File", "Findings", "Errors", "Warnings"), rows)


def _section(title: str, heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    return [f"## {title}", "", *_table(heads, rows), ""] if rows else []


def _place(one: dict[str, Any], source: str = "") -> str:
    return markdown_code(f"{source}/{one['path']}:{one['line']}".removeprefix("/"))


def _directory(directory: dict[str, Any], rules: dict[str, dict[str, Any]]) -> list[str]:
    size = f"{plural(directory['files'], 'file')}, {plural(directory['lines'], 'line')}"
    head = f"{size}, in {markdown_code(directory['path'])}."
    lines = [f"## {markdown(directory['name'])}", "", head, ""]
    for name in _PASSES:
        if name in directory["passes"]:
            lines += _pass(name, directory["passes"][name], rules)
    return lines


def _pass(name: str, result: dict[str, Any], rules: dict[str, dict[str, Any]]) -> list[str]:
    lines = [f"### {name.capitalize()}", ""]
    ran = f"{result['status']} by {markdown_code(result['agent'] or 'nobody')} in {result['seconds']:.1f} s"
    if "error" in result:
        return [*lines, f"**{ran}** {markdown(result['error']['message'])}", ""]
    lines += [f"{ran}.", ""]
    lines += [f"- {markdown(insight)}" for insight in result["insights"]]
    lines.append("")
    tables = _TABLES.get(name)
    if tables is not None and "omitted" not in result["data"]:
        lines += tables(result["data"])
    return lines + _findings(result, rules)


def _findings(result: dict[str, Any], rules: dict[str, dict[str, Any]]) -> list[str]:
    """Findings by rule, the reason once and then the places."""
    lines: list[str] = []
    groups: dict[str, list[dict[str, Any]]] = {}
    for finding in result["findings"]:
        groups.setdefault(finding["rule"], []).append(finding)
    for name, findings in groups.items():
        known = rules.get(name, {})
        count = result["by_rule"][name]
        why = markdown(known.get("why", ""))
        lines += [f"**{markdown(name)}** ({markdown(findings[0]['severity'])}, {count:,}): {why}.", ""]
        for finding in findings:
            what = finding["message"].removesuffix(f": {known.get('why', '')}")
            lines.append(f"- {_place(finding)} {markdown(what)}.")
        lines.append("")
    if result["findings_omitted"]:
        lines += [f"{result['findings_omitted']:,} more are counted and not shown.", ""]
    return lines


def _structure(data: dict[str, Any]) -> list[str]:
    imports = data["imports"]
    return [
        *_rows(data["languages"], ("language", "files", "lines"), "Languages"),
        *_rows(data["most_complex_functions"], ("path:line", "name", "complexity", "lines"), "Most complex"),
        *_rows(data["longest_functions"], ("path:line", "name", "lines", "complexity"), "Longest"),
        *_rows(imports["most_imported"], ("module", "path", "importers"), "Most imported"),
        *_steps(imports["cycles"]),
        *_rows(data["largest_files"], ("path", "lines"), "Largest files"),
    ]


def _steps(cycles: dict[str, Any]) -> list[str]:
    if not cycles["rows"]:
        return []
    lines = [f"**Import cycles** ({cycles['total']:,})", ""]
    lines += [f"- {' → '.join(markdown_code(step) for step in row['steps'])}" for row in cycles["rows"]]
    return [*lines, ""]


def _bugs(data: dict[str, Any]) -> list[str]:
    checked = f"{plural(data['files_checked'], 'file')} with {plural(data['lines_checked'], 'line')}"
    return [f"Checked {checked}; {float(data['findings_per_1000_lines']):g} findings for each 1,000 lines.", ""]


_TABLES: Final[dict[str, Callable[[dict[str, Any]], list[str]]]] = {
    "structure": _structure,
    "bugs": _bugs,
}


def _limits(limits: list[str]) -> list[str]:
    if not limits:
        return []
    return [
        "## ScanLimits",
        "",
        "What this report does not show:",
        "",
        *(f"- {markdown(one)}" for one in limits),
        "",
    ]


def _rows(table: dict[str, Any], columns: Sequence[str], title: str) -> list[str]:
    """One table of a pass; `path:line` joins two fields."""
    if not table["rows"]:
        return []
    shown = [[_cell(row, column) for column in columns] for row in table["rows"]]
    more = f", the first {len(shown):,}" if table["omitted"] else ""
    heads = [column.replace("_", " ") for column in columns]
    return [f"**{title}** ({table['total']:,}{more})", "", *_table(heads, shown), ""]


def _cell(row: dict[str, Any], column: str) -> str:
    if column == "path:line":
        return _place(row)
    value = row[column]
    return markdown_code(value) if column in {"path", "name", "module"} else str(value)


def _table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'|'.join('---' for _ in heads)}|"
    for row in rows:
        yield f"| {' | '.join(markdown_cell(markdown(str(cell))) for cell in row)} |"
