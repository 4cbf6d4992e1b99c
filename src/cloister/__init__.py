"""Cloister: search and learning to rank over data that may not leave home."""

__version__ = "0.1.0"
