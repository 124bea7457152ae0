"""The examples of the spec's document 3, word for word.

The spec writes them in Python; its fragments stand in a response that is otherwise plain.
"""

from __future__ import annotations

from typing import Any, Final

SUMMARIES: Final = (
    "Created users table with email_verified column. Added index on email field for faster lookups. Migration script generated at migrations/001_users.sql.",  # noqa: E501
    "Analyzed calculate_total function in billing.py. Function computes order total by summing line items and applying tax/discount. Takes Order object, returns Decimal. No side effects detected.",  # noqa: E501
    "Implemented JWT authentication middleware. Added token validation, expiry checks, and user context injection. All 15 integration tests passing.",  # noqa: E501
    "Done.",
    "I created the users table and then I added an email field and then I indexed it and then I wrote a migration and...",
)
""""summary", good and bad: what spec 3 calls bad is carried, and judged by who reads it; an empty one is refused."""

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

AGENT_INFOS: Final = (AGENT_INFO,)
