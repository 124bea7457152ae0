"""The examples of the spec's documents 1, 2 and 3, word for word.

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

# --- Spec 3, Agent Integration Guide -----------------------------------------------------------------------

SUMMARIES: Final = (
    "Created users table with email_verified column. Added index on email field for faster lookups. Migration script generated at migrations/001_users.sql.",  # noqa: E501
    "Analyzed calculate_total function in billing.py. Function computes order total by summing line items and applying tax/discount. Takes Order object, returns Decimal. No side effects detected.",  # noqa: E501
    "Implemented JWT authentication middleware. Added token validation, expiry checks, and user context injection. All 15 integration tests passing.",  # noqa: E501
    "Done.",
    "I created the users table and then I added an email field and then I indexed it and then I wrote a migration and...",  # noqa: E501
    "",
)
""""summary", good and bad: what spec 3 calls bad is carried like the rest, and judged by who reads it."""

DATA: Final[tuple[dict[str, Any], ...]] = (
    {
        "files_modified": ["billing.py", "tests/test_billing.py"],
        "lines_changed": {
            "billing.py": {"added": 45, "removed": 12},
            "tests/test_billing.py": {"added": 30, "removed": 0},
        },
        "functions_added": ["calculate_tax", "apply_discount"],
        "functions_modified": ["calculate_total"],
    },
    {
        "function_name": "calculate_total",
        "parameters": [
            {"name": "order", "type": "Order", "required": True},
            {"name": "tax_rate", "type": "float", "required": False, "default": 0.0},
        ],
        "return_type": "Decimal",
        "dependencies": ["calculate_tax", "apply_discount", "Order.line_items"],
        "complexity_score": 0.35,
        "side_effects": [],
    },
    {
        "tests_run": 15,
        "tests_passed": 15,
        "tests_failed": 0,
        "coverage_percent": 92.5,
        "test_files": ["tests/test_billing.py"],
        "duration_seconds": 2.3,
    },
    {
        "table_name": "users",
        "columns": [
            {"name": "id", "type": "INTEGER", "primary_key": True},
            {"name": "email", "type": "VARCHAR(255)", "unique": True},
            {"name": "email_verified", "type": "BOOLEAN", "default": False},
        ],
        "indexes": [{"name": "idx_users_email", "columns": ["email"], "unique": True}],
        "migration_file": "migrations/001_users.sql",
    },
)
""""data" by type of subgoal."""

DECOMPOSITIONS: Final[tuple[dict[str, Any], ...]] = (
    {"execution_order": [{"phase": "sequential", "subgoals": ["sg1", "sg2", "sg3"]}]},
    {"execution_order": [{"phase": "parallel", "subgoals": ["sg1", "sg2", "sg3"]}]},
    {
        "execution_order": [
            {"phase": "sequential", "subgoals": ["sg1"]},  # Analyze requirements first
            {"phase": "parallel", "subgoals": ["sg2", "sg3"]},  # Implement and test in parallel
            {"phase": "sequential", "subgoals": ["sg4"]},  # Deploy after both complete
        ]
    },
    {"agent_timeout_seconds": 60, "allow_timeout_override": True},
    {"query_timeout_seconds": 300},
)
"""Execution patterns and configurations: no envelopes themselves, but what a planner's answer carries."""

CONFIDENCES: Final = (0.95, 0.80, 0.65, 0.40)
""""confidence"."""

TOOLS_USED: Final = (
    ["file_reader", "code_analyzer", "file_writer"],
    ["test_runner", "code_analyzer"],
    ["file_reader", "llm_call", "file_writer", "test_runner"],
    ["file_reader", "code_analyzer"],
)
""""tools_used"."""

METADATA: Final[dict[str, Any]] = {
    "duration_ms": 1234,
    "model_used": "claude-sonnet-4",
    "tokens_used": 2500,
    "agent_version": "1.2.0",
    "retries": 0,
    "warnings": ["File auth.py has high complexity (0.85), consider refactoring"],
    "debug_info": {"test_command": "pytest tests/test_billing.py -v", "environment": "python3.10"},
}
""""metadata"."""

IMPLEMENTATION: Final[dict[str, Any]] = {
    "subgoal_id": "sg2",
    "summary": "Implemented JWT authentication middleware in auth/middleware.py. Middleware validates JWT tokens, checks expiry, and injects user context into request. Added error handling for expired/invalid tokens. All 12 integration tests passing with 95% coverage.",  # noqa: E501
    "data": {
        "files_modified": ["auth/middleware.py", "tests/test_auth_middleware.py"],
        "lines_changed": {
            "auth/middleware.py": {"added": 78, "removed": 0},
            "tests/test_auth_middleware.py": {"added": 145, "removed": 0},
        },
        "functions_added": ["validate_jwt_token", "extract_user_from_token", "jwt_middleware"],
        "test_results": {"tests_run": 12, "tests_passed": 12, "coverage_percent": 95.2},
    },
    "confidence": 0.92,
    "tools_used": ["file_reader", "code_analyzer", "file_writer", "test_runner"],
    "metadata": {
        "duration_ms": 4567,
        "model_used": "claude-sonnet-4",
        "tokens_used": 3200,
        "agent_version": "2.1.0",
        "retries": 0,
        "warnings": [],
        "debug_info": {
            "test_command": "pytest tests/test_auth_middleware.py -v --cov",
            "python_version": "3.10.12",
        },
    },
}
"""Example 1."""

