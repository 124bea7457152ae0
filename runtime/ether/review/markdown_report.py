"""The report of a review as Markdown: the same data as the JSON, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ether.review.scout.files.words import plural
from ether_broker.text import markdown, markdown_cell, markdown_code

__all__ = ["render"]

_PASSES: Final = ("structure", "bugs", "documentation")
_HOT_FILES: Final = 10


def render(report: dict[str, Any]) -> str:
    """Write the report; nothing stands here that is not in `report`."""
    whys = {rule["rule"]: rule["why"] for rule in report["rules"]}
    lines = [
        "# Code review",
        "",
        f"Generated {report['generated']} ({report['schema']}). The same data: `review.json`.",
        "",
        *_summary(report["summary"]),
        *_failures(report["failures"]),
        *_block("## What to do", [_advice(*one) for one in enumerate(report["rules"], 1)]),
        *_top(report["top_findings"]),
        *_hot_files(report["hot_files"]),
        *(line for directory in report["directories"] for line in _directory(directory, whys)),
        *_block("## Limits\n\nWhat this report does not show:", [f"- {markdown(one)}" for one in report["limits"]]),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _block(heading: str, lines: Sequence[str]) -> list[str]:
    """Lines under a heading; nothing at all if there are none."""
    return [heading, "", *lines, ""] if lines else []


def _table(heading: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """A table under a heading; nothing at all if it has no rows."""
    cells = [" | ".join(markdown_cell(markdown(str(cell))) for cell in row) for row in rows]
    head = [f"| {' | '.join(heads)} |", f"|{'|'.join('---' for _ in heads)}|"]
    return _block(heading, [*head, *(f"| {row} |" for row in cells)]) if rows else []


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
        *([("Total cost", f"${summary['cost_usd']:.4f}")] if summary["cost_usd"] else []),
        ("Time", f"{summary['wall_seconds']:.1f} s"),
        ("Work of all agents", f"{summary['work_seconds']:.1f} s"),
        ("Processes", "this one" if not summary["processes"] else f"{summary['processes']:,}"),
    ]
    return [markdown(summary["sentence"]), "", *_table("## Summary", ("Metric", "Value"), rows)]


def _failures(failures: list[dict[str, Any]]) -> list[str]:
    rows = [
        (one["directory"], one["pass"], one["status"], f"{one['code'] or 'cut short'}: {one['message']}")
        for one in failures
    ]
    return _table("## Failures", ("Directory", "Pass", "Status", "Reason"), rows)


def _advice(number: int, rule: dict[str, Any]) -> str:
    places = [_place(place) for place in rule["places"]]
    rest = rule["count"] - len(places)
    more = f" and {rest:,} more" if rest > 0 else ""
    head = f"**{markdown(rule['rule'])}** ({rule['count']:,})"
    return f"{number}. {head}: {markdown(rule['why'])}. {markdown(rule['fix'])} {', '.join(places)}{more}"


def _top(findings: list[dict[str, Any]]) -> list[str]:
    rows = [(one["severity"], _place(one), markdown_code(one["rule"]), one["message"]) for one in findings]
    return _table("## Top findings", ("Severity", "Place", "Rule", "What and why"), rows)


def _hot_files(files: list[dict[str, Any]]) -> list[str]:
    rows = [
        (markdown_code(f"{one['source']}/{one['path']}"), one["findings"], one["errors"], one["warnings"])
        for one in files[:_HOT_FILES]
    ]
    return _table("## Files with the most", ("File", "Findings", "Errors", "Warnings"), rows)


def _place(one: dict[str, Any]) -> str:
    return markdown_code(f"{one.get('source', '')}/{one['path']}:{one['line']}".removeprefix("/"))


def _directory(directory: dict[str, Any], whys: dict[str, str]) -> list[str]:
    size = f"{plural(directory['files'], 'file')}, {plural(directory['lines'], 'line')}"
    passes = directory["passes"]
    return [
        f"## {markdown(directory['name'])}",
        "",
        f"{size}, in {markdown_code(directory['path'])}.",
        "",
        *(line for name in _PASSES if name in passes for line in _pass(name, passes[name], whys)),
    ]


def _pass(name: str, result: dict[str, Any], whys: dict[str, str]) -> list[str]:
    heading = f"### {name.capitalize()}"
    ran = f"{result['status']} by {markdown_code(result['agent'] or 'nobody')} in {result['seconds']:.1f} s"
    if "error" in result:
        return [heading, "", f"**{ran}** {markdown(result['error']['message'])}", ""]
    lines = [heading, "", f"{ran}.", "", *(f"- {markdown(insight)}" for insight in result["insights"]), ""]
    if "omitted" not in result["data"]:
        lines += _structure(result["data"]) if name == "structure" else _bugs(result["data"]) if name == "bugs" else []
    return lines + _findings(result, whys)


def _findings(result: dict[str, Any], whys: dict[str, str]) -> list[str]:
    """Findings by rule, the reason once and then the places."""
    lines: list[str] = []
    for name in dict.fromkeys(finding["rule"] for finding in result["findings"]):
        findings, why = [one for one in result["findings"] if one["rule"] == name], whys.get(name, "")
        severity, count = markdown(findings[0]["severity"]), result["by_rule"][name]
        places = [f"- {_place(one)} {markdown(one['message'].removesuffix(f': {why}'))}." for one in findings]
        lines += _block(f"**{markdown(name)}** ({severity}, {count:,}): {markdown(why)}.", places)
    if result["findings_omitted"]:
        lines += [f"{result['findings_omitted']:,} more are counted and not shown.", ""]
    return lines


def _structure(data: dict[str, Any]) -> list[str]:
    imports = data["imports"]
    longest = data["longest_functions"]  # ruff does not say how complex a simple function is
    longest = {**longest, "rows": [{**row, "complexity": row["complexity"] or "–"} for row in longest["rows"]]}
    cycles = [f"- {' → '.join(map(markdown_code, row['steps']))}" for row in imports["cycles"]["rows"]]
    return [
        *_rows(data["languages"], ("language", "files", "lines"), "Languages"),
        *_rows(data["most_complex_functions"], ("path:line", "name", "complexity", "lines"), "Most complex"),
        *_rows(longest, ("path:line", "name", "lines", "complexity"), "Longest"),
        *_rows(imports["most_imported"], ("module", "path", "importers"), "Most imported"),
        *_block(f"**Import cycles** ({imports['cycles']['total']:,})", cycles),
        *_rows(data["largest_files"], ("path", "lines"), "Largest files"),
    ]


def _bugs(data: dict[str, Any]) -> list[str]:
    checked = f"{plural(data['files_checked'], 'file')} with {plural(data['lines_checked'], 'line')}"
    return [f"Checked {checked}; {float(data['findings_per_1000_lines']):g} findings for each 1,000 lines.", ""]


def _rows(table: dict[str, Any], columns: Sequence[str], title: str) -> list[str]:
    """One table of a pass; `path:line` joins two fields."""
    more = f", the first {len(table['rows']):,}" if table["omitted"] else ""
    heads = [column.replace("_", " ") for column in columns]
    rows = [[_cell(row, column) for column in columns] for row in table["rows"]]
    return _table(f"**{title}** ({table['total']:,}{more})", heads, rows)


def _cell(row: dict[str, Any], column: str) -> str:
    if column == "path:line":
        return _place(row)
    value = row[column]
    return markdown_code(value) if column in {"path", "name", "module"} else str(value)
