"""Tier 8: the command line."""
