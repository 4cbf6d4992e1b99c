"""Tier 0: records, ids, rights, random streams, errors, settings.

This package imports nothing of Cloister's; every other package may import it. The modules that
need numba (`cloister.core.kernel`, `cloister.core.counter_random`) or pydantic
(`cloister.core.settings`) are imported by name where they are used, so that a command that needs
none of them starts at once.
"""
