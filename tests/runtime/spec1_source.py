"""Spec 1's own code, word for word: §3.1's input and output, §4.1's base class, and §4.2's agent with what it imports."""

from __future__ import annotations

from typing import Final

__all__ = ["AGENT_IO", "BASE", "SCOUT"]

AGENT_IO: Final = r'''
from dataclasses import dataclass
from typing import Any, Dict, Optional

@dataclass
class AgentInput:
    """Standard agent input contract"""
    task_id: str                        # UUID for provenance
    agent: str                          # Which agent to invoke
    action: str                         # What capability to use
    params: Dict[str, Any]             # Action-specific parameters
    context: Optional[Dict[str, Any]] = None  # Parent task, workflow metadata

from enum import Enum
from typing import List

class AgentStatus(Enum):
    SUCCESS = "success"
    ERROR = "error"
    PARTIAL = "partial"  # Partial success (some tasks failed)

@dataclass
class AgentOutput:
    """Standard agent output contract"""
    task_id: str                              # Links to request
    status: AgentStatus                       # Outcome
    agent: str                                # Who completed it
    data: Dict[str, Any]                      # The actual result
    metadata: Dict[str, Any]                  # Cost, duration, model used
    next_actions: Optional[List[AgentInput]] = None  # Chain continuation
'''
"""§3.1."""

BASE: Final = r'''
from abc import ABC, abstractmethod
from typing import List

class ComposableAgent(ABC):
    """Base class for composable agents

    All agents must implement:
    - execute(): Standard I/O processing
    - can_handle(): Capability checking
    - capabilities: Advertise what this agent can do
    """

    @abstractmethod
    def execute(self, input: AgentInput) -> AgentOutput:
        """Execute agent task with standard I/O

        Args:
            input: AgentInput with task_id, action, params

        Returns:
            AgentOutput with status, data, metadata

        Raises:
            ValueError: If action not supported
            RuntimeError: If execution fails
        """
        pass

    @abstractmethod
    def can_handle(self, action: str) -> bool:
        """Check if agent can handle this action

        Args:
            action: Action name (e.g., "explore_directory")

        Returns:
            True if agent supports this action
        """
        pass

    @property
    @abstractmethod
    def capabilities(self) -> List[str]:
        """List actions this agent supports

        Returns:
            List of action names (e.g., ["explore", "analyze", "summarize"])
        """
        pass
'''
"""§4.1."""

SCOUT: Final = r'''
import time
import uuid
from typing import Dict, Any

class ComposableScout(ComposableAgent):
    """Scout agent with standard AgentIO interface

    Capabilities:
    - explore_directory: Analyze directory structure
    - analyze_file: Deep-dive into single file
    - search_content: Find patterns in codebase
    - extract_structure: Generate AST/outline
    - summarize_findings: Aggregate results
    """

    def __init__(self, scout_instance=None):
        """Initialize with optional Scout instance"""
        self.scout = scout_instance or Scout()
        self._capabilities = [
            "explore_directory",
            "analyze_file",
            "search_content",
            "extract_structure",
            "summarize_findings"
        ]

    @property
    def capabilities(self) -> List[str]:
        return self._capabilities

    def can_handle(self, action: str) -> bool:
        return action in self._capabilities

    def execute(self, input: AgentInput) -> AgentOutput:
        """Execute with standard I/O"""
        start = time.time()

        # Validate action
        if not self.can_handle(input.action):
            return AgentOutput(
                task_id=input.task_id,
                status=AgentStatus.ERROR,
                agent="scout",
                data={"error": f"Unsupported action: {input.action}"},
                metadata={"duration_ms": 0}
            )

        try:
            # Route to appropriate handler
            handler = getattr(self, f"_handle_{input.action}")
            result = handler(input.params, input.context)

            return AgentOutput(
                task_id=input.task_id,
                status=AgentStatus.SUCCESS,
                agent="scout",
                data=result,
                metadata={
                    "duration_ms": int((time.time() - start) * 1000),
                    "cost": self.scout.bot.total_cost(),
                    "model": self.scout.model,
                    "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ")
                }
            )
        except Exception as e:
            return AgentOutput(
                task_id=input.task_id,
                status=AgentStatus.ERROR,
                agent="scout",
                data={"error": str(e), "traceback": traceback.format_exc()},
                metadata={
                    "duration_ms": int((time.time() - start) * 1000),
                    "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ")
                }
            )

    def _handle_explore_directory(self, params: Dict[str, Any], context: Dict) -> Dict:
        """Explore directory structure"""
        path = params["path"]
        depth = params.get("depth", 2)

        # Check budget constraints
        if context and "budget" in context:
            if context["budget"].get("max_cost", float("inf")) < 0.001:
                raise ValueError("Insufficient budget for exploration")

        prompt = f"Explore {path} to depth {depth}. Identify structure, key files, patterns."
        response = self.scout.chat(prompt)

        return {
            "path": path,
            "depth": depth,
            "analysis": response,
            "files": []  # Could enhance with actual file list
        }

    def _handle_analyze_file(self, params: Dict[str, Any], context: Dict) -> Dict:
        """Analyze single file"""
        file_path = params["file"]

        prompt = f"Analyze {file_path}. What does this code do? Any issues?"
        response = self.scout.chat(prompt)

        return {
            "file": file_path,
            "analysis": response
        }

    def _handle_summarize_findings(self, params: Dict[str, Any], context: Dict) -> Dict:
        """Aggregate multiple results"""
        findings = params.get("findings", [])

        prompt = f"Summarize these findings:\n{json.dumps(findings, indent=2)}"
        response = self.scout.chat(prompt)

        return {
            "summary": response,
            "total_findings": len(findings)
        }
'''
"""§4.2."""
