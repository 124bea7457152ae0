"""The parameters of Scout's capabilities: what a delegation must say, and what it may."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from ether.review.scout.explore import PassName
from ether.review.scout.findings.finding import Finding
from ether.review.scout.summary import Group

__all__ = ["Exploration", "FilePath", "Findings", "Search"]


class _Params(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)


class Exploration(_Params):
    """The parameters of `scout.explore_directory`."""

    path: Annotated[str, Field(min_length=1)]
    """A directory on the machine of the node that runs the agent."""
    passes: Annotated[tuple[PassName, ...], Field(min_length=1)] = tuple(PassName)
    """Ways to look at it; all three unless given."""
    depth: Annotated[int, Field(ge=0, le=64)] = 64
    """Directories below `path`; 0 means its own files only."""
    max_findings: Annotated[int, Field(ge=1, le=2_000)] = 400
    """Findings told for each pass, gravest first; all are counted."""


class FilePath(_Params):
    """The parameters of `scout.analyze_file` and `scout.extract_structure`."""

    path: Annotated[str, Field(min_length=1, validation_alias=AliasChoices("path", "file"))]
    """A file on the machine of the node that runs the agent; spec 1's own example names it `file`."""


class Search(_Params):
    """The parameters of `scout.search_content`."""

    path: Annotated[str, Field(min_length=1)]
    """A directory on the machine of the node that runs the agent."""
    pattern: Annotated[str, Field(min_length=1, max_length=1_000)]
    regex: bool = False
    """Whether the pattern is a regular expression of Python's `re`; literal text unless so."""
    ignore_case: bool = False
    include: tuple[str, ...] = ()
    """Glob patterns of relative paths, as in `*.py`; all files unless given."""
    context: Annotated[int, Field(ge=0, le=20)] = 0
    """Lines shown before and after each match."""
    limit: Annotated[int, Field(ge=1, le=2_000)] = 200
    """Matching lines in all."""
    timeout: Annotated[float, Field(gt=0, le=600)] = 30.0
    """Seconds for the search itself."""


class Findings(_Params):
    """The parameters of `scout.summarize_findings`."""

    groups: tuple[Group, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Findings without a source, for those who have one list only (spec 1 §4.2)."""
    top: Annotated[int, Field(ge=1, le=200)] = 30
    """Findings and files named, each at most so many."""
