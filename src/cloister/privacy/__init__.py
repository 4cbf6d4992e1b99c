"""Tier 2: what leaves a party: mechanisms, the ledger, secure aggregation, sealed messages."""
