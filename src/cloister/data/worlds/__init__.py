"""Synthetic worlds: seeded collections that stand in for data that cannot be shipped."""
