"""A report for people, for programs and for docs/performance.md."""