ANALYSIS: Final[dict[str, Any]] = {
    "subgoal_id": "sg1",
    "summary": "Analyzed billing.py module structure. Found 8 functions with average complexity 0.42. Module handles order calculations including tax, discounts, and shipping. Dependencies on Order model and config.tax_rates. No critical issues found.",  # noqa: E501
    "data": {
        "module_path": "billing.py",
        "functions": [
            {
                "name": "calculate_total",
                "complexity": 0.35,
                "lines": 25,
                "dependencies": ["calculate_tax", "apply_discount"],
            },
            {"name": "calculate_tax", "complexity": 0.15, "lines": 10, "dependencies": ["config.tax_rates"]},
            {
                "name": "apply_discount",
                "complexity": 0.52,
                "lines": 35,
                "dependencies": ["Order.discount_code", "validate_discount"],
            },
            # ... more functions
        ],
        "imports": ["decimal", "models.order", "config"],
        "average_complexity": 0.42,
        "total_lines": 180,
        "issues": [],
    },
    "confidence": 0.98,
    "tools_used": ["file_reader", "code_analyzer"],
    "metadata": {
        "duration_ms": 234,
        "agent_version": "2.0.1",
        "retries": 0,
        "warnings": [],
        "debug_info": {"analyzer": "ast-based"},
    },
}
"""Example 2."""

FAILED_EXECUTION: Final[dict[str, Any]] = {
    "subgoal_id": "sg3",
    "summary": "Attempted to deploy application to production but encountered authentication error. Staging deployment completed successfully. Production deployment blocked due to missing AWS credentials in environment.",  # noqa: E501
    "data": {
        "staging_url": "https://staging.example.com",
        "staging_status": "deployed",
        "production_status": "failed",
        "error_message": "AWS credentials not found in environment (AWS_ACCESS_KEY_ID)",
        "partial_results": {
            "docker_image_built": True,
            "docker_image_pushed": True,
            "ecs_task_updated": False,
        },
    },
    "confidence": 0.45,
    "tools_used": ["shell_command", "git_operations"],
    "metadata": {
        "duration_ms": 12000,
        "agent_version": "1.5.0",
        "retries": 2,
        "warnings": [
            "Production deployment requires manual credential setup",
            "Fallback to staging deployment only",
        ],
        "debug_info": {
            "docker_build_time_ms": 8000,
            "docker_push_time_ms": 3500,
            "deployment_error": "AwsCredentialError: Missing access key",
        },
    },
}
"""Example 3."""

TIMED_OUT: Final[dict[str, Any]] = {
    "subgoal_id": "sg1",
    "summary": "Execution timed out after 60s. Partial results may be incomplete.",
    "data": {"files_modified": []},
    "confidence": 0.3,
    "tools_used": ["file_reader"],
    "metadata": {"timeout": True, "timeout_seconds": 60, "duration_ms": 60 * 1000},
}
"""Timeout Handling, with values for what it computes."""

AGENT_INFO: Final[dict[str, Any]] = {
    "agent_id": "code-analyzer",
    "name": "Code Analyzer",
    "description": "Analyzes code structure, complexity, and dependencies",
    "capabilities": ["code_analysis", "complexity_scoring", "dependency_graph"],
    "tools": ["file_reader", "ast_parser", "code_analyzer"],
    "version": "2.0.1",
}
"""Registering an Agent; the executor, a function, is no data."""


def agent_response(**changed: Any) -> dict[str, Any]:
    """A response of spec 3 round a fragment of one."""
    plain = {"subgoal_id": "sg1", "summary": "Done.", "confidence": 0.9, "tools_used": [], "metadata": {}}
    return {**plain, **changed}


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
AGENT_RESPONSES: Final[tuple[dict[str, Any], ...]] = (
    IMPLEMENTATION,
    ANALYSIS,
    FAILED_EXECUTION,
    TIMED_OUT,
    *(agent_response(summary=summary) for summary in SUMMARIES),
    *(agent_response(data=data) for data in (*DATA, *DECOMPOSITIONS)),
    *(agent_response(confidence=confidence) for confidence in CONFIDENCES),
    *(agent_response(tools_used=tools) for tools in TOOLS_USED),
    agent_response(metadata=METADATA),
)
SUBGOAL_REQUESTS: Final[tuple[dict[str, Any], ...]] = (
    {"subgoal": {"id": "sg1"}, "timeout": 60},
    {"subgoal": {"id": "sg2", "description": "Implement"}, "context": IMPLEMENTATION},
    {"subgoal": {"id": "sg4", "criticality": "CRITICAL"}, "context": [ANALYSIS, FAILED_EXECUTION]},
)
""""Agent Execution Patterns": `execute_agent(agent, subgoal, context=…)`, `execute(self, subgoal, …)`."""

MANIFESTS: Final = (json.loads(CAPABILITY_MANIFEST),)
REGISTRY_ENTRIES: Final = (REGISTRY_ENTRY,)
AGENT_INFOS: Final = (AGENT_INFO,)
REQUEST_ENVELOPES: Final = (json.loads(REQUEST_ENVELOPE),)
RESPONSE_ENVELOPES: Final = (json.loads(RESPONSE_ENVELOPE),)
SUGGESTION_RECORDS: Final = (json.loads(SUGGESTION_RECORD),)
