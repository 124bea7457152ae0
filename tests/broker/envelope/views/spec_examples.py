"""The examples of the spec's documents 1 and 2, word for word.

JSON examples stand as their text; those that the spec writes in Python stand as Python. Where the spec has
"...", the nearest thing that can be read stands here, and a comment says so.
"""

from __future__ import annotations

import json
from typing import Any, Final

# --- Spec 1, Agent Ether -----------------------------------------------------------------------------------

AGENT_INPUT: Final = """
{
  "task_id": "550e8400-e29b-41d4-a716-446655440000",
  "agent": "scout",
  "action": "explore_directory",
  "params": {
    "path": "/workspace/projects/reveal",
    "depth": 2
  },
  "context": {
    "parent_task": "abc-def-123",
    "workflow": "code_review_campaign",
    "budget": {"max_cost": 0.50, "max_time_sec": 300}
  }
}
"""
"""§3.1."""

AGENT_OUTPUT: Final = """
{
  "task_id": "550e8400-e29b-41d4-a716-446655440000",
  "status": "success",
  "agent": "scout",
  "data": {
    "files_found": 42,
    "structure": {"src": 15, "tests": 12, "docs": 8},
    "insights": ["Well-organized codebase", "Good test coverage"]
  },
  "metadata": {
    "cost": 0.0012,
    "duration_ms": 3500,
    "iterations": 8,
    "model": "llama-3.3-70b-versatile",
    "timestamp": "2025-12-03T15:45:00Z"
  },
  "next_actions": [
    {
      "task_id": "new-uuid",
      "agent": "scout",
      "action": "analyze_file",
      "params": {"file": "src/main.py"}
    }
  ]
}
"""
"""§3.1."""

UNSUPPORTED_ACTION: Final[dict[str, Any]] = {
    "task_id": "550e8400-e29b-41d4-a716-446655440000",
    "status": "error",
    "agent": "scout",
    "data": {"error": "Unsupported action: fly"},
    "metadata": {"duration_ms": 0},
}
"""§4.2, with a value for `input.action`."""

FAILED_ACTION: Final[dict[str, Any]] = {
    "task_id": "550e8400-e29b-41d4-a716-446655440000",
    "status": "error",
    "agent": "scout",
    "data": {
        "error": "Insufficient budget for exploration",
        "traceback": "Traceback (most recent call last):\n",
    },
    "metadata": {"duration_ms": 12, "timestamp": "2025-12-03T15:45:00Z"},
}
"""§4.2, with values for `str(e)` and `traceback.format_exc()`."""

DISCOVERED: Final[dict[str, Any]] = {
    "path": "/workspace/projects/reveal",
    "depth": 2,
    "analysis": "Well-organized codebase",
    "files": [],
}
"""§4.2: the data of `explore_directory`."""

JSON_AGGREGATE: Final = """
{
  "summary": {
    "total_tasks": 5,
    "successful": 4,
    "failed": 1,
    "total_cost": 0.0056,
    "total_time_ms": 12500
  },
  "tasks": [],
  "errors": []
}
"""
"""§6.2, with empty lists for `[...]`."""

BOUNDED_INPUT: Final[dict[str, Any]] = {
    "task_id": "...",
    "agent": "scout",
    "action": "explore_directory",
    "params": {"path": "/workspace"},
    "context": {
        "budget": {
            "max_cost": 0.50,  # Stop if cost exceeds $0.50
            "max_time_sec": 300,  # Timeout after 5 minutes
            "max_iterations": 20,  # Prevent runaway loops
        },
        "permissions": {
            "can_modify_files": False,  # Read-only
            "can_access_network": False,  # No external calls
        },
    },
}
"""§7, principle 4."""

CACHED_OUTPUT: Final[dict[str, Any]] = {
    "task_id": "550e8400-e29b-41d4-a716-446655440000",
    "status": "success",
    "agent": "scout",
    "data": {"files_found": 42},
    "metadata": {"cached": True, "cost": 0},
}
"""§8.1, with a value for `cached["result"]`."""

WORKFLOW_ACCEPTED: Final = """{"job_id": "abc-123", "status": "running"}"""
"""§8.4."""

# --- Spec 2, Agentic Interaction & Orchestration -----------------------------------------------------------

