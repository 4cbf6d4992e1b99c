"""Forgetting clients of a simulated federation: the store, the deed, the certificate."""
