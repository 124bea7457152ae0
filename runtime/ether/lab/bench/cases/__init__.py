"""The cases, each by itself."""