CAPABILITY_MANIFEST: Final = """
{
  "agent": "research-agent",
  "version": "1.2.0",
  "capabilities": [
    {"name": "research.context.acquire", "confidence": 0.95, "constraints": ["Requires network fetch tools"], "latency_weight": 1.0},
    {"name": "research.context.deepen", "confidence": 0.92, "constraints": ["Needs multi-source saturation"], "latency_weight": 1.2},
    {"name": "qa.verification.multi-claim", "confidence": 0.88, "constraints": ["Must access source artifacts"], "latency_weight": 1.4}
  ],
  "exclusions": ["content.script.drafting"],
  "notes": "Optimized for depth-first domain extraction."
}
"""  # noqa: E501  word for word
"""§4.1."""

REGISTRY_ENTRY: Final[dict[str, Any]] = {
    "id": "research-agent",
    "version": "1.2.0",
    "role": "Deepens context from several sources",
    "capabilities": json.loads(CAPABILITY_MANIFEST)["capabilities"],
    "interface": ["single", "chained", "dual-phase"],
    "artifactsProduced": ["working-file", "summary-block"],
    "maxDepth": "deep",
    "notes": "Optimized for depth-first domain extraction.",
}
"""§5, a table there: every field of it, with the values that it and §4.1 and §7 name."""

REQUEST_ENVELOPE: Final = """
{
  "request_id": "dlg-2025-10-06-001",
  "from_agent": "script-agent",
  "to_agent": "research-agent",
  "timestamp": "2025-10-06T15:40:00Z",
  "capability": "research.context.deepen",
  "objective": "Expand depth on emerging API changes for Feature X",
  "context_slice": {
    "prior_outline_path": "working/script/outline-v2.md",
    "known_gaps": ["recent deprecations", "performance benchmarks"],
    "constraints": ["Prefer official docs", "Highlight contradictions"]
  },
  "output_contract": {
    "artifact_type": "working-file",
    "expected_sections": ["Sources","Contradictions","Depth Expansion"],
    "quality_gates": ["G1","G2","G3"]
  },
  "timeout_minutes": 15
}
"""
"""§6.2."""

RESPONSE_ENVELOPE: Final = """
{
  "request_id": "dlg-2025-10-06-001",
  "status": "COMPLETED",
  "from_agent": "research-agent",
  "artifact_path": "working/research/depth-expansion-feature-x.md",
  "summary": "Depth expansion complete: 7 sources, 2 contradictions resolved, 1 pending.",
  "metrics": {"sources": 7, "contradictions_resolved": 2, "contradictions_pending": 1, "elapsed_sec": 536},
  "follow_up_recommended": ["qa.verification.multi-claim"],
  "unresolved": ["Benchmark variance between v1.3 and v1.4"]
}
"""
"""§6.4."""

SUGGESTION_RECORD: Final = """
{
  "suggestion_id": "gap-clarifier-2025-10-06-01",
  "proposed_agent": "clarifier-agent",
  "capabilities": [
    "clarification.input.disambiguation",
    "clarification.intent.contract-derivation"
  ],
  "justification": {
    "rejection_rate": 0.33,
    "latency_penalty_ratio": 1.9,
    "clarification_cycles_ratio": 0.62,
    "score": 0.61
  },
  "impact_expectation": "Reduce ambiguity-driven rework in Phase 0 by 40%",
  "rfc_reference": null,
  "submitted_by": "script-agent"
}
"""
"""§8.3."""


def agent_output(data: dict[str, Any]) -> dict[str, Any]:
    """An output of spec 1 round a fragment of its data."""
    return {**CACHED_OUTPUT, "data": data}


AGENT_INPUTS: Final[tuple[dict[str, Any], ...]] = (json.loads(AGENT_INPUT), BOUNDED_INPUT)
AGENT_OUTPUTS: Final[tuple[dict[str, Any], ...]] = (
    json.loads(AGENT_OUTPUT),
    UNSUPPORTED_ACTION,
    FAILED_ACTION,
    CACHED_OUTPUT,
    agent_output(DISCOVERED),
    agent_output(json.loads(JSON_AGGREGATE)),
    agent_output(json.loads(WORKFLOW_ACCEPTED)),
)
MANIFESTS: Final = (json.loads(CAPABILITY_MANIFEST),)
REGISTRY_ENTRIES: Final = (REGISTRY_ENTRY,)
REQUEST_ENVELOPES: Final = (json.loads(REQUEST_ENVELOPE),)
RESPONSE_ENVELOPES: Final = (json.loads(RESPONSE_ENVELOPE),)
SUGGESTION_RECORDS: Final = (json.loads(SUGGESTION_RECORD),)
