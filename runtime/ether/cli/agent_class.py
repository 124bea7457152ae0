"""Agents named on the command line, as `module:Class`."""

from __future__ import annotations
