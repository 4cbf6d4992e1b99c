"""Releases by the mechanisms that are known in full: one file a family.

:mod:`cloister.privacy.release` has what every release states.
"""
