"""Rankers and how they learn: linear and neural scoring, PDGD, evolution strategies."""
