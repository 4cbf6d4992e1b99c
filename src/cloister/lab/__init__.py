"""Tier 7: benchmarks."""
