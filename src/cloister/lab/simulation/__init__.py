"""Simulated federations: one run from its settings, grids of runs, and what came out of them."""
