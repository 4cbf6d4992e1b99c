"""Tier 6: who attacks: what curious servers and malicious participants get out of a federation."""
