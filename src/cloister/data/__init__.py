"""Tier 1: readers, synthetic worlds, click models and partitions."""
